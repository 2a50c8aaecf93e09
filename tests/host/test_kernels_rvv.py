"""The kernel set for RISC-V vectors against `ref`, bit for bit, with vectors of three lengths, on
QEMU's machine `virt` without an operating system."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_kernels_host import build, check, need

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "cmodules/llm"
SET = CORE / "kernels/rvv"
sys.path.insert(0, str(ROOT / "tests/bench"))

import bench_rvv  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def _tools() -> None:
    need("qemu-system-riscv64")
    try:
        bench_rvv.compiler()
    except FileNotFoundError as error:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(str(error))


@pytest.mark.parametrize("bits", bench_rvv.VECTOR_BITS)
def test_bits(bits: int) -> None:
    check(*bench_rvv.emulator(build("rvv"), bits))


def test_faults_are_found(tmp_path: Path) -> None:
    """A set that computes something else fails the check, and so does one that reads more than
    there is."""
    core = tmp_path / "llm"
    shutil.copytree(CORE, core)
    for file, old, new in [
        ("matmul.c", "(int4 ? 2 : 1)", "2"),
        ("add.c", "__riscv_vsetvl_e32m8(n)", "__riscv_vsetvlmax_e32m8()"),
    ]:
        faulty = core / "kernels/rvv" / file
        source = faulty.read_text()
        assert old in source
        faulty.write_text(source.replace(old, new))
    done = subprocess.run(
        bench_rvv.emulator(build("rvv", f"CORE={core}", f"BUILD={tmp_path}"), 128),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
    )
    assert done.returncode == 1
    failures = dict(re.findall(r"^(\w+): \d+ checks, (\d+) fail", done.stdout, re.MULTILINE))
    assert int(failures.pop("matmul_int8")) > 0, done.stdout
    assert failures["matmul_int4"] == failures["rmsnorm"] == "0", done.stdout
    assert re.match("fault 5 at 0x8", done.stdout.splitlines()[-1]), done.stdout  # a load


def test_logits_are_the_same_to_the_last_bit(tmp_path: Path) -> None:
    """The whole engine, with the set that it takes by itself."""
    image, cache, sha256 = (ROOT / "tests/device/digest.exp").read_text().splitlines()[-2].split()
    assert (image, cache) == ("tiny-int4.llm", "int8")
    program = tmp_path / "logits"
    define = [f'-DIMAGE="{ROOT}/tests/vectors/{image}"', "-DCACHE=1"]
    bench_rvv.compile_bare(ROOT / "tests/bare/logits.c", program, *define)
    done = subprocess.run(
        bench_rvv.emulator(program, 128), stdin=subprocess.DEVNULL, capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stdout
    assert hashlib.sha256(done.stdout).hexdigest() == sha256


def test_instructions() -> None:
    """What a MAC costs is what was to be reached, and longer vectors are no worse."""
    results = bench_rvv.measure()
    again = bench_rvv.measure((128,))
    assert again == results[: len(again)]  # the same at each run
    found: dict[tuple[str, int], dict[int, float]] = {}
    for r in results:
        if (r["columns"], r["rows"]) == (288, 768):
            costs = found.setdefault((r["kernel"], r["batch"]), {})
            costs[r["vector_bits"]] = r["instructions_per_mac"]
    assert len(found) == 8
    assert found["gemv_q4", 1][128] <= bench_rvv.TARGET
    for costs in found.values():
        assert costs[512] <= costs[256] <= costs[128]


def test_allwinner_d1(tmp_path: Path) -> None:
    """The matrices compile for vectors 0.7.1, where a gcc knows them."""
    names = ("riscv64-linux-gnu-gcc", "riscv64-linux-gnu-gcc-15", "riscv64-linux-gnu-gcc-14")
    for compiler in filter(shutil.which, names):
        command = [compiler, "-march=rv64gc_xtheadvector", "-mabi=lp64d", "-std=c99", "-O3"]
        command += ["-ffreestanding", "-fbuiltin", f"-I{ROOT}/tests/bare"]
        probe = [*command, "-fsyntax-only", "-x", "c", "-"]
        header = "#include <riscv_th_vector.h>\n"
        if subprocess.run(probe, input=header, text=True, capture_output=True).returncode == 0:
            break
    else:
        pytest.skip("no gcc with xtheadvector (14 or later)")
    for source in SET.glob("*.c"):
        out = tmp_path / source.with_suffix(".s").name
        subprocess.run([*command, "-Wall", "-Werror", "-S", "-o", out, source], check=True)
    assembly = (tmp_path / "matmul.s").read_text()
    for function in ("llm_rvv_matmul_int4", "llm_rvv_matmul_int8"):
        code = assembly.split(f"{function}:")[1].split(f"\t.size\t{function}")[0]
        assert "th.vwmacc" in code
