"""How fast this machine writes, with each kernel set, and on a second core: `make bench`.

    python tests/bench/bench_host.py [SECONDS]

Times the likeliest-token loop of stories260K (as int4; where the model is at hand) and of images
of random weights in the shape of stories15M and SmolLM2-135M, for about SECONDS (3) each, on one
core and with the best kernels on two, prints a table and writes build/bench/host.json. Times vary
from run to run and with what else runs: the best of several stretches is taken. Where
llama-cpp-python is installed and LLAMA_GGUF names a model in its format (of the same shape, Q4_0,
for a fair comparison), that is timed as well, on one core.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/host"))

from edge_llm import cli, engine  # noqa: E402
from edge_llm.image import Config, Dtype  # noqa: E402
from oracle_models import make_image, random_planes  # noqa: E402

BUILD = ROOT / "build/bench"
STORIES = ROOT / "../shared/models/stories260K/stories260K.bin"
STRETCH = 32  # tokens, from an empty cache
SHAPES = {
    "stories15M-shape": Config(32000, 288, 768, 6, 6, 6, 48, 256, tied=True),
    "SmolLM2-135M-shape": Config(49152, 576, 1536, 30, 9, 3, 64, 2048, tied=True),
}


def images(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Names and images of the models."""
    if STORIES.is_file():
        path = folder / "stories260K.llm"
        with contextlib.redirect_stdout(io.StringIO()):
            cli.main(["convert", str(STORIES), "--quantize", "int4", "-o", str(path)])
        yield "stories260K", path.read_bytes()
    for name, config in SHAPES.items():
        yield name, make_image(folder / "random.llm", config, Dtype.INT4, random_planes(1))


def tokens_per_second(stretch: Callable[[], None], seconds: float) -> float:
    """The best of as many stretches of STRETCH tokens as fit."""
    best = 0.0
    end = time.perf_counter() + seconds
    while best == 0.0 or time.perf_counter() < end:
        start = time.perf_counter()
        stretch()
        best = max(best, STRETCH / (time.perf_counter() - start))
    return best


def decode(model: engine.Model) -> Callable[[], None]:
    """Writes STRETCH tokens one by one, with nothing but the engine."""
    sampler = engine.Sampler(temperature=0.0)

    def stretch() -> None:
        model.rewind(0)
        token = 1
        for _ in range(STRETCH):
            model.eval(token)
            token = model.sample(sampler)

    return stretch


def prompt(model: engine.Model) -> Callable[[], None]:
    """Reads STRETCH tokens of a prompt."""
    tokens = [i % model.vocab_size for i in range(1, STRETCH + 1)]

    def stretch() -> None:
        model.rewind(0)
        model.eval(tokens)

    return stretch


def llama_cpp(path: str) -> Callable[[], None]:
    """The same loop as `decode` in llama-cpp-python, on one thread."""
    from llama_cpp import Llama

    llama = Llama(path, n_ctx=256, n_threads=1, n_threads_batch=1, verbose=False)

    def stretch() -> None:
        llama.reset()
        token = 1
        for _ in range(STRETCH):
            llama.eval([token])
            token = llama.sample(temp=0.0, repeat_penalty=1.0)

    return stretch


def measure(seconds: float = 3.0) -> list[dict[str, Any]]:
    """An object a model, kernel set and number of cores; speeds in tokens a second."""
    sets = [(kernels, 1) for kernels in engine.kernels()]
    sets.insert(1, (engine.kernels()[0], 2))
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for name, raw in images(Path(folder)):
            for kernels, cores in sets:
                with engine.Model(raw, kernels=kernels, cores=cores, verify=False) as model:
                    results.append(
                        {
                            "model": name,
                            "target": "host",
                            "kernels": kernels,
                            "cores": cores,
                            "quantize": "int4",
                            "decode": round(tokens_per_second(decode(model), seconds), 1),
                            "prompt": round(tokens_per_second(prompt(model), seconds / 3), 1),
                            "ram_peak": model.memory()["ram"],
                        }
                    )
    path = os.environ.get("LLAMA_GGUF")
    if path:
        speed = tokens_per_second(llama_cpp(path), seconds)
        results.append(
            {
                "model": Path(path).stem,
                "target": "host",
                "kernels": "llama-cpp-python",
                "cores": 1,
                "quantize": "gguf",
                "decode": round(speed, 1),
            }
        )
    return results


def main() -> None:
    """Measures, prints and writes build/bench/host.json."""
    results = measure(float(sys.argv[1]) if len(sys.argv) > 1 else 3.0)
    BUILD.mkdir(parents=True, exist_ok=True)
    (BUILD / "host.json").write_text(json.dumps(results, indent=1) + "\n")
    table = Table(title="This machine: tokens a second")
    for column in ("model", "kernels", "cores", "decode", "prompt"):
        table.add_column(column, justify="left" if column in ("model", "kernels") else "right")
    for r in results:
        speeds = (f"{r[key]:,.1f}" if key in r else "" for key in ("decode", "prompt"))
        table.add_row(r["model"], r["kernels"], str(r["cores"]), *speeds)
    Console().print(table)


if __name__ == "__main__":
    main()
