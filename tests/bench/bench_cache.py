"""What the cache costs: RAM by context and kind, perplexity by kind, of the window that slides.

    python tests/bench/bench_cache.py [contexts]

Runs on the desk, whose engine computes the boards' bits. Needs the model and the TinyStories of
../shared; the sliding window against one that is evaluated anew for every token takes minutes.
Prints tables; writes build/bench/cache.json.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from edge_llm import engine
from edge_llm.convert import convert
from edge_llm.image import Config, Dtype
from edge_llm.importers import open_model
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/host"))

from oracle_models import make_image, random_planes  # noqa: E402

SHARED = ROOT.parent / "shared"
STORIES = SHARED / "models/stories260K"
TEXTS = SHARED / "data/tinystories/tinystories_800.json"
N_STORIES = 150  # for the kinds of cache
N_TOKENS = 4000  # for the window
CACHES = ("f32", "int8", "int4")


def surprise(model: engine.Model, token: int) -> float:
    """Minus the log of the probability that the model's logits give a token."""
    logits = np.frombuffer(model.logits(), np.float32).astype(np.float64)
    return float(np.logaddexp.reduce(logits) - logits[token])


def of_texts(model: engine.Model, texts: list[list[int]]) -> float:
    """Perplexity of each text by itself, together."""
    total = []
    for tokens in texts:
        model.rewind(0)
        for token, following in pairwise(tokens):
            model.eval(token)
            total.append(surprise(model, following))
    return math.exp(sum(total) / len(total))


def of_a_window(model: engine.Model, tokens: list[int]) -> float:
    """Perplexity of a text that goes on past the context."""
    return of_texts(model, [tokens])


def of_recomputing(model: engine.Model, tokens: list[int]) -> float:
    """The same if the last `context` tokens are evaluated anew for each."""
    total = []
    for end in range(1, len(tokens)):
        model.rewind(0)
        model.eval(tokens[max(0, end - model.context) : end])
        total.append(surprise(model, tokens[end]))
    return math.exp(sum(total) / len(total))


def show(title: str, columns: list[str], rows: list[list[str]]) -> None:
    table = Table(title=title)
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i else "left")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def ram(folder: Path) -> dict[str, list[int]]:
    """Bytes of the cache, and of all RAM, by context and kind, in the shape of stories260K."""
    shape = Config(512, 64, 172, 5, 8, 4, 8, 2048, tied=True)
    raw = make_image(folder / "shape.llm", shape, Dtype.INT4, random_planes(0))
    found = {}
    for context in (128, 512, 2048):
        for cache in ("int8", "int4"):
            memory = engine.Model(raw, context=context, cache=cache).memory()
            found[f"{context} {cache}"] = [memory["kv"], memory["ram"]]
    memory = engine.Model(raw, spill=bytearray(900_000)).memory()
    found["2048 int8, spill"] = [memory["kv"], memory["ram"]]
    return found


def main() -> None:
    """Measures, prints and writes build/bench/cache.json."""
    contexts = [int(n) for n in sys.argv[1:]] or [128, 256, 512]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stories.llm"
        convert(open_model(STORIES), path, "int4")
        raw = path.read_bytes()
        sizes = ram(Path(folder))
    show(
        "RAM in the shape of stories260K (a desk's pointers, 1,000 bytes more than a board's)",
        ["context, cache", "cache", "in all"],
        [[name, *(f"{n:,}" for n in both)] for name, both in sizes.items()],
    )
    encoder = engine.Model(raw)
    texts = [encoder.encode(text) for text in json.loads(TEXTS.read_text())]
    found: dict[str, dict[str, Any]] = {"ram": sizes, "kinds": {}, "window": {}}

    stories = [tokens[:512] for tokens in texts[:N_STORIES]]
    for cache in CACHES:
        model = engine.Model(raw, cache=cache, kv="paged")
        found["kinds"][cache] = of_texts(model, stories)
    exact = found["kinds"]["f32"]
    show(
        f"Perplexity of {N_STORIES} stories, {sum(map(len, stories)):,} tokens",
        ["cache", "perplexity", "cost"],
        [[k, f"{v:.4f}", f"{v / exact - 1:+.2%}"] for k, v in found["kinds"].items()],
    )

    text = [token for tokens in texts[N_STORIES:] for token in tokens][:N_TOKENS]
    rows = []
    for context in contexts:
        anew = of_recomputing(engine.Model(raw, context=context), text)
        row = [str(context), f"{anew:.4f}"]
        found["window"][f"{context} anew"] = anew
        for cache in CACHES:
            got = of_a_window(engine.Model(raw, context=context, cache=cache), text)
            found["window"][f"{context} {cache}"] = got
            row += [f"{got:.4f}", f"{got / anew - 1:+.2%}"]
        rows.append(row)
    columns = ["context", "int8, anew each token"]
    for cache in CACHES:
        columns += [f"{cache}, sliding", ""]
    show(f"Perplexity of {N_TOKENS:,} tokens, stories in a row", columns, rows)
    (ROOT / "build/bench").mkdir(parents=True, exist_ok=True)
    (ROOT / "build/bench/cache.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
