"""Seconds to encode texts of growing length: they should grow in proportion, or a little more.

    python tests/bench/bench_tokenizer.py [folder with tokenizer.bin]

Prints CSV: text, characters, seconds, microseconds a character.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "host"))

from edge_llm import engine  # noqa: E402
from edge_llm.image import Config, Dtype  # noqa: E402
from edge_llm.importers.llama2c import read_tokenizer  # noqa: E402
from oracle_models import make_image, random_planes  # noqa: E402

LENGTHS = [1000, 2000, 4000, 8000, 16000, 32000, 64000]
LETTERS = "etaoinshrdlu"


def texts(n: int) -> dict[str, str]:
    """Texts of `n` characters; all but the first are one word, the worst there is."""
    rng = random.Random(n)
    return {
        "words": "".join(rng.choices(LETTERS + "   ", k=n)),
        "one word": "".join(rng.choices(LETTERS, k=n)),
        "one letter": "a" * n,
        "spaces": " " * n,
        "emoji": "\N{LLAMA}" * n,
    }


def main() -> None:
    """Measure and print."""
    default = ROOT.parent / "shared" / "models" / "llama32k-tokenizer"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    if not (folder / "tokenizer.bin").is_file():
        sys.exit(f"{folder}/tokenizer.bin is absent: name a folder that holds one")
    tokenizer = read_tokenizer(folder / "tokenizer.bin")
    config = Config(len(tokenizer.pieces), 2, 2, 1, 1, 1, 2, 8)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "tokenizer.llm"
        image = make_image(path, config, Dtype.INT4, random_planes(0), tokenizer)
    model = engine.Model(image)
    print("text,characters,seconds,us_per_character")
    for name in texts(1):
        for n in LENGTHS:
            text = texts(n)[name]
            best = min(measure(model, text) for _ in range(3))
            print(f"{name},{n},{best:.6f},{best / n * 1e6:.3f}")


def measure(model: engine.Model, text: str) -> float:
    """Seconds of one encode."""
    start = time.perf_counter()
    model.encode(text)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
