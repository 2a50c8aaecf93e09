"""Exact instruction counts of bare programs on QEMU, by address and by function."""

from __future__ import annotations

import bisect
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/bench"

Counts = dict[int, int]  # executions by address

ITERATIONS = 100  # of a loop, for its cycles


def plugin() -> Path:
    """Build count_plugin.c for the QEMU that is installed; returns the plugin."""
    source = Path(__file__).with_name("count_plugin.c")
    library = BUILD / "count_plugin.so"
    if not library.is_file() or library.stat().st_mtime < source.stat().st_mtime:
        BUILD.mkdir(parents=True, exist_ok=True)
        banner = subprocess.run(
            ["qemu-system-arm", "--version"], stdout=subprocess.PIPE, text=True
        )
        version = re.search(r"version (\d+)", banner.stdout)
        assert version, banner.stdout
        interface = 1 if int(version[1]) < 9 else 2
        command = ["cc", "-O2", "-shared", "-fPIC", "-Wall", "-Wextra"]
        command += [f"-DQEMU_PLUGIN_VERSION={interface}", "-o", str(library), str(source)]
        subprocess.run(command, check=True)
    return library


def options(program: Path, mark: str, out: Path) -> list[str]:
    """Options for QEMU that count the instructions of `program` between calls of function `mark`
    and write them to `out`."""
    address = Symbols(program).address(mark)
    return ["-plugin", f"{plugin()},mark={address:#x},out={out}"]


def sections(out: Path) -> Iterator[Counts]:
    """For each call of the marked function, the counts since the one before (or the start)."""
    counts: Counts | None = None
    with open(out) as lines:
        for line in lines:
            if line != "mark\n":
                address, count = line.split()
                assert counts is not None
                counts[int(address, 16)] = int(count)
                continue
            if counts is not None:
                yield counts
            counts = {}
    if counts is not None:
        yield counts


class Symbols:
    """The functions of an ELF program."""

    def __init__(self, program: Path) -> None:
        nm = ["nm", "-n", str(program)]  # binutils' nm reads the programs of any processor
        text = subprocess.run(nm, check=True, stdout=subprocess.PIPE, text=True).stdout
        found = re.findall(r"^([0-9a-f]+) [tTwW] ([^$\s]\S*)$", text, re.MULTILINE)
        self._names = [name for _, name in found]
        self._starts = [int(address, 16) & ~1 for address, _ in found]

    def address(self, name: str) -> int:
        """Where a function begins. Raises `ValueError` when there is none of that name."""
        return self._starts[self._names.index(name)]

    def name(self, address: int) -> str:
        """The function that an address lies in."""
        return self._names[bisect.bisect_right(self._starts, address) - 1]

    def by_function(self, counts: Counts) -> Counter[str]:
        """Instructions by function."""
        totals: Counter[str] = Counter()
        for address, count in counts.items():
            totals[self.name(address)] += count
        return totals


def inner_loop(counts: Counts, symbols: Symbols, function: str) -> list[int]:
    """Addresses of a function's instructions that were executed most often, in order. Half as
    often is enough: a first turn may go another way."""
    of_function = {a: n for a, n in counts.items() if symbols.name(a) == function}
    most = max(of_function.values())
    return sorted(address for address, n in of_function.items() if 2 * n > most)


def mca_cycles(program: Path, loop: list[int]) -> float | None:
    """Cycles an iteration of a loop takes on a Cortex-M7 by llvm-mca's model, with ideal memory;
    None where LLVM 19 or later is absent (others do not know that processor's pipeline)."""
    mca = next(filter(shutil.which, ("llvm-mca-21", "llvm-mca-20", "llvm-mca-19")), None)
    if mca is None:
        return None
    objdump = ["arm-none-eabi-objdump", "-d", "--no-show-raw-insn", str(program)]
    objdump += [f"--start-address={loop[0]}", f"--stop-address={loop[-1] + 4}"]
    text = subprocess.run(objdump, check=True, stdout=subprocess.PIPE, text=True).stdout
    lines = []
    for address, name, arguments in re.findall(
        r"^ *([0-9a-f]+):\t(\S+)[ \t]*([^@;<\n]*)", text, re.MULTILINE
    ):
        if int(address, 16) in loop:
            lines += _for_mca(re.sub(r"\.[nw]$", "", name), arguments.strip())
    done = subprocess.run(
        [mca, "-mtriple=thumbv7em-none-eabi", "-mcpu=cortex-m7", f"-iterations={ITERATIONS}"],
        input="\n".join([".syntax unified", ".thumb", "loop:", *lines, ""]),
        capture_output=True,
        text=True,
    )
    cycles = re.search(r"^Total Cycles: +(\d+)$", done.stdout, re.MULTILINE)
    if done.returncode or not cycles:
        raise RuntimeError(f"{mca} failed:\n{done.stderr}")
    return int(cycles[1]) / ITERATIONS


def _for_mca(name: str, arguments: str) -> list[str]:
    """An instruction of objdump for the assembler of LLVM. It crashes on loads that step their
    address or go backwards: these become a load and an addition, or a load forwards."""
    if re.fullmatch(r"b(?:eq|ne|cs|hs|cc|lo)?", name):
        return [f"{name}.w loop"]
    if name in ("cbz", "cbnz"):
        return [f"{name} {arguments.split(',')[0]}, #0"]  # objdump's target is hexadecimal
    stepping = re.fullmatch(r"(.*\[(\w+))\], #(-?\d+)", arguments)
    if stepping and name in ("ldr", "ldrd", "str", "strd"):
        return [f"{name} {stepping[1]}]", f"add {stepping[2]}, {stepping[2]}, #{stepping[3]}"]
    return [f"{name} {arguments.replace('#-', '#')}" if name == "ldr" else f"{name} {arguments}"]
