"""Fixtures that run scripts under MicroPython: on the emulated board and on the Unix port."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from mpremote.romfs import make_romfs

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "firmware"))

from qemu import Board  # noqa: E402

ERASE = """
import os
def erase(path):
    for name, kind, *_ in os.ilistdir(path):
        full = path + "/" + name
        if path == "" and name in ("rom", "remote"):
            continue
        if kind == 0x4000:
            erase(full)
            os.rmdir(full)
        else:
            os.remove(full)
erase("")
"""


@pytest.fixture(scope="session")
def romfs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ROMFS image by MicroPython's own builder: hello.txt, data.bin (1 KB) and answer.py."""
    folder = tmp_path_factory.mktemp("rom") / "files"
    folder.mkdir()
    (folder / "hello.txt").write_text("hello from ROM\n")
    (folder / "data.bin").write_bytes(bytes(range(256)) * 4)
    (folder / "answer.py").write_text("ANSWER = 42\n")
    image = folder.with_suffix(".romfs")
    image.write_bytes(make_romfs(str(folder), mpy_cross=False))
    return image


@pytest.fixture(scope="session")
def _session_board(romfs: Path) -> Iterator[Board]:
    with Board(romfs) as board:
        yield board


@pytest.fixture
def board(_session_board: Board) -> Board:
    """The emulated board, without files and freshly reset, with `romfs` at /rom. Do not crash it:
    a test that needs a board of its own writes `with Board(...) as board:`."""
    _session_board.run(ERASE)
    return _session_board


def _run(program: str, script: str, seconds: float, variables: dict[str, object]) -> str:
    path = ROOT / "build" / program / "micropython"
    if not path.is_file():
        pytest.fail(f"no {path}: run `make {program}`")
    lines = "".join(f"{name} = {value!r}\n" for name, value in variables.items())
    done = subprocess.run(
        [path, "-c", lines + script], capture_output=True, text=True, timeout=seconds
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def unix() -> Callable[..., str]:
    """unix(script, seconds=60, **variables) -> what the script prints under the Unix port."""
    return lambda script, seconds=60, **variables: _run("unix", script, seconds, variables)


@pytest.fixture(scope="session")
def unix_asan() -> Callable[..., str]:
    """As `unix`, built with ASan, and UBSan in the module."""
    return lambda script, seconds=60, **variables: _run("unix-asan", script, seconds, variables)
