"""The ESP32-S3 kernels against the reference: the shipped assembly simulated, its C run here."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

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
