"""Other cores: each port keeps what ports.h promises, and a divided product has the same bits.

tests/ports/check_parallel.c does the work, with ThreadSanitizer: over POSIX threads, and over the
FreeRTOS task of the ESP32 with a stand-in for FreeRTOS. Then the same through both Pythons.
"""

from __future__ import annotations

import gc
import hashlib
import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import google_crc32c
import pytest
from edge_llm import engine
from edge_llm.image import Config, Dtype
from oracle_models import make_image, random_planes

ROOT = Path(__file__).resolve().parents[2]
PORTS = ROOT / "tests" / "ports"
VECTORS = ROOT / "tests" / "vectors"
XTENSA_GCC = "xtensa-lx106-elf-gcc"

# Large enough to be divided on a desk: its head for each token, all of it for a prompt.
LARGE = Config(8192, 288, 768, 1, 6, 2, 48, 64, tied=False)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ports") / "large.llm"
    make_image(path, LARGE, Dtype.INT4, random_planes(1))
    return path


def crc_of_logits(image: bytes) -> str:
    """What check_parallel prints, by the engine on one core."""
    crc = 0
    with engine.Model(image, context=64, cores=1) as model:
        tokens = [(i * 37 + 5) % model.vocab_size for i in range(40)]
        for part in [*tokens[:20], tokens[20:]]:
            model.eval(part)
            crc = google_crc32c.extend(crc, bytes(model.logits()))
    return f"{crc:08x}"


@pytest.mark.parametrize(("port", "cores"), [("posix", 4), ("esp32", 2)])
def test_a_port_keeps_its_promises(port: str, cores: int) -> None:
    subprocess.run(["make", "-s", "-C", PORTS, port], check=True)
    for image in sorted(VECTORS.glob("*.llm")):
        done = subprocess.run(
            [ROOT / "build" / "ports" / port, image], capture_output=True, text=True, timeout=300
        )
        assert (done.returncode, done.stderr) == (0, "")
        crc = crc_of_logits(image.read_bytes())
        assert done.stdout.splitlines() == [f"{n} {crc}" for n in range(1, cores + 1)]


@pytest.mark.parametrize("chip", [[], ["-DCONFIG_FREERTOS_UNICORE=1"]])
def test_the_task_compiles_for_xtensa(chip: list[str], tmp_path: Path) -> None:
    if shutil.which(XTENSA_GCC) is None:
        assert not os.environ.get("CI"), f"no {XTENSA_GCC}: install gcc-xtensa-lx106"
        pytest.skip(f"no {XTENSA_GCC}: apt install gcc-xtensa-lx106")
    flags = ["-std=c99", "-O3", "-Wall", "-Wextra", "-Werror", "-ffreestanding", "-mlongcalls"]
    for port in ("esp32", "none", "posix"):
        source = ROOT / "cmodules" / "llm" / "ports" / port / "parallel.c"
        command = [XTENSA_GCC, *flags, "-DESP_PLATFORM=1", *chip, f"-I{PORTS}", "-c", str(source)]
        done = subprocess.run([*command, "-o", tmp_path / port], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
    names = subprocess.run(
        [XTENSA_GCC.replace("gcc", "nm"), tmp_path / "esp32"], capture_output=True, text=True
    ).stdout
    assert "T llm_port_parallel" in names and "U xTaskCreatePinnedToCore" in names


# ------------------------------------------------------------------------------------ on CPython


def n_threads(limit: int) -> int:
    """Threads of this process, a moment later if there are more than `limit`."""
    for _ in range(100):
        n = len(os.listdir("/proc/self/task"))
        if n <= limit:
            break
        time.sleep(0.01)
    return n


def logits(model: engine.Model) -> str:
    """A digest of logits after a prompt and of tokens one by one."""
    digest = hashlib.sha256()
    model.rewind(0)
    for part in [list(range(20)), *range(20)]:
        model.eval(part)
        digest.update(bytes(model.logits()))
    return digest.hexdigest()


def test_logits_are_the_same_on_any_number_of_cores(large: Path) -> None:
    image = large.read_bytes()
    digests = set()
    for cores in (0, 1, 2, 3, 16):
        with engine.Model(image, cores=cores) as model:
            assert model.cores == (cores or 1)
            digests.add(logits(model))
    assert len(digests) == 1


@pytest.mark.parametrize("kernels", engine.kernels())
@pytest.mark.parametrize("dtype", ["f32", "int8", "int4"])
def test_the_smallest_matrix_is_divided_to_the_same_bits(dtype: str, kernels: str) -> None:
    image = (VECTORS / f"tiny-{dtype}.llm").read_bytes()
    digests = set()
    for cores in (1, 2, 3, 5):
        with engine.Model(image, kernels=kernels, cores=cores) as model:
            model._model.parallel.min_macs = 0
            digests.add(logits(model))
    assert len(digests) == 1


def test_threads_start_with_the_first_large_matrix_and_end_with_the_last_model(
    large: Path,
) -> None:
    gc.collect()
    image = large.read_bytes()
    before = n_threads(1)
    first, second = (engine.Model(image, cores=3) for _ in range(2))
    assert n_threads(before) == before
    first.eval(1)
    assert n_threads(before) == before + 2
    second.eval(1)
    assert n_threads(before) == before + 2
    first.close()
    first.close()
    second.eval(1)
    assert n_threads(before) == before + 2
    del second  # not closed
    gc.collect()
    assert n_threads(before) == before


def test_two_models_in_two_threads(large: Path) -> None:
    image = large.read_bytes()
    with engine.Model(image) as model:
        want = logits(model)
    got = []

    def work() -> None:
        with engine.Model(image, cores=2) as model:
            for _ in range(5):
                got.append(logits(model))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert got == [want] * 10


def test_a_forked_process_starts_its_own_threads(large: Path) -> None:
    with engine.Model(large.read_bytes(), cores=2) as model:
        want = logits(model)
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            os._exit(logits(model) != want or n_threads(2) != 2)
        assert os.waitpid(child, 0)[1] == 0
        assert logits(model) == want


@pytest.mark.parametrize("cores", [-1, 17, 2**32])
def test_more_cores_than_there_are(cores: int) -> None:
    image = (VECTORS / "tiny-int4.llm").read_bytes()
    with pytest.raises(ValueError, match="^cores: must be an int from 0 to 16$"):
        engine.Model(image, cores=cores)


# ------------------------------------------------------------------------- on MicroPython for Unix

SAME = """
import gc, hashlib, llm, os
def n_threads():
    return len(list(os.ilistdir("/proc/self/task")))
def run(cores, sha256):
    model = llm.load(IMAGE, cores=cores)
    for part in [list(range(20))] + list(range(20)):
        model.eval(part)
        sha256.update(bytes(model.logits()))
    return model
digests = set()
before = n_threads()
for cores in (1, 2, 3):
    sha256 = hashlib.sha256()
    model = run(cores, sha256)
    assert model.cores == cores and n_threads() == before + cores - 1, n_threads()
    model.close()
    digests.add(sha256.digest())
assert n_threads() == before
print(len(digests), digests.pop().hex())
for _ in range(50):
    run(2, hashlib.sha256())  # never closed
gc.collect()
run(1, hashlib.sha256())  # what the stack still points to
gc.collect()
print(n_threads() - before)
"""


def micropython(port: str, image: Path, script: str) -> list[str | Path]:
    """The command that runs a script, with a heap that holds the image."""
    program = ROOT / "build" / port / "micropython"
    if not program.is_file():
        pytest.fail(f"no {program}: run `make {port}`")
    return [program, "-X", "heapsize=32M", "-c", f"IMAGE = {str(image)!r}\n{script}"]


@pytest.mark.parametrize("port", ["unix", "unix-asan"])
def test_micropython_has_the_same_bits(port: str, large: Path) -> None:
    with engine.Model(large.read_bytes()) as model:
        want = logits(model)
    command = micropython(port, large, SAME)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [f"1 {want}", "0"]


INTERRUPTED = """
import hashlib, llm
model = llm.load(IMAGE, cores=2)
def logits():
    sha256 = hashlib.sha256()
    model.rewind(0)
    for part in [list(range(20))] + list(range(20)):
        model.eval(part)
        sha256.update(bytes(model.logits()))
    return sha256.digest()
want = logits()
prompt = list(range(16))
for _ in range(20):
    try:
        print("ready")
        while True:  # nothing is allocated: MicroPython does not survive Ctrl-C while it collects
            model.rewind(0)
            model.eval(prompt)
    except KeyboardInterrupt:
        assert logits() == want
print("done")
"""


@pytest.mark.parametrize("port", ["unix", "unix-asan"])
def test_ctrl_c_while_cores_compute(port: str, large: Path) -> None:
    command = micropython(port, large, INTERRUPTED)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        watchdog = threading.Timer(60, process.kill)
        watchdog.start()
        lines = []
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.decode().strip())
            if lines[-1] == "ready":
                time.sleep(0.01 + 0.0013 * len(lines))
                process.send_signal(signal.SIGINT)
        watchdog.cancel()
    assert lines == ["ready"] * 20 + ["done"]
