"""What the ESP32-S3 kernels cost by the rules of the pipeline: `make bench`.

    python tests/bench/bench_esp32s3.py

Simulates the shipped assembly (tests/pie), prints a table and writes build/bench/esp32s3.json.
Counted is a whole function: its call, every scale, the results as floats; not the few dozen
instructions of C that prepare it, once a matrix. Memory is ideal: each instruction issues in a
cycle unless an operand is late, and a taken branch costs two more. No count depends on the data.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from pie.bridge import Kernels, Matmul  # noqa: E402
from pie.machine import Run  # noqa: E402

TARGETS = {("gemv_q4", 288, 768): 0.36}  # cycles a MAC

# Columns x rows of stories260K and stories15M, then one that needs several chunks of groups.
SHAPES = [(64, 64), (64, 172), (172, 64), (288, 288), (288, 768), (768, 288), (2048, 64)]
BATCH = 16
POSITIONS = 256
HEAD_DIMS = (16, 48, 64)

# Name in the results, assembly function, vectors.
MATMULS = [
    ("gemv_q4", "tiles_int4", 1),
    ("gemm_q4", "pairs_int4", BATCH),
    ("gemv_q8", "tiles_int8", 1),
    ("gemm_q8", "tiles_int8", BATCH),
]
COSTS = ("instructions", "cycles", "stalls", "taken")


class Bytes:
    """Zeros, aligned to 64."""

    def __init__(self, size: int) -> None:
        self._block = np.zeros(size + 64, np.uint8)
        self.address = self._block.ctypes.data + -self._block.ctypes.data % 64


def matmul(kernel: str, columns: int, rows: int, n: int) -> Run:
    """Runs an assembly function on n vectors (of pairs_int4: n / 2 pairs)."""
    n_groups, n_tiles = (columns + 31) // 32, (rows + 3) // 4
    stride = n_groups * 32
    blocks = n_tiles * n_groups * 4
    planes = [
        Bytes(size)
        for size in (n * n_tiles * 16, blocks * 32, blocks, n_tiles * 16, n * stride, n * 4)
    ]
    count = n // 2 if kernel == "pairs_int4" else n
    pointers = [plane.address for plane in planes]
    kernels = Kernels()
    kernels.matmul(kernel, Matmul(*pointers, n_groups, n_tiles, count, stride, n_tiles * 16))
    return kernels.runs[0][1]


def attention(kernel: str, head_dim: int) -> Run:
    """Runs the scores or the weighted values of one query over POSITIONS."""
    cache, small, out = Bytes(POSITIONS * head_dim), Bytes(2 * POSITIONS), Bytes(4 * POSITIONS)
    kernels = Kernels()
    if kernel == "attention_scores":
        arguments = (POSITIONS, head_dim, head_dim // 16)
        kernels.scores(out.address, small.address, cache.address, *arguments)
    else:
        for column in range(0, head_dim, 16):
            kernels.values(out.address, small.address, cache.address + column, POSITIONS, head_dim)
    total = Run()
    for _, run in kernels.runs:
        for name in COSTS:
            setattr(total, name, getattr(total, name) + getattr(run, name))
    return total


def row(kernel: str, columns: int, rows: int, batch: int, run: Run) -> dict[str, object]:
    """One object of the JSON."""
    macs = columns * rows * batch
    return {
        "kernel": kernel,
        "target": "esp32s3",
        "columns": columns,
        "rows": rows,
        "batch": batch,
        "instructions": run.instructions,
        "instructions_per_mac": round(run.instructions / macs, 4),
        "cycles": run.cycles,
        "cycles_per_mac": round(run.cycles / macs, 4),
        "stalls": run.stalls,
        "taken_branches": run.taken // 2,
    }


def scaled(kernel: str, columns: int, rows: int, n: int) -> Run:
    """The cost of all rows from that of 16 and of 32: tiles repeat after four, as their scales
    come to lie in vectors of 16 as before."""
    if rows % 16 or rows < 48:
        return matmul(kernel, columns, rows, n)
    once, twice = (matmul(kernel, columns, count, n) for count in (16, 32))
    total = Run()
    for name in COSTS:
        first, second = getattr(once, name), getattr(twice, name)
        setattr(total, name, first + (second - first) * (rows // 16 - 1))
    return total


def measure() -> list[dict[str, object]]:
    """The cost of each kernel over the shapes."""
    results = []
    for columns, rows in SHAPES:
        for kernel, function, batch in MATMULS:
            results.append(
                row(kernel, columns, rows, batch, scaled(function, columns, rows, batch))
            )
    for kernel in ("attention_scores", "attention_values"):
        for head_dim in HEAD_DIMS:
            results.append(row(kernel, head_dim, POSITIONS, 1, attention(kernel, head_dim)))
    return results


def main() -> None:
    """Prints and writes what `measure` finds."""
    results = measure()
    table = Table(title="ESP32-S3 kernels, by the rules of the pipeline")
    table.add_column("kernel", no_wrap=True)
    for name in ("columns", "rows", "batch", "instructions", "cycles", "cycles a MAC", "reach"):
        table.add_column(name, justify="right")
    for result in results:
        shape = (result["kernel"], result["columns"], result["rows"])
        reach = f"{TARGETS[shape]:.2f}" if shape in TARGETS else ""
        counts = (f"{result[name]:,}" for name in ("instructions", "cycles"))
        sizes = (str(result[name]) for name in ("columns", "rows", "batch"))
        cost = f"{result['cycles_per_mac']:.3f}"
        table.add_row(str(result["kernel"]), *sizes, *counts, cost, reach)
    Console().print(table)
    path = ROOT / "build" / "bench" / "esp32s3.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
