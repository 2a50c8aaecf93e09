"""The kernel set for RISC-V vectors against `ref`, bit for bit, with vectors of three lengths.

Runs under qemu-user, whose emulation of the processor is that of QEMU's machine `virt`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_kernels_host import build, check, need

ROOT = Path(__file__).resolve().parents[2]
SET = ROOT / "cmodules/llm/kernels/rvv"
sys.path.insert(0, str(ROOT / "tests/bench"))

import bench_rvv  # noqa: E402


def compilers() -> str:
    """The command of a compiler with the vector intrinsics, or nothing."""
    find = ["sh", str(ROOT / "tests/kernels/rvv_cc.sh")]
    return subprocess.run(find, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


@pytest.fixture(scope="module", autouse=True)
def _tools() -> None:
    need("qemu-riscv64")
    if not compilers():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(
            "no compiler for RISC-V vectors: install clang-19 or gcc-14-riscv64-linux-gnu, "
            "and libc6-dev-riscv64-cross"
        )


@pytest.mark.parametrize("bits", [128, 256, 512])
def test_bits(bits: int) -> None:
    cpu = f"rv64,v=true,vlen={bits},elen=64"
    check("qemu-riscv64", "-cpu", cpu, build("rvv"), "rvv")


def test_instructions() -> None:
    """The count that is to be reached, and none worse with longer vectors."""
    usage = subprocess.run(["qemu-riscv64", "--help"], capture_output=True, text=True).stdout
    if "-plugin" not in usage:
        pytest.skip("qemu-riscv64 takes no plugins, as Debian 13's; nothing counts")
    results = bench_rvv.measure()
    assert results == bench_rvv.measure()  # the same at each run
    found = {
        r["vector_bits"]: r["instructions_per_mac"]
        for r in results
        if (r["kernel"], r["columns"], r["rows"], r["batch"]) == ("gemv_q4", 288, 768, 1)
    }
    assert set(found) == {128, 256, 512}
    assert max(found.values()) <= 0.45


def test_allwinner_d1(tmp_path: Path) -> None:
    """The matrices compile for vectors 0.7.1, where a gcc knows them."""
    names = ("riscv64-linux-gnu-gcc", "riscv64-linux-gnu-gcc-15", "riscv64-linux-gnu-gcc-14")
    for compiler in filter(shutil.which, names):
        command = [compiler, "-march=rv64gc_xtheadvector", "-mabi=lp64d", "-std=c99", "-O3"]
        probe = [*command, "-fsyntax-only", "-x", "c", "-"]
        header = "#include <riscv_th_vector.h>\n"
        if subprocess.run(probe, input=header, text=True, capture_output=True).returncode == 0:
            break
    else:
        pytest.skip("no gcc with xtheadvector (14 or later)")
    for source in SET.glob("*.c"):
        out = tmp_path / source.with_suffix(".s").name
        subprocess.run([*command, "-Wall", "-Werror", "-S", "-o", out, source], check=True)
    assert "th.vwmacc" in (tmp_path / "matmul_int4.s").read_text()
