"""The emulated board through the real `mpremote`: every command that a user of a board needs."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import random
import select
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from qemu import Board

MPREMOTE = [sys.executable, "-m", "mpremote", "connect"]


def mpremote(board: Board, *args: str | Path) -> str:
    """Runs one mpremote command line against the board; returns what it prints."""
    command = [*MPREMOTE, board.port, *map(str, args)]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.replace("\r\n", "\n")


class Repl:
    """`mpremote repl` in a terminal of its own, with keys typed and the screen read."""

    def __init__(self, board: Board) -> None:
        self._terminal, slave = pty.openpty()
        self._process = subprocess.Popen(
            [*MPREMOTE, board.port, "repl"], stdin=slave, stdout=slave, stderr=slave
        )
        os.close(slave)
        end = time.monotonic() + 20
        while termios.tcgetattr(self._terminal)[3] & termios.ICANON:  # until it takes single keys
            assert time.monotonic() < end, "mpremote repl did not start"
            time.sleep(0.02)

    def __enter__(self) -> Repl:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._terminal)

    def type(self, keys: str, until: str, seconds: float = 20) -> str:
        """Types `keys`; returns what is shown up to and with `until`."""
        os.write(self._terminal, keys.encode())
        shown = ""
        end = time.monotonic() + seconds
        while until not in shown:
            ready, _, _ = select.select([self._terminal], [], [], max(0, end - time.monotonic()))
            assert ready, f"{until!r} did not come within {seconds} s: {shown!r}"
            shown += os.read(self._terminal, 4096).decode(errors="replace")
        return shown


def test_exec(board: Board) -> None:
    assert mpremote(board, "exec", "import sys; print(sys.platform)") == "qemu\n"


def test_eval(board: Board) -> None:
    assert mpremote(board, "eval", "2 ** 100") == f"{2**100}\n"


def test_run(board: Board, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("for i in range(3):\n    print('line', i)\n")
    assert mpremote(board, "run", script) == "line 0\nline 1\nline 2\n"


def test_traceback_is_a_failure(board: Board) -> None:
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        mpremote(board, "exec", "1 / 0")


def test_files_both_ways(board: Board, tmp_path: Path) -> None:
    source, back = tmp_path / "source", tmp_path / "back"
    source.write_bytes(random.Random(1).randbytes(5000))
    mpremote(board, "fs", "cp", source, ":data.bin")
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    assert digest in mpremote(board, "fs", "sha256sum", ":data.bin")
    mpremote(board, "fs", "cp", ":data.bin", back)
    assert back.read_bytes() == source.read_bytes()


def test_folders(board: Board, tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c.txt").write_text("text")
    mpremote(board, "fs", "cp", "-r", tmp_path / "a", ":")
    listing = mpremote(board, "fs", "ls", ":a/b")
    assert "4 c.txt" in listing
    assert mpremote(board, "fs", "cat", ":a/b/c.txt") == "text"
    mpremote(board, "fs", "rm", "-r", ":a")
    assert board.run("import os; print(os.listdir())") == "['rom']\n"


def test_mount(board: Board, tmp_path: Path) -> None:
    (tmp_path / "hosted.py").write_text("WHERE = __file__\n")
    script = "import hosted, os; print('at', os.getcwd(), hosted.WHERE)"
    assert "at /remote hosted.py\n" in mpremote(board, "mount", tmp_path, "exec", script)


def test_mip_from_a_folder(board: Board, tmp_path: Path) -> None:
    (tmp_path / "greet.py").write_text("def greet():\n    return 'hi'\n")
    package = {"urls": [["greet.py", "greet.py"]], "version": "1.0"}
    (tmp_path / "package.json").write_text(json.dumps(package))
    mpremote(board, "mip", "install", tmp_path / "package.json")
    assert board.run("import greet; print(greet.greet(), greet.__file__)") == "hi /lib/greet.py\n"


def test_romfs_deploy(board: Board, romfs: Path) -> None:
    assert f"{14 << 20} bytes" in mpremote(board, "romfs", "query")
    mpremote(board, "romfs", "deploy", romfs)
    assert board.run("print(open('/rom/hello.txt').read())") == "hello from ROM\n\n"


def test_soft_reset(board: Board) -> None:
    mpremote(board, "exec", "x = 1")
    assert mpremote(board, "resume", "eval", "'x' in globals()") == "True\n"
    mpremote(board, "resume", "soft-reset")
    assert mpremote(board, "resume", "eval", "'x' in globals()") == "False\n"


def test_busy_board_is_interrupted_by_the_next_command(board: Board) -> None:
    mpremote(board, "exec", "--no-follow", "while True: pass")
    assert mpremote(board, "exec", "print('alive')") == "alive\n"


def test_ctrl_c_at_the_repl(board: Board) -> None:
    with Repl(board) as repl:
        repl.type("\r", ">>> ")
        repl.type("exec(\"print('go' * 2)\\nwhile True: pass\")\r", "gogo")
        assert "KeyboardInterrupt" in repl.type("\x03", ">>> ")
        repl.type("import time; print('go' * 2); time.sleep(60)\r", "gogo")
        assert "KeyboardInterrupt" in repl.type("\x03", ">>> ")
        assert "\r\n4096\r\n" in repl.type("2 ** 12\r", ">>> ")


def test_boot_and_main_run_at_soft_reset(board: Board, tmp_path: Path) -> None:
    for name in ("boot.py", "main.py"):
        (tmp_path / name).write_text(f"print('{name} ' + 'runs')\n")
        mpremote(board, "fs", "cp", tmp_path / name, ":")
    with Repl(board) as repl:
        repl.type("\r", ">>> ")
        shown = repl.type("\x04", ">>> ")
    assert shown.index("soft reboot") < shown.index("boot.py runs") < shown.index("main.py runs")
    assert "QEMU_M7" in shown.splitlines()[-3]  # the banner names the board
