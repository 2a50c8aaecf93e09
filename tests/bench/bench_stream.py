"""How much of a token is spent waiting for weights that are read from a file: `make bench`.

    python tests/bench/bench_stream.py

The engine runs; what a read and a product cost is simulated with a clock of its own
(tests/host/storage.py), so the figures are the same in every run. Storage: 1, 10 and 40 MB/s after
a latency of 200 us a read, each read up to half as long again, at random. Chips: the time of a
token in docs/performance.md, spread over its weights. Each in two ways: read in the background,
and read before each product as MicroPython does. Last, this machine with a file that is slowed
down: measured, so it varies. Prints a table and writes build/bench/stream.json.
"""

from __future__ import annotations

import io
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/host"))

from edge_llm import engine  # noqa: E402
from edge_llm.image import Config, Dtype  # noqa: E402
from oracle_models import make_image, random_planes  # noqa: E402
from storage import Storage  # noqa: E402

BUILD = ROOT / "build/bench"
SHAPE = Config(32000, 288, 768, 6, 6, 6, 48, 256, tied=True)  # of stories15M
RATES = (1, 10, 40)  # MB/s
LATENCY = 200  # us
JITTER = 0.5
STREAM = 65536
# Milliseconds that a token of this shape keeps a chip busy, at position 32: docs/performance.md.
CHIPS = {"STM32H743, 480 MHz": 30.0, "ESP32-S3, 240 MHz": 27.0, "nRF52840, 64 MHz": 390.0}


def dtype_of(name: str, layer: int | None) -> Dtype:
    """int4, the embedding int8, as `edge-llm convert --quantize int4` makes it."""
    return Dtype.INT8 if name == "token_embd" else Dtype.INT4


def result(
    model: engine.Model, target: str, rate: int, background: bool, tokens: int
) -> dict[str, Any]:
    """The cost of `tokens` tokens, after two to get to know the storage."""
    for token in (1, 2):
        model.eval(token)
    before = model.stream_stats()
    for token in range(tokens):
        model.eval(token)
    after = model.stream_stats()
    total = after["total_ms"] - before["total_ms"]
    return {
        "model": "stories15M-shape",
        "target": target,
        "mb_per_s": rate,
        "background": background,
        "waiting": round((after["waited_ms"] - before["waited_ms"]) / total, 3),
        "ms_per_token": round(total / tokens, 1),
        "range": after["range"],
        "ram": model.memory()["stream"],
    }


def simulate(image: bytes, chip: str, rate: int, background: bool) -> dict[str, Any]:
    """A chip and a storage."""
    storage = Storage(image, latency=LATENCY, rate=rate, jitter=JITTER, background=background)
    with engine.Model(storage, stream=STREAM, context=64, verify=False) as model:
        weights = model.memory()["weights"]
        storage.compute = CHIPS[chip] * 1000 / weights
        storage.attach(model)
        return result(model, chip, rate, background, 3)


class SlowFile(io.BytesIO):
    """A file of `rate` MB/s that takes as long as it says."""

    def __init__(self, image: bytes, rate: int) -> None:
        super().__init__(image)
        self._rate = rate
        self._random = random.Random(1)

    def readinto(self, buffer: Any) -> int:
        seconds = (LATENCY + len(buffer) / self._rate) * 1e-6
        time.sleep(seconds * (1 + JITTER * self._random.random()))
        return super().readinto(buffer)


def measure(image: bytes, rate: int) -> dict[str, Any]:
    """This machine, in plain C."""
    file = SlowFile(image, rate)
    with engine.Model(file, stream=STREAM, context=64, kernels="ref", verify=False) as model:
        return result(model, "this machine, plain C", rate, True, 1 if rate == 1 else 5)


def main() -> None:
    """Prints and writes the results."""
    with tempfile.TemporaryDirectory() as folder:
        image = make_image(Path(folder) / "m.llm", SHAPE, dtype_of, random_planes(1))
    results = [
        simulate(image, chip, rate, background)
        for chip in CHIPS
        for rate in RATES
        for background in (True, False)
    ]
    results += [measure(image, rate) for rate in RATES]
    BUILD.mkdir(parents=True, exist_ok=True)
    (BUILD / "stream.json").write_text(json.dumps(results, indent=1) + "\n")
    table = Table(title="Weights read from a file, stories15M shape: share of a token waiting")
    for column in ("target", "MB/s", "read", "waiting", "ms a token", "bytes at once"):
        table.add_column(column, justify="left" if column in ("target", "read") else "right")
    for r in results:
        how = "in the background" if r["background"] else "before each product"
        row = (f"{r['waiting']:.0%}", f"{r['ms_per_token']:,.0f}", f"{r['range']:,}")
        table.add_row(r["target"], str(r["mb_per_s"]), how, *row)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
