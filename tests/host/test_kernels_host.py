"""The kernel sets of this machine and of arm64 against `ref`, and how one is chosen."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from edge_llm import engine

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests/kernels"
VECTORS = ROOT / "tests/vectors"


def build(target: str, *variables: str) -> Path:
    """Build check_kernels for a target of tests/kernels/Makefile; returns the program."""
    done = subprocess.run(
        ["make", "-s", "-C", FOLDER, target, *variables],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={name: value for name, value in os.environ.items() if not name.startswith("MAKE")},
    )
    assert done.returncode == 0, done.stdout
    folders = [v.removeprefix("BUILD=") for v in variables if v.startswith("BUILD=")]
    return Path(folders[0] if folders else ROOT / "build/kernels") / target


def check(*command: str | Path) -> None:
    """Run check_kernels; fails unless it made its checks and all passed."""
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300
    )
    total = re.search(r"^(\d+) checks, (\d+) failures$", done.stdout, re.MULTILINE)
    assert done.returncode == 0 and total, done.stdout
    assert int(total[1]) > 20_000 and int(total[2]) == 0, done.stdout


def need(*programs: str) -> None:
    """Skip the test where a program is absent, but not in CI."""
    for program in programs:
        if shutil.which(program) is None:
            (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{program} is not installed")


@pytest.mark.parametrize("target", ["sanitized", "host"])
def test_bits(target: str) -> None:
    program = build(target)
    for name in engine.kernels():
        check(program, name)


def test_bits_arm64() -> None:
    need("aarch64-linux-gnu-gcc", "qemu-aarch64")
    check("qemu-aarch64", build("arm64"), "neon")


@pytest.mark.skipif("avx2" not in engine.kernels(), reason="the faults are in the AVX2 set")
def test_faults_are_found(tmp_path: Path) -> None:
    """A set with one fault in each of some functions fails the check in them, and only there."""
    core = tmp_path / "llm"
    shutil.copytree(ROOT / "cmodules/llm", core)
    for file, old, new in [
        ("avx2.h", "_mm256_set1_epi8(15)", "_mm256_set1_epi8(7)"),  # matmul_int4
        ("avx2.h", "_mm256_madd_epi16(low, weights)", "_mm256_madd_epi16(high, weights)"),
        ("silu_mul.c", "f_mul(e, r)", "r"),
        ("quantize.c", "+ 0xFFFF;", "+ 0x8000;"),  # quantize_kv
        ("attention_f32.c", "scores[t] > max", "scores[t] < max"),
        ("add.c", "i < n;", "i < n - 1;"),
    ]:
        faulty = core / "kernels/host" / file
        source = faulty.read_text()
        assert old in source, (file, old)
        faulty.write_text(source.replace(old, new))
    program = build("host", f"CORE={core}", f"BUILD={tmp_path}")
    done = subprocess.run([program, "avx2"], stdout=subprocess.PIPE, text=True, timeout=300)
    assert done.returncode == 1
    counts = re.findall(r"^(\w+): \d+ checks, (\d+) failures$", done.stdout, re.MULTILINE)
    found = {function for function, failures in counts if int(failures) > 0}
    assert found == {
        "matmul_int4",
        "quantize_kv",
        "silu_mul",
        "silu_mul_quantize",
        "add",
        "attention_int8",
        "attention_f32",
    }, done.stdout


@pytest.mark.parametrize("quantize", ["int4", "int8", "f32"])
def test_same_logits(quantize: str) -> None:
    raw = (VECTORS / f"tiny-{quantize}.llm").read_bytes()
    logits = []
    for name in engine.kernels():
        with engine.Model(raw, kernels=name) as model:
            assert model.kernels == name
            model.eval([i % model.vocab_size for i in range(min(40, model.context))])
            logits.append(bytes(model.logits()))
    assert len(set(logits)) == 1


def test_chosen_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = (VECTORS / "tiny-int4.llm").read_bytes()
    monkeypatch.delenv("LLM_KERNELS", raising=False)
    best = engine.kernels()[0]
    assert engine.Model(raw).kernels == best
    monkeypatch.setenv("LLM_KERNELS", "ref")
    assert engine.Model(raw).kernels == "ref"
    assert engine.Model(raw, kernels=best).kernels == best
    monkeypatch.setenv("LLM_KERNELS", "")
    assert engine.Model(raw).kernels == best
    monkeypatch.setenv("LLM_KERNELS", "none")
    with pytest.raises(ValueError, match="LLM_KERNELS: no 'none' on this machine"):
        engine.Model(raw)
