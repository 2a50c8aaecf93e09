"""Where the instructions of a token go, by function, on the emulated Cortex-M7: `make profile`.

    python tests/bench/profile_board.py build/stories260K.romfs [position]

A greedy story is told with llm.Generator; counted is all that the board executes from one
sampling to the next, when the token in between is evaluated at `position` (32). Exact. The tables
are of `generate`; the last line is of `stream`, which writes to the terminal and listens to it.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent))

import counting  # noqa: E402
from bench_board import FIRMWARE, PLACED, Board  # noqa: E402

# Part by file of the firmware, the first that matches.
PARTS = {
    "matrices": r"/kernels/\w+/(gemv|gemm|matmul|scale_tile)",
    "softmax": r"/kernels/\w+/attention_softmax",
    "attention": r"/kernels/\w+/(attention|rope)",
    "norm": r"/kernels/\w+/rmsnorm",
    "quantization": r"/kernels/\w+/quantize",
    "gate": r"/kernels/\w+/silu",
    "addition": r"/kernels/\w+/add",
    "sampler": r"/core/sampler",
    "forward pass": r"/core/(model|cache|matmul)",
    "memset, memcpy": r"/libc/string0|/lib_a-mem|/libgcc",
    "Python layer": r"",  # tokenizer, generator, text, bindings, MicroPython, interrupts
}
N_FUNCTIONS = 25

SCRIPT = """
import os, llm
name = [name for name in os.listdir("/rom") if name.endswith(".llm")][0]
generator = llm.Generator(llm.load("/rom/" + name, verify=False), temperature=0)
if stream:
    generator.stream("Once upon a time", max_tokens=max_tokens)
    print()
else:
    for piece in generator.generate("Once upon a time", max_tokens=max_tokens):
        pass
print(generator.stats()["prompt_tokens"])
"""


class Files:
    """The object files of the firmware, by address."""

    def __init__(self, linker_map: str) -> None:
        kept = linker_map[linker_map.index("Linker script and memory map") :]
        found = re.findall(PLACED.pattern.replace(r"\.o)$", r"\.o\)?)$"), kept, re.MULTILINE)
        self._spans = [
            (int(address, 16), int(address, 16) + int(size, 16), path)
            for _, address, size, path in found
            if int(size, 16) > 0
        ]
        self._spans.sort()

    def part(self, address: int) -> str:
        """The part of the token that an instruction belongs to."""
        path = next((path for start, end, path in self._spans if start <= address < end), "")
        return next(part for part, pattern in PARTS.items() if re.search(pattern, path))


def profile(romfs: Path, position: int, stream: bool = False) -> counting.Counts:
    """Executions by address of one token at `position`. Raises `ValueError` when the story is
    too short or the prompt is longer."""
    out = counting.BUILD / "profile.counts"
    options = counting.options(FIRMWARE, "llm_sequence_sample", out)
    with Board(romfs, options=options) as board:
        printed = board.run(SCRIPT, max_tokens=position + 1, stream=stream)
        n_prompt = int(printed.split()[-1])
    # The first section ends with the first sampling: it has the prompt.
    sections = list(counting.sections(out))
    i = position - n_prompt + 1
    if not 1 <= i < len(sections):
        end = n_prompt + len(sections) - 2
        raise ValueError(f"position: {position} is not one of this story's, {n_prompt} to {end}")
    return sections[i]


def main() -> None:
    """Measures and prints."""
    romfs = Path(sys.argv[1])
    position = int(sys.argv[2]) if len(sys.argv) > 2 else 32
    try:
        counts = profile(romfs, position)
    except ValueError as error:
        sys.exit(str(error))
    total = sum(counts.values())
    symbols = counting.Symbols(FIRMWARE)
    files = Files(FIRMWARE.with_suffix(".map").read_text())
    parts: Counter[str] = Counter()
    functions: Counter[tuple[str, str]] = Counter()
    for address, count in counts.items():
        part = files.part(address)
        parts[part] += count
        functions[symbols.name(address), part] += count

    def print_table(title: str, rows: list[tuple[str, str, int]]) -> None:
        table = Table("", "", title=title)
        table.add_column("instructions", justify="right")
        table.add_column("%", justify="right")
        for first, second, count in rows:
            table.add_row(first, second, f"{count:,}", f"{100 * count / total:.1f}")
        Console().print(table)

    by_part = [(part, "", count) for part, count in parts.most_common()]
    title = f"{romfs.stem}, one token at position {position}"
    print_table(title, [*by_part, ("all", "", total)])
    by_function = [(*key, count) for key, count in functions.most_common(N_FUNCTIONS)]
    print_table(f"The {N_FUNCTIONS} largest functions", by_function)

    counts = profile(romfs, position, stream=True)
    total = sum(counts.values())
    python = sum(n for address, n in counts.items() if files.part(address) == "Python layer")
    share = f"{100 * python / total:.1f} %"
    print(f"stream(): Python layer {python:,} of {total:,} instructions, {share}")


if __name__ == "__main__":
    main()
