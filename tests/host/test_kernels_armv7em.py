"""The kernels for Cortex-M7 and M4 against `ref`, bit for bit, on emulated bare boards."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_kernels_host import build

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/bench"))

import bench_armv7em  # noqa: E402

CORE = ROOT / "cmodules/llm"
SET = CORE / "kernels/armv7em"
MACHINES = {"cortex-m7": "mps2-an500", "cortex-m4": "mps2-an386"}
M7 = ["-mcpu=cortex-m7", "-mthumb", "-mfpu=fpv5-d16", "-mfloat-abi=hard"]
FLAGS = ["-std=c99", "-O3", "-ffp-contract=off", "-fno-fast-math"]


def run(program: Path) -> subprocess.CompletedProcess[str]:
    """Run a bare-metal program on the emulated board it was built for."""
    return subprocess.run(
        ["qemu-system-arm", "-M", MACHINES[program.name], "-display", "none", "-monitor", "none"]
        + ["-serial", "none", "-semihosting", "-kernel", program],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )


@pytest.mark.parametrize(("target", "least"), [("cortex-m7", 20_000), ("cortex-m4", 7_000)])
def test_bits(target: str, least: int) -> None:
    done = run(build(target))
    assert done.stdout.startswith("kernel set armv7em\n"), done.stdout
    total = re.search(r"^(\d+) checks, (\d+) failures$", done.stdout, re.MULTILINE)
    assert done.returncode == 0 and total, done.stdout
    assert int(total[1]) > least and int(total[2]) == 0, done.stdout


@pytest.mark.parametrize(
    ("file", "old", "new", "function"),
    [
        ("gemv_int4.S", "smlawt lr, r11, r5, lr", "smlawt lr, r11, r1, lr", "matmul_int4"),
        ("gemm.S", "lsl r3, r3, #8", "lsl r3, r3, #7", "matmul_int8"),
        ("quantize_passes.S", "vcvtr.s32.f32", "vcvt.s32.f32", "quantize"),
        ("rmsnorm_passes.S", "max s2, s7", "max s2, s6", "rmsnorm_quantize"),
        ("silu_mul_pairs.S", "negative s3, s5, s1", "negative s3, s5, s0", "silu_mul_quantize"),
        ("attention_scores.S", "mov stride, #0", "nop", "attention_int8"),
        ("attention_softmax.S", "umlal r12, lr, r3", "umlal r12, lr, r1", "attention_int8"),
        ("attention_values.S", "pkhtb r11, r11, r10", "pkhtb r11, r10, r10", "attention_int8"),
        ("attention_int8.c", "| (LLM_ATTENTION_BLOCK - 1)", "+ 511", "attention_int8"),
    ],
)
def test_faults_are_found(tmp_path: Path, file: str, old: str, new: str, function: str) -> None:
    """A set with one fault fails the check, in the function that has it."""
    core = tmp_path / "llm"
    shutil.copytree(CORE, core)
    faulty = core / "kernels/armv7em" / file
    source = faulty.read_text()
    assert old in source
    faulty.write_text(source.replace(old, new))
    done = run(build("cortex-m4", f"CORE={core}", f"BUILD={tmp_path}"))
    assert done.returncode == 1
    failures = re.search(rf"^{function}: \d+ checks, (\d+) fail", done.stdout, re.MULTILINE)
    assert failures and int(failures[1]) > 0, done.stdout


def test_assembly_keeps_what_is_the_callers(tmp_path: Path) -> None:
    """r4 to r11 and s16 to s31 are saved by each function that uses them."""
    functions = 0
    for source in sorted(SET.glob("*.S")):
        binary = tmp_path / f"{source.stem}.o"
        subprocess.run(["arm-none-eabi-gcc", *M7, "-c", "-o", binary, source], check=True)
        command = ["arm-none-eabi-objdump", "-d", "--no-show-raw-insn", "-M", "reg-names-raw"]
        text = subprocess.run(
            [*command, binary], check=True, stdout=subprocess.PIPE, text=True
        ).stdout
        for name, body in re.findall(r"<(llm_\w+)>:\n((?:[ \t].+\n)+)", text):
            functions += 1
            pushes = "".join(re.findall(r"\s(?:v?push|stmdb\s+(?:r13|sp)!,)\s.*", body))
            for first, last in re.findall(r"\b([rs]\d+)-([rs]?\d+)", pushes):
                kind = first[0]
                numbers = range(int(first[1:]), int(last.lstrip("rs")) + 1)
                pushes += "".join(f" {kind}{number}" for number in numbers)
            saved = set(re.findall(r"\b[rs]\d+\b", pushes))
            used = set(re.findall(r"\b(?:r[4-9]|r1[01]|s1[6-9]|s2\d|s3[01])\b", body))
            assert used <= saved, f"{name} does not save {sorted(used - saved)}"
            assert not re.search(r"\bd\d+\b", pushes), f"{name}: this test does not know pairs"
    assert functions >= 20


ITCM = [f"-T{ROOT}/tests/bare/itcm.ld"]
WHOLE = ["-Wl,--section-start=.vectors=0"]


@pytest.mark.parametrize(
    ("flags", "there"),
    [
        ([*M7, *WHOLE], True),
        ([*M7, *ITCM], True),
        ([*M7, *WHOLE, "-DLLM_KERNELS_ARMV7EM=0"], False),
        # The assembly takes floats in the FPU's registers.
        ([*(flag.replace("=hard", "=softfp") for flag in M7), *WHOLE], False),
    ],
    ids=["whole", "in ITCM", "left out", "softfp"],
)
def test_placed_or_left_out(tmp_path: Path, flags: list[str], there: bool) -> None:
    """The engine's logits are the same to the last bit with the set where the linker puts it, in
    ITCM and left out. Left out, it adds nothing."""
    image, cache, sha256 = (ROOT / "tests/device/digest.exp").read_text().splitlines()[-2].split()
    assert (image, cache) == ("tiny-int4.llm", "int8")
    gcc = ["arm-none-eabi-gcc", *FLAGS, *flags]
    # The linker script of ITCM knows the kernels by the folder of their objects.
    objects = tmp_path / "kernels/armv7em"
    objects.mkdir(parents=True)
    subprocess.run([*gcc, "-c", *SET.glob("*.[cS]")], check=True, cwd=objects)
    sources = [p for folder in ("core", "kernels") for p in (CORE / folder).rglob("*.[cS]")]
    sources = [ROOT / "tests/bare/logits.c", ROOT / "tests/bare/cortex_m.c"] + [
        path for path in sources if path.parent != SET
    ]
    program = tmp_path / "program"
    subprocess.run(
        [*gcc, "--specs=rdimon.specs", f'-DIMAGE="{ROOT}/tests/vectors/{image}"', "-DCACHE=1"]
        + ["-o", program, *sources, *objects.glob("*.o")],
        check=True,
    )
    symbols = dict(
        reversed(line.split()[::2])
        for line in subprocess.run(
            ["arm-none-eabi-nm", "--defined-only", program],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout.splitlines()
    )
    kernels = {name: address for name, address in symbols.items() if "llm_armv7em_" in name}
    assert bool(kernels) == there
    if "itcm_end" in symbols:
        assert int(symbols["main"], 16) >= 0x60000000  # in flash, and the kernels are not
        end = int(symbols["itcm_end"], 16)
        assert all(int(address, 16) < end for address in kernels.values())
    done = subprocess.run(
        ["qemu-system-arm", "-M", "mps2-an500", "-display", "none", "-monitor", "none"]
        + ["-serial", "none", "-semihosting", "-kernel", program],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout
    assert hashlib.sha256(done.stdout).hexdigest() == sha256


def test_costs() -> None:
    """Exact instruction counts, and estimated cycles where llvm-mca is there, stay within what
    was set out to be reached."""
    measured = bench_armv7em.measure()
    results = {
        (r["kernel"], r["batch"]): r
        for r in measured
        if (r["columns"], r["rows"]) == (288, 768) or r["kernel"] == "softmax"
    }
    for key, (instructions, cycles) in bench_armv7em.TARGETS.items():
        assert instructions is None or results[key]["instructions_per_mac"] <= instructions
        assert cycles is None or results[key].get("cycles_per_mac_mca", 0) <= cycles
    softmax = results["softmax", 1]["instructions_per_element"]
    assert softmax <= bench_armv7em.SOFTMAX_TARGET
    positions = bench_armv7em.per_position(measured)
    assert positions.keys() == bench_armv7em.POSITION_TARGETS.keys()
    for shape, instructions in bench_armv7em.POSITION_TARGETS.items():
        assert positions[shape] <= instructions
