"""The engine on Xtensa: it compiles, and its logits there are everyone's to the last bit.

Debian has no compiler for the ESP32-S3 but one for a smaller Xtensa core without floating point
(gcc-xtensa-lx106), and an emulator that runs what it makes (qemu-user). tests/bare holds the
program and what the C library and the core's ROM would give it. The kernels in assembly are
test_kernels_esp32s3's.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import edge_llm.llm
import pytest
from edge_llm.convert import convert
from edge_llm.importers import open_model

ROOT = Path(__file__).parents[2]
ENGINE = ROOT / "cmodules" / "llm"
BARE = ROOT / "tests" / "bare"
VECTORS = ROOT / "tests" / "vectors"
STORIES = ROOT.parent / "shared" / "models" / "stories260K"

GCC = "xtensa-lx106-elf-gcc"
FLAGS = ["-std=gnu99", "-O2", "-Wall", "-Wextra", "-Werror", "-ffreestanding", "-mlongcalls"]
FLAGS += ["-ffp-contract=off", "-ffunction-sections", "-fdata-sections", f"-I{BARE}"]
CACHES = {"int8": 1, "f32": 2}  # llm_cache_t

Logits = Callable[[Path, str], str]


def tool(name: str, package: str) -> str:
    """The path of a program; skips without it, but not in CI."""
    path = shutil.which(name)
    if path is None and os.environ.get("CI"):
        pytest.fail(f"no {name}: install {package}")
    if path is None:
        pytest.skip(f"no {name}: apt install {package}")
    return path


def compile_all(sources: list[Path], output: Path, *flags: str) -> list[Path]:
    """Compiles each file, without a warning; returns the objects."""
    gcc = tool(GCC, "gcc-xtensa-lx106")
    objects = []
    for source in sources:
        objects.append(output / f"{source.parent.name}_{source.stem}.o")
        command = [gcc, *FLAGS, *flags, "-c", str(source), "-o", str(objects[-1])]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return objects


@pytest.fixture(scope="module")
def logits(tmp_path_factory: pytest.TempPathFactory) -> Logits:
    """SHA-256 of the logits of 64 tokens, of an image with a kind of cache."""
    output = tmp_path_factory.mktemp("xtensa")
    qemu = tool("qemu-xtensa", "qemu-user")
    sources = [
        *ENGINE.glob("core/*.c"),
        *ENGINE.glob("kernels/*.c"),
        *ENGINE.glob("kernels/*/*.c"),
    ]
    objects = compile_all([*sources, BARE / "xtensa.c", BARE / "libc.c"], output)

    def run(image: Path, cache: str) -> str:
        program = output / "program"
        main = compile_all(
            [BARE / "logits.c"], output, f'-DIMAGE="{image}"', f"-DCACHE={CACHES[cache]}"
        )
        link = [GCC, "-nostdlib", "-Wl,--gc-sections", *objects, *main, "-lgcc", "-o", program]
        subprocess.run(link, check=True)
        done = subprocess.run([qemu, "-cpu", "lx106", program], capture_output=True, timeout=300)
        assert done.returncode == 0, done.stdout.decode(errors="replace")
        return hashlib.sha256(done.stdout).hexdigest()

    return run


def test_the_kernel_set_in_c_compiles(tmp_path: Path) -> None:
    sources = [ENGINE / "kernels" / "table.c", *ENGINE.glob("kernels/esp32s3/*.c")]
    objects = compile_all(sources, tmp_path, "-DLLM_KERNELS_ESP32S3=1")
    names = subprocess.run(
        [GCC.replace("gcc", "nm"), *objects], capture_output=True, text=True, check=True
    ).stdout
    for kernel in ("tiles_int4", "pairs_int4", "tiles_int8", "scores", "values"):
        assert f"U llm_esp32s3_{kernel}" in names


@pytest.mark.parametrize("language", ["c", "assembler-with-cpp"])
def test_a_build_for_the_chip_takes_the_set(tmp_path: Path, language: str) -> None:
    gcc = tool(GCC, "gcc-xtensa-lx106")
    header = ENGINE / "kernels" / "sets.h"

    def chosen(*flags: str) -> bool:
        command = [gcc, "-E", "-dM", "-x", language, *flags, str(header)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return "#define LLM_KERNELS_ESP32S3 1" in done.stdout

    assert not chosen()
    (tmp_path / "sdkconfig.h").write_text("#define CONFIG_IDF_TARGET_ESP32S3 1\n")
    assert chosen(f"-I{tmp_path}")
    assert not chosen(f"-I{tmp_path}", "-DLLM_KERNELS_ESP32S3=0")
    (tmp_path / "sdkconfig.h").write_text("#define CONFIG_IDF_TARGET_ESP32 1\n")
    assert not chosen(f"-I{tmp_path}")


EXPECTED = [line.split() for line in (ROOT / "tests/device/digest.exp").read_text().splitlines()]


@pytest.mark.parametrize(("image", "cache", "sha256"), EXPECTED)
def test_logits_are_the_same_to_the_last_bit(
    logits: Logits, image: str, cache: str, sha256: str
) -> None:
    assert logits(VECTORS / image, cache) == sha256


@pytest.mark.parametrize("dtype", ["int4", "int8"])
def test_logits_of_a_real_model_are_the_same(logits: Logits, tmp_path: Path, dtype: str) -> None:
    if not STORIES.is_dir():
        pytest.skip(f"no {STORIES}")
    image = tmp_path / f"stories260K-{dtype}.llm"
    convert(open_model(STORIES / "stories260K.bin"), image, dtype)
    wanted = hashlib.sha256()
    with edge_llm.llm.load(str(image), cache="int8", context=64) as model:
        for i in range(64):
            model.eval(1 if i == 0 else ((i - 1) * 37 + 5) % 285)
            wanted.update(bytes(model.logits()))
    assert logits(image, "int8") == wanted.hexdigest()
