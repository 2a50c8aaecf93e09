"""What the RISC-V vector kernels cost in instructions, with vectors of 128, 256 and 512 bits.

    python tests/bench/bench_rvv.py

Runs kernels.c without an operating system on QEMU's machine `virt`, counts exactly with
count_plugin.c, prints a table and writes build/bench/rvv.json. An instruction on a group of
registers counts as one, whatever its length. No count depends on the data.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent))

import counting  # noqa: E402

ROOT = counting.ROOT
CORE = ROOT / "cmodules/llm"
BARE = ROOT / "tests/bare"
VECTOR_BITS = (128, 256, 512)
FLAGS = ["-std=c99", "-O3", "-ffp-contract=off", "-fno-fast-math"]
TARGET = 0.45  # instructions a MAC of int4, 288 columns and 768 rows, one token


def compiler() -> list[str]:
    """The command that compiles for bare RISC-V with vectors. Raises `FileNotFoundError` without
    such a compiler."""
    find = ["sh", str(ROOT / "tests/kernels/rvv_cc.sh")]
    command = subprocess.run(find, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    if not command:
        raise FileNotFoundError(
            "no compiler for RISC-V vectors: install gcc-14-riscv64-linux-gnu, or clang-19 and "
            "lld-19"
        )
    return [*command, *FLAGS, f"-I{BARE}", f"-T{BARE}/riscv.ld"]


def emulator(program: Path, vector_bits: int) -> list[str]:
    """The command that runs a program on QEMU's machine `virt`."""
    cpu = f"rv64,v=true,vext_spec=v1.0,vlen={vector_bits},elen=64"
    command = ["qemu-system-riscv64", "-machine", "virt", "-cpu", cpu, "-bios", "none"]
    command += ["-display", "none", "-monitor", "none", "-serial", "stdio"]
    return [*command, "-kernel", str(program)]


def compile_bare(main: Path, program: Path, *flags: str) -> None:
    """Builds a program with the engine and the set `rvv`, to be run by `emulator`. Raises
    `FileNotFoundError` without a compiler."""
    sources = [main, BARE / "riscv.c", BARE / "libc.c"]
    sources += [path for folder in ("core", "kernels") for path in CORE.glob(f"{folder}/**/*.c")]
    subprocess.run([*compiler(), *flags, "-o", program, *sources], check=True)


def measure(vector_bits: tuple[int, ...] = VECTOR_BITS) -> list[dict[str, Any]]:
    """An object a kernel, shape and length of vectors. Raises `FileNotFoundError` without a
    compiler."""
    counting.BUILD.mkdir(parents=True, exist_ok=True)
    program = counting.BUILD / "kernels_rvv.elf"
    compile_bare(Path(__file__).with_name("kernels.c"), program)
    results = []
    for bits in vector_bits:
        out = counting.BUILD / "rvv.counts"
        command = [*emulator(program, bits), *counting.options(program, "mark", out)]
        done = subprocess.run(
            command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        name, *cases = done.stdout.splitlines()
        assert name == "rvv", name
        totals = [sum(counts.values()) for counts in counting.sections(out)]
        nothing = totals[1]
        for i, case in enumerate(cases):
            kernel, *sizes = case.split()
            columns, rows, batch = map(int, sizes)
            if kernel == "nothing":
                continue
            result = {
                "kernel": kernel,
                "target": "rvv",
                "vector_bits": bits,
                "columns": columns,
                "rows": rows,
                "batch": batch,
                "instructions": totals[2 * i + 1] - nothing,
            }
            if kernel.startswith("gem"):
                per_mac = result["instructions"] / (columns * rows * batch)
                result["instructions_per_mac"] = round(per_mac, 4)
            results.append(result)
    return results


def main() -> None:
    """Measures, prints and writes build/bench/rvv.json."""
    results = measure()
    (counting.BUILD / "rvv.json").write_text(json.dumps(results, indent=1) + "\n")
    table = Table(title="RISC-V with vectors: instructions")
    for column in ("kernel", "columns", "rows", "batch", "vector bits", "all", "a MAC", "reach"):
        table.add_column(column, justify="left" if column == "kernel" else "right")
    for r in results:
        shape = (r["kernel"], r["columns"], r["rows"], r["batch"], r["vector_bits"])
        per_mac = r.get("instructions_per_mac")
        table.add_row(
            *map(str, shape),
            f"{r['instructions']:,}",
            "" if per_mac is None else f"{per_mac:.3f}",
            f"{TARGET:.2f}" if shape[:4] == ("gemv_q4", 288, 768, 1) else "",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
