"""What watching costs, in instructions a token on the emulated Cortex-M7: `make bench`.

    python tests/bench/bench_watching.py build/stories260K.romfs

The same greedy story is told by llm.Generator alone, with llm.metrics, with a governor, and with
both; exact instructions (in steps of 40), the mean over the tokens 8 to 135. Also bytes of heap.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bench_board import BUILD, FIRMWARE, Board
from rich.console import Console
from rich.table import Table

SCRIPT = """
import gc, json, os, time
import llm

name = [name for name in os.listdir("/rom") if name.endswith(".llm")][0]
model = llm.load("/rom/" + name, verify=False)


def heap():
    gc.collect()
    return gc.mem_alloc()


def measure(governed, measured):
    governor = llm.Governor("deadline", min_tps=10) if governed else None
    gen = llm.Generator(model, temperature=0, governor=governor)
    metrics = llm.metrics(gen) if measured else None
    ticks = start = 0
    for piece in gen.generate("Once upon a time", max_tokens=136):
        if len(gen.ids) == 8:
            gc.collect()  # so that none comes in between
            start = time.ticks_cpu()
    taken = time.ticks_diff(time.ticks_cpu(), start)
    return taken / 128


result = {}
for governed in (False, True):
    for measured in (False, True):
        measure(governed, measured)  # imports
        result[f"{governed},{measured}"] = measure(governed, measured)
gen = llm.Generator(model, temperature=0)
before = heap()
governor = llm.Governor()
result["heap of a governor"] = heap() - before
before = heap()
metrics = llm.metrics(gen)
result["heap of metrics"] = heap() - before
before = time.ticks_cpu()
page = metrics.prometheus()
result["prometheus()"] = time.ticks_diff(time.ticks_cpu(), before)
before = time.ticks_cpu()
metrics.as_dict()
result["as_dict()"] = time.ticks_diff(time.ticks_cpu(), before)
print(json.dumps(result))
"""


def main() -> None:
    """Measures, prints and writes build/bench/watching.json."""
    with Board(Path(sys.argv[1]), icount=True) as board:
        result = json.loads(board.run(SCRIPT, seconds=300))
    plain = result["False,False"]
    table = Table(title=f"{Path(sys.argv[1]).stem}: what watching costs")
    table.add_column("")
    table.add_column("instructions a token", justify="right")
    table.add_column("more", justify="right")
    table.add_column("%", justify="right")
    for key, name in (
        ("False,False", "Generator alone"),
        ("False,True", "with metrics"),
        ("True,False", "with a governor"),
        ("True,True", "with both"),
    ):
        more = result[key] - plain
        table.add_row(name, f"{result[key]:,.0f}", f"{more:,.0f}", f"{100 * more / plain:.2f}")
    Console().print(table)
    for key in ("heap of a governor", "heap of metrics", "as_dict()", "prometheus()"):
        print(f"{key}: {result[key]:,} {'bytes' if 'heap' in key else 'instructions'}")
    modules = FIRMWARE.parent / "frozen_mpy" / "llm"
    for name in ("governor", "limits", "power", "meter", "exposition"):
        print(f"{name}.py: {(modules / f'{name}.mpy').stat().st_size:,} bytes of bytecode")
    BUILD.mkdir(parents=True, exist_ok=True)
    (BUILD / "watching.json").write_text(json.dumps([result], indent=1) + "\n")


if __name__ == "__main__":
    main()
