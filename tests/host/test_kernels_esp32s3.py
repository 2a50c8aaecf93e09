"""The ESP32-S3 kernels against the reference: the shipped assembly simulated, its C run here."""

from __future__ import annotations

import ctypes
import hashlib
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "tests" / "bench"))

import bench_esp32s3 as bench  # noqa: E402
from pie.bridge import Bridge, build  # noqa: E402

DIGESTS = [line.split() for line in (ROOT / "tests/device/digest.exp").read_text().splitlines()]
VOCAB_SIZE = 288  # of the images in tests/vectors


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The engine and the shared check of kernel sets."""
    check = ROOT / "tests" / "kernels" / "check_kernels.c"
    path = tmp_path_factory.mktemp("esp32s3") / "check.so"
    return ctypes.CDLL(str(build(path, [check], "-DCHECK_SMALL=1", "-Dmain=check_main")))


def test_every_function_equals_the_reference(
    library: ctypes.CDLL, capfd: pytest.CaptureFixture[str]
) -> None:
    bridge = Bridge(library)
    arguments = (ctypes.c_char_p * 3)(b"check_kernels", b"esp32s3", None)
    failed = library.check_main(2, arguments)
    ctypes.CDLL(None).fflush(None)
    output = capfd.readouterr().out
    assert bridge.faults == []
    assert not failed, output
    for program in bridge.programs.values():
        texts = [statement.text for statement in program.statements]
        assert [text for i, text in enumerate(texts) if i not in program.executed] == []


def logits(library: ctypes.CDLL, image: Path, kernels: bytes, cache: int, n: int) -> bytes:
    data = np.fromfile(image, np.uint8)
    memory = [bench.Bytes(size) for size in (len(data), 1 << 20)]
    ctypes.memmove(memory[0].address, data.ctypes.data, len(data))
    out = (ctypes.c_float * (n * VOCAB_SIZE))()
    failed = library.pie_logits(
        ctypes.c_void_p(memory[0].address),
        ctypes.c_size_t(len(data)),
        kernels,
        cache,
        ctypes.c_void_p(memory[1].address),
        ctypes.c_size_t(1 << 20),
        n,
        out,
    )
    assert not failed
    return bytes(out)


@pytest.mark.parametrize(("image", "cache", "sha256"), DIGESTS)
def test_logits_are_the_same_to_the_last_bit(
    library: ctypes.CDLL, image: str, cache: str, sha256: str
) -> None:
    bridge = Bridge(library)
    path = ROOT / "tests" / "vectors" / image
    out = logits(library, path, b"esp32s3", {"int8": 1, "f32": 2}[cache], 64)
    assert bridge.faults == []
    assert bridge.runs or image == "tiny-f32.llm"
    assert hashlib.sha256(out).hexdigest() == sha256


def test_cycles_a_mac() -> None:
    for (kernel, columns, rows), most in bench.TARGETS.items():
        (function,) = (function for name, function, _ in bench.MATMULS if name == kernel)
        run = bench.scaled(function, columns, rows, 1)
        assert run.cycles / (columns * rows) <= most
        assert (
            run.stalls <= rows / 100
        )  # the schedule hides every latency but that of the first loads


@pytest.mark.parametrize("function", ["tiles_int4", "pairs_int4", "tiles_int8"])
def test_tiles_cost_the_same_after_four(function: str) -> None:
    shape = (function, 288, 64, 2)
    whole, scaled = bench.matmul(*shape), bench.scaled(*shape)
    assert whole.cycles == scaled.cycles
    assert whole.instructions == scaled.instructions
