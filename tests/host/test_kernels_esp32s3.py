"""The ESP32-S3 kernels against the reference: the shipped assembly simulated, its C run here."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "tests" / "bench"))

import bench_esp32s3 as bench  # noqa: E402
from pie.bridge import Bridge, build  # noqa: E402


def test_every_function_equals_the_reference(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    check = ROOT / "tests" / "kernels" / "check_kernels.c"
    path = build(tmp_path / "check.so", [check], "-DCHECK_SMALL=1", "-Dmain=check_main")
    library = ctypes.CDLL(str(path))
    bridge = Bridge(library)
    arguments = (ctypes.c_char_p * 3)(b"check_kernels", b"esp32s3", None)
    failed = library.check_main(2, arguments)
    ctypes.CDLL(None).fflush(None)
    output = capfd.readouterr().out
    assert bridge.faults == []
    assert not failed, output
    assert {name for name, _ in bridge.runs} == set(bridge.programs)


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
