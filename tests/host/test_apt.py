"""Which packages firmware/apt.sh installs, with stand-ins for apt."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "firmware/apt.sh"

COMMON = "gcc-aarch64-linux-gnu libc6-dev-arm64-cross gcc-xtensa-lx106 qemu-user".split()
OLD = [*COMMON, "qemu-system-misc", "clang-19", "lld-19"]  # as Debian 12
NEW = [*OLD, "qemu-system-riscv", "gcc-14-riscv64-linux-gnu"]  # as Debian 13
CHOSEN = {
    "old": set(OLD),
    "new": {*COMMON, "qemu-system-riscv", "gcc-14-riscv64-linux-gnu"},
}

# Everything is installed but what the file `absent` names. Of that apt knows what is in `lists`,
# and what is in `mirror` after an update.
STUBS = {
    "apt-cache": """[ "$1" = show ] || exit 0
        grep -qxF -e "$2" lists || ! grep -qxF -e "$2" absent && echo "Package: $2" """,
    "apt-get": """echo "$@" >>calls
        [ "$1" != update ] || cp mirror lists""",
    "dpkg-query": 'for name in "$@"; do :; done; grep -qxF -e "$name" absent || echo installed',
    "clang": "cat >/dev/null",  # has libFuzzer
    "id": "echo 0",
}


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder with the stubs, on a machine that has all but the packages of tests."""
    (tmp_path / "bin").mkdir()
    for name, script in STUBS.items():
        stub = tmp_path / "bin" / name
        stub.write_text(f"#!/bin/sh\ncd '{tmp_path}'\n{script}\n")
        stub.chmod(0o755)
    write(tmp_path, absent=[*NEW, "clang-18", "lld-18"], lists=[], mirror=[], calls=[])
    return tmp_path


def write(machine: Path, **files: list[str]) -> None:
    for file, lines in files.items():
        (machine / file).write_text("".join(f"{line}\n" for line in lines))


def run(machine: Path, *arguments: str) -> list[list[str]]:
    """Runs the script, which must succeed; returns what it called apt-get with."""
    done = subprocess.run(
        ["sh", SCRIPT, machine / "log", *arguments],
        env=os.environ | {"PATH": f"{machine / 'bin'}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    return [line.split() for line in (machine / "calls").read_text().splitlines()]


@pytest.mark.parametrize("release", ["old", "new"])
@pytest.mark.parametrize("lists", ["empty", "read"])
def test_the_packages_of_tests_are_found(machine: Path, release: str, lists: str) -> None:
    mirror = {"old": OLD, "new": NEW}[release]
    write(machine, mirror=mirror, lists=mirror if lists == "read" else [])
    update, install = run(machine, "test")
    assert update == ["update"]
    assert install[0] == "install"
    assert {word for word in install[1:] if not word.startswith("-")} == CHOSEN[release]


def test_nothing_is_done_when_all_are_there(machine: Path) -> None:
    assert run(machine) == []
    write(machine, absent=["gcc-14-riscv64-linux-gnu", "qemu-system-riscv"])
    assert run(machine, "test") == []


def test_what_a_distribution_does_not_have_is_left_out(machine: Path) -> None:
    write(machine, mirror=["qemu-user"])
    update, install = run(machine, "test")
    assert (update, install[-1]) == (["update"], "qemu-user")
    assert not set(install) & {*NEW[:3], *NEW[4:]}
