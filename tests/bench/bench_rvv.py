"""What the RISC-V vector kernels cost in instructions, with vectors of 128, 256 and 512 bits.

    python tests/bench/bench_rvv.py

Runs kernels.c, which is plain C, under QEMU's emulation of a RISC-V processor, counts
exactly with count_plugin.c, prints a table and writes build/bench/rvv.json. An instruction on a
group of registers counts as one, whatever its length. No count depends on the data.
"""

from __future__ import annotations

import json
import re
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
VECTOR_BITS = (128, 256, 512)
FLAGS = ["-std=c99", "-O3", "-ffp-contract=off", "-fno-fast-math", "-static"]
TARGETS = {("gemv_q4", 288, 768, 1, 128): 0.45}  # instructions a MAC


def build() -> Path:
    """Builds the program with the set `rvv`. Raises `FileNotFoundError` without a compiler."""
    find = ["sh", str(ROOT / "tests/kernels/rvv_cc.sh")]
    compiler = subprocess.run(find, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    if not compiler:
        raise FileNotFoundError(
            "no compiler for RISC-V vectors: install clang-19 or gcc-14-riscv64-linux-gnu, "
            "and libc6-dev-riscv64-cross"
        )
    program = counting.BUILD / "kernels_rvv"
    program.parent.mkdir(parents=True, exist_ok=True)
    sources = [path for folder in ("core", "kernels") for path in CORE.glob(f"{folder}/**/*.c")]
    main = Path(__file__).with_name("kernels.c")
    subprocess.run([*compiler, *FLAGS, "-o", program, main, *sources], check=True)
    return program


def mark_address(program: Path) -> int:
    """Where the function mark() begins."""
    text = subprocess.run(["nm", program], check=True, stdout=subprocess.PIPE, text=True).stdout
    found = re.search(r"^([0-9a-f]+) T mark$", text, re.MULTILINE)
    assert found, text
    return int(found[1], 16)


def measure(vector_bits: tuple[int, ...] = VECTOR_BITS) -> list[dict[str, Any]]:
    """An object a kernel, shape and length of vectors."""
    program = build()
    results = []
    for bits in vector_bits:
        out = counting.BUILD / "rvv.counts"
        emulator = ["qemu-riscv64", "-cpu", f"rv64,v=true,vlen={bits},elen=64"]
        emulator += ["-plugin", f"{counting.plugin()},mark={mark_address(program):#x},out={out}"]
        done = subprocess.run([*emulator, program], check=True, capture_output=True, text=True)
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
        target = TARGETS.get(shape)
        table.add_row(
            *map(str, shape),
            f"{r['instructions']:,}",
            "" if per_mac is None else f"{per_mac:.3f}",
            "" if target is None else f"{target:.2f}",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
