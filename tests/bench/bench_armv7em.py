"""What the Cortex-M kernels cost on the emulated Cortex-M7: `make bench`.

    python tests/bench/bench_armv7em.py

Runs kernels.c without an operating system, counts exactly with count_plugin.c, prints a table and
writes build/bench/armv7em.json. Cycles are llvm-mca's estimate for the inner loop, with ideal
memory (absent without LLVM 19 or later). No count depends on the data.
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
FLAGS = ["-std=c99", "-O3", "-ffp-contract=off", "-fno-fast-math"]
M7 = ["-mcpu=cortex-m7", "-mthumb", "-mfpu=fpv5-d16", "-mfloat-abi=hard"]
BARE = ["--specs=rdimon.specs", "-Wl,--section-start=.vectors=0"]

# What to reach at 288 columns and 768 rows: instructions a MAC, cycles a MAC by kernel and batch.
TARGETS = {
    ("gemv_q4", 1): (1.40, 0.80),
    ("gemv_q8", 1): (1.40, None),
    ("gemm_q4", 16): (None, 0.70),
}
SOFTMAX_TARGET = 20  # instructions an element
# Instructions of attention for one more position, by queries that share a key and their elements.
POSITION_TARGETS = {(2, 8): 95, (1, 48): 190, (4, 64): 780}

# Function that has the inner loop, and the MACs of one turn of it.
LOOPS = {
    "gemv_q4": ("llm_armv7em_gemv_int4", 128),
    "gemv_q8": ("llm_armv7em_gemv_int8", 128),
    "gemm_q4": ("llm_armv7em_gemm_int4", 256),
    "gemm_q8": ("llm_armv7em_gemm_int8", 256),
}


def build() -> Path:
    """Builds the program; returns it."""
    program = counting.BUILD / "kernels_cortex_m7.elf"
    program.parent.mkdir(parents=True, exist_ok=True)
    sources = [Path(__file__).with_name("kernels.c"), ROOT / "tests/bare/cortex_m.c"]
    for folder in ("core", "kernels"):
        sources += [path for path in CORE.glob(f"{folder}/**/*") if path.suffix in (".c", ".S")]
    subprocess.run(
        ["arm-none-eabi-gcc", *FLAGS, *M7, *BARE, "-o", program, *sources],
        check=True,
    )
    return program


def measure() -> list[dict[str, Any]]:
    """An object a kernel and shape."""
    program = build()
    symbols = counting.Symbols(program)
    out = counting.BUILD / "armv7em.counts"
    qemu = ["qemu-system-arm", "-M", "mps2-an500", "-display", "none", "-monitor", "none"]
    qemu += ["-serial", "none", "-semihosting", "-kernel", str(program)]
    qemu += counting.options(program, "mark", out)
    done = subprocess.run(
        qemu, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    name, *cases = done.stdout.splitlines()
    assert name == "armv7em", name
    sections = list(counting.sections(out))
    nothing = sum(sections[1].values())
    results: list[dict[str, Any]] = []
    for i, case in enumerate(cases):
        kernel, *sizes = case.split()
        columns, rows, batch = map(int, sizes)
        if kernel == "nothing":
            continue
        counts = sections[2 * i + 1]
        result: dict[str, Any] = {
            "kernel": kernel,
            "target": "armv7em",
            "columns": columns,
            "rows": rows,
            "batch": batch,
            "instructions": sum(counts.values()) - nothing,
        }
        if kernel in LOOPS:
            per_mac = result["instructions"] / (columns * rows * batch)
            result["instructions_per_mac"] = round(per_mac, 4)
            function, macs = LOOPS[kernel]
            loop = counting.inner_loop(counts, symbols, function)
            # With two groups, what a tile does for its first is executed as often as the loop.
            cycles = counting.mca_cycles(program, loop) if columns > 64 else None
            if cycles is not None:
                result["cycles_per_mac_mca"] = round(cycles / macs, 4)
        results.append(result)
        softmax = symbols.by_function(counts)["llm_armv7em_softmax_two"]
        if kernel == "attention" and softmax:
            results.append(
                {**result, "kernel": "softmax", "columns": rows, "rows": batch, "batch": 1}
                | {"instructions": softmax}
                | {"instructions_per_element": round(softmax / (rows * batch), 2)}
            )
    return results


def per_position(results: list[dict[str, Any]]) -> dict[tuple[int, int], float]:
    """What one more cached position costs in attention, by queries and their elements."""
    costs = {}
    attention = [r for r in results if r["kernel"] == "attention"]
    for short in attention:
        for long in attention:
            same = (short["columns"], short["batch"]) == (long["columns"], long["batch"])
            if same and short["rows"] < long["rows"]:
                growth = long["instructions"] - short["instructions"]
                shape = short["batch"], short["columns"]
                costs[shape] = growth / (long["rows"] - short["rows"])
    return costs


def main() -> None:
    """Measures, prints and writes build/bench/armv7em.json."""
    results = measure()
    (counting.BUILD / "armv7em.json").write_text(json.dumps(results, indent=1) + "\n")
    table = Table(title="Cortex-M7 kernels: instructions, estimated cycles of the inner loop")
    table.add_column("kernel", no_wrap=True)
    for column in ("columns", "rows", "batch", "all", "each", "reach", "cycles", "reach"):
        table.add_column(column, justify="right", no_wrap=True)
    for r in results:
        sizes = (str(r[name]) for name in ("columns", "rows", "batch"))
        goals: tuple[float | None, float | None] = (None, None)
        if (r["columns"], r["rows"]) == (288, 768):
            goals = TARGETS.get((r["kernel"], r["batch"]), goals)
        elif r["kernel"] == "softmax":
            goals = (SOFTMAX_TARGET, None)
        each = r.get("instructions_per_mac", r.get("instructions_per_element"))
        cells = (each, goals[0], r.get("cycles_per_mac_mca"), goals[1])
        table.add_row(
            r["kernel"],
            *sizes,
            f"{r['instructions']:,}",
            *("" if cell is None else f"{cell:.2f}" for cell in cells),
        )
    table.add_section()
    for (queries, elements), growth in per_position(results).items():
        name = f"attention a position, {queries} x {elements}"
        reach = f"{POSITION_TARGETS[queries, elements]:,}"
        table.add_row(name, "", "", "", f"{growth:,.1f}", "", reach)
    table.caption = "each: a MAC, or an element (columns: positions, rows: queries) of softmax"
    Console(width=110).print(table)
    if not any("cycles_per_mac_mca" in r for r in results):
        print("No cycles: llvm-mca of LLVM 19 or later (package llvm-19) is not installed.")


if __name__ == "__main__":
    main()
