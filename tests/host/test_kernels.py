"""Every kernel set against the reference, function by function: tests/core/check_kernels.c."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "core-tests"
EMULATOR = ["qemu-system-arm", "-M", "mps2-an500", "-display", "none", "-monitor", "none"]
EMULATOR += ["-serial", "none", "-semihosting", "-kernel"]


def sets_of(program: str, *command: str) -> list[str]:
    """Build and run a program; returns the kernel sets that passed."""
    make = ["make", "-s", "-C", ROOT / "tests" / "core", f"../../build/core-tests/{program}"]
    built = subprocess.run(make, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    done = subprocess.run([*command, BUILD / program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line.removesuffix(" ok") for line in done.stdout.splitlines()]


def test_on_this_machine_under_sanitizers() -> None:
    assert "ref" in sets_of("check_kernels")


def test_on_the_emulated_cortex_m7() -> None:
    assert sets_of("check_kernels.elf", *EMULATOR) == ["armv7em", "ref"]
