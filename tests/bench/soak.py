"""Much text in turns of every kind, under the Unix port and on the emulated board: `make soak`.

    python tests/bench/soak.py ROMFS MODEL

Runs tests/device/soak.py with the image MODEL, 100,000 tokens here and 20,000 on the board, which
has it in ROMFS. Fails if the heap has grown or the text at the end is not that of a new model.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "firmware"))

from qemu import Board  # noqa: E402

SCRIPT = (ROOT / "tests/device/soak.py").read_text()
GOOD = ["the heap has not grown", "the same text: True"]


def source(model: str, scratch: str, tokens: int) -> str:
    """The script with its variables."""
    return f"MODEL, SCRATCH, TOKENS = {model!r}, {scratch!r}, {tokens}\n{SCRIPT}"


def report(where: str, text: str, start: float) -> bool:
    """Prints what a run said and how long it took; whether it was good."""
    lines = text.splitlines()
    print(f"{where}, {time.monotonic() - start:.0f} s: {'; '.join(lines)}")
    return lines[:2] == GOOD


def main() -> None:
    """Both runs."""
    romfs, model = map(Path, sys.argv[1:])
    good = True
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        program = [
            ROOT / "build/unix/micropython",
            "-c",
            source(str(model), scratch + "/", 100_000),
        ]
        done = subprocess.run(program, stdout=subprocess.PIPE, text=True)
        good &= report("Unix port", done.stdout, start) and done.returncode == 0
    start = time.monotonic()
    with Board(romfs) as board:
        text = board.run(source(f"/rom/{model.name}", "/", 20_000), seconds=3600)
        good &= report("emulated board", text, start)
    sys.exit(not good)


if __name__ == "__main__":
    main()
