"""What a model costs on the emulated Cortex-M7, and the module in its firmware: `make bench`.

    python tests/bench/bench_board.py build/stories260K.romfs

Prints a table: exact instructions (steps of 40), bytes of RAM, bytes of firmware.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "firmware"))

from qemu import FIRMWARE, Board  # noqa: E402

# Of Model.memory(), what is read in place and then what is RAM.
MEMORY = "image weights tokenizer object tensors kv activations logits tokens ram".split()

# A section that the linker kept: its name, address, size and object file, on one line or two.
PLACED = re.compile(r"^ (\.\S+)\s+0x([0-9a-f]+)\s+0x([0-9a-f]+) (\S+\.o)$", re.MULTILINE)


def module_sizes(linker_map: str) -> Counter[str]:
    """Bytes of firmware by part of the module in C, from the linker's map."""
    kept = linker_map[linker_map.index("Linker script and memory map") :]
    sizes: Counter[str] = Counter()
    for section, _, size, path in PLACED.findall(kept):
        part = re.search(r"/llm/(core|kernels/\w+|kernels|bindings)/", path)
        if part and not section.startswith((".debug", ".comment", ".ARM.attributes")):
            sizes["C: " + part[1]] += int(size, 16)
    return sizes


def frozen_size(firmware: Path) -> int:
    """Bytes of the Python package in the firmware, as compiled bytecode (before it is frozen)."""
    return sum(file.stat().st_size for file in (firmware.parent / "frozen_mpy/llm").rglob("*.mpy"))


def main() -> None:
    """Measures and prints."""
    romfs = Path(sys.argv[1])
    script = (Path(__file__).parent / "board_tokens.py").read_text()
    with Board(romfs, icount=True) as board:
        result = json.loads(board.run(script, seconds=120))
    table = Table(title=f"{romfs.name} on the emulated Cortex-M7")
    table.add_column("")
    table.add_column("instructions", justify="right")
    table.add_column("bytes", justify="right")
    for name, count in result["load"].items():
        table.add_row(f"load, {name}", f"{count:,}")
    for position, count in result["eval"].items():
        table.add_row(f"one token at position {position}", f"{count:,}")
    growth = (result["eval"]["255"] - result["eval"]["0"]) / 255
    table.add_row("growth per position", f"{growth:,.0f}")
    table.add_row("prompt of 64, per token", f"{result['prompt of 64'] / 64:,.0f}")
    for name, count in result["sample"].items():
        table.add_row(f"sample, {name}", f"{count:,}")
    for name, count in result.items():
        if name.startswith("encode"):
            table.add_row(name, f"{count:,}")
    table.add_section()
    for name in MEMORY:
        table.add_row(f"memory()[{name!r}]", "", f"{result['memory'][name]:,}")
    table.add_row("heap taken by llm.load", "", f"{result['heap']:,}")
    table.add_section()
    sizes = module_sizes(FIRMWARE.with_suffix(".map").read_text())
    for name, size in sorted(sizes.items()):
        table.add_row(f"firmware, {name}", "", f"{size:,}")
    table.add_row("firmware, Python", "", f"{frozen_size(FIRMWARE):,}")
    Console().print(table)


if __name__ == "__main__":
    main()
