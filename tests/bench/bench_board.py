"""What a model costs on the emulated Cortex-M7, and the module in its firmware: `make bench`.

    python tests/bench/bench_board.py build/stories260K.romfs

Prints tables: exact instructions (in steps of 40), bytes of RAM, bytes of firmware; writes
build/bench/board.json. A model of the shape of stories15M is made up for it.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from edge_llm.image import Config, Dtype
from edge_llm.romfs import write_romfs
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/bench"
sys.path.insert(0, str(ROOT / "firmware"))
sys.path.insert(0, str(ROOT / "tests/host"))

from oracle_models import make_image, random_planes  # noqa: E402
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


def stories15m(path: Path) -> Path:
    """Writes a ROMFS with a model of the shape of stories15M, random weights: int4, the embedding
    (and so the head) int8."""
    if not path.is_file():
        config = Config(32000, 288, 768, 6, 6, 6, 48, 256, tied=True)
        image = path.with_suffix(".llm")
        make_image(
            image,
            config,
            lambda name, layer: Dtype.INT8 if name == "token_embd" else Dtype.INT4,
            random_planes(0),
        )
        write_romfs(path, [image])
    return path


def measure(romfs: Path, positions: list[int], context: int = 0) -> dict[str, Any]:
    """What board_tokens.py finds about the model of a ROMFS."""
    script = (Path(__file__).parent / "board_tokens.py").read_text()
    with Board(romfs, icount=True) as board:
        return json.loads(board.run(script, seconds=300, positions=positions, context=context))


def tokens(model: str, result: dict[str, Any]) -> list[dict[str, Any]]:
    """The objects of the JSON: a whole token (forward pass and argmax) at each position, and the
    mean over a prompt of 64 tokens (no argmax), with its share of a token at position 32."""
    common = {"model": model, "quantize": "int4", "ram_peak": result["memory"]["ram"]}
    greedy = result["sample"]["greedy"]
    found = [
        {**common, "position": int(position), "instructions": count + greedy}
        for position, count in result["eval"].items()
    ]
    if "prompt of 64" in result:
        mean = round(result["prompt of 64"] / 64)
        share = mean / (result["eval"]["32"] + greedy)
        found.append({**common, "position": 63, "prompt": 64, "instructions": mean})
        found[-1]["share_of_decode"] = round(share, 4)
    return found


def print_model(title: str, result: dict[str, Any]) -> None:
    """The table of one model."""
    table = Table(title=title)
    table.add_column("")
    table.add_column("instructions", justify="right")
    table.add_column("bytes", justify="right")
    for name, count in result["load"].items():
        table.add_row(f"load, {name}", f"{count:,}")
    for position, count in result["eval"].items():
        table.add_row(f"one token at position {position}", f"{count:,}")
    if "255" in result["eval"]:
        growth = (result["eval"]["255"] - result["eval"]["0"]) / 255
        table.add_row("growth per position", f"{growth:,.0f}")
    if "prompt of 64" in result:
        a_token = result["prompt of 64"] / 64
        table.add_row("prompt of 64, per token", f"{a_token:,.0f}")
        decode = result["eval"]["32"] + result["sample"]["greedy"]
        table.add_row("  of a token at position 32 with argmax", f"{a_token / decode:.3f}")
    for yield_ms, count in result["stall"].items():
        table.add_row(f"longest without the event loop, yield_ms={yield_ms}", f"{count:,}")
    for name, count in result["sample"].items():
        table.add_row(f"sample, {name}", f"{count:,}")
    for name, count in result.items():
        if name.startswith("encode"):
            table.add_row(name, f"{count:,}")
    table.add_section()
    for name in MEMORY:
        table.add_row(f"memory()[{name!r}]", "", f"{result['memory'][name]:,}")
    table.add_row("heap taken by llm.load", "", f"{result['heap']:,}")
    Console().print(table)


def main() -> None:
    """Measures, prints and writes build/bench/board.json."""
    romfs = Path(sys.argv[1])
    small = measure(romfs, [0, 32, 128, 255])
    print_model(f"{romfs.name} on the emulated Cortex-M7", small)
    BUILD.mkdir(parents=True, exist_ok=True)
    large = measure(stories15m(BUILD / "stories15M-shape.romfs"), [32], context=64)
    print_model("The shape of stories15M, context 64", large)
    results = tokens(romfs.stem, small) + tokens("stories15M-shape", large)
    (BUILD / "board.json").write_text(json.dumps(results, indent=1) + "\n")

    table = Table(title="Bytes of firmware")
    table.add_column("")
    table.add_column("bytes", justify="right")
    for name, size in sorted(module_sizes(FIRMWARE.with_suffix(".map").read_text()).items()):
        table.add_row(name, f"{size:,}")
    table.add_row("Python", f"{frozen_size(FIRMWARE):,}")
    Console().print(table)


if __name__ == "__main__":
    main()
