"""The emulated board's clock, the UART that hangs on it, and the governor on both."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

import pytest
from edge_llm.romfs import write_romfs
from qemu import Board

ROOT = Path(__file__).resolve().parents[2]
VECTORS = ROOT / "tests" / "vectors"


@pytest.fixture
def rom(tmp_path: Path) -> Path:
    """A ROMFS image with a model."""
    write_romfs(tmp_path / "rom", [VECTORS / "tiny-int4.llm"])
    return tmp_path / "rom"


def test_clock(board: Board) -> None:
    script = """
import machine
print(machine.freq())
for hz in (100_000_000, 50_000_000, 25_000_000):
    machine.freq(hz)
    print(machine.freq())
for hz in (0, 80_000_000):
    try:
        machine.freq(hz)
    except ValueError as error:
        print(error)
machine.freq(100_000_000)
"""
    refused = "hz: must be 25000000, 50000000 or 100000000\n"
    want = "25000000\n100000000\n50000000\n25000000\n" + 2 * refused
    assert board.run(script) == want
    assert board.run(script) == want  # a reset sets the clock back


def test_uart_in_both_directions(tmp_path: Path) -> None:
    script = """
import machine, select, time
for args, settings in (((0,), {}), ((1, 100), {}), ((1,), {"timeout": -1})):
    try:
        machine.UART(*args, **settings)
        print("nothing was raised")
    except ValueError:
        pass
uart = machine.UART(1, 9600)
print(uart, uart.any(), uart.read(1), uart.txdone())
uart.write("ready")
poll = select.poll()
poll.register(uart, select.POLLIN)
print(poll.poll(20_000)[0][1] == select.POLLIN, uart.any())
uart.init(115200, timeout=500)
print(uart.read(1000))
start = time.ticks_ms()
print(uart.read(5), 500 <= time.ticks_diff(time.ticks_ms(), start) < 1500)
"""
    with (
        Board(options=["-serial", f"unix:{tmp_path}/line,server=on,wait=off"]) as board,
        socket.socket(socket.AF_UNIX) as line,
    ):
        board.run("")  # QEMU has made the socket by now
        line.connect(f"{tmp_path}/line")
        line.settimeout(20)

        def answer() -> None:
            heard.append(line.makefile("rb").read(5))
            time.sleep(0.5)
            line.sendall(bytes(range(32, 127)) * 5)

        heard: list[bytes] = []
        other_end = threading.Thread(target=answer)
        other_end.start()
        lines = board.run(script).splitlines()
        other_end.join()
    assert heard == [b"ready"]
    assert lines == [
        "UART(1, baudrate=9600, timeout=0) 0 None True",
        "True 1",
        repr(bytes(range(32, 127)) * 5),
        "None True",
    ]


STREAM = """
import llm, machine
uart = machine.UART(1, 115200)
governor = llm.Governor(POLICY, uarts=[(uart, 115200)] if TOLD else [])
model = llm.load(MODEL)
gen = llm.Generator(model, temperature=0, governor=governor)
metrics = llm.metrics(gen, power={25: 50, 50: 90, 100: 170})
if POLICY == "battery":
    machine.freq(100_000_000)
found = machine.freq()
clocks = set()
class Watched:
    def write(self, data):
        clocks.add(machine.freq())
        return uart.write(data)
gen.stream("then the", Watched(), max_tokens=40)
assert machine.freq() == found
uart.write("\\n")
metrics.emit(uart)
print(sorted(clocks), governor.levels)
print("".join(gen.generate("then the", max_tokens=40)))
"""


@pytest.mark.parametrize("policy", ["performance", "battery"])
@pytest.mark.parametrize("told", [True, False])
def test_governor_with_a_uart(rom: Path, tmp_path: Path, policy: str, told: bool) -> None:
    line = tmp_path / "line"
    with Board(rom, options=["-serial", f"file:{line}"]) as board:
        variables = {"POLICY": policy, "TOLD": told, "MODEL": "/rom/tiny-int4.llm"}
        clocks, text = board.run(STREAM, **variables).split("\n", 1)
    level = {"performance": 100_000_000, "battery": 25_000_000}[policy]
    assert clocks == f"[{level}] [25000000, 50000000, 100000000]"
    received = line.read_bytes().split(b"\n")[0]
    assert len(received) >= len(text.rstrip())
    assert (received == text.rstrip().encode()) is told


def test_the_clock_comes_back_after_an_error_and_ctrl_c(rom: Path) -> None:
    script = """
import llm, machine
governor = llm.Governor("performance")
class Model(llm.Model):
    def eval(self, tokens):
        super().eval(tokens)
        if self.n_tokens > 8:
            raise ERROR
class Stream:
    def write(self, data):
        raise ERROR
model = Model(open("/rom/tiny-int4.llm", "rb").read())
for ERROR in (ValueError, KeyboardInterrupt):
    gen = llm.Generator(model, temperature=0, governor=governor)
    try:
        gen.stream("the", Stream())
    except BaseException as error:
        print(type(error).__name__, machine.freq() // 1000000)
    try:
        for piece in gen.generate("the"):
            assert machine.freq() == 100000000
    except BaseException as error:
        print(type(error).__name__, machine.freq() // 1000000)
    with governor:
        for piece in gen.generate("the"):
            break
    print(machine.freq() // 1000000)
"""
    with Board(rom) as board:
        assert board.run(script).split() == (
            "ValueError 25 ValueError 25 25 KeyboardInterrupt 25 KeyboardInterrupt 25 25".split()
        )
