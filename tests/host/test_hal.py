"""`llm.hal` of MicroPython on chips that are not here, and what the boards say of their power."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
POWER = sorted((ROOT / "boards").glob("*/power.json"))

# `machine`, `esp32` and `pyb` as the ports' documentation has them, in the place of what the Unix
# port has; `sys` for hal alone, since the chip's name in it cannot be changed.
CHIP = """
import sys
class Module:
    def __init__(self, **names):
        for name in names:
            setattr(self, name, names[name])
state = FOUND
def freq(*args):
    global state
    if NRF:
        raise NotImplementedError
    if not args:
        return state
    hz = args[0]
    if isinstance(FOUND, tuple):
        hz = min(hz, 400_000_000)
        hclk = hz // 2 if hz > 200_000_000 else hz
        state = args if len(args) == 4 else (hz, hclk, hclk // 4, hclk // 2)
    elif hz in (20_000_000, 40_000_000, 80_000_000, 160_000_000, 240_000_000):
        state = hz
    else:
        raise ValueError("frequency must be 20MHz, 40MHz, 80Mhz, 160MHz or 240MHz")
class ADCAll:
    def __init__(self, resolution, mask):
        assert (resolution, mask) == (12, 0x70000)
    def read_core_temp(self):
        return 37.5
log = []
class Pin:
    def value(self, *args):
        log.append(args)
class UART:
    def any(self):
        return 3
    def flush(self):
        log.append("flush")
    def init(self, baudrate=9600):
        log.append(baudrate)
sys.modules["machine"] = Module(freq=freq)
if "ESP32" in MACHINE:
    sys.modules["esp32"] = Module(mcu_temperature=lambda: 41)
if "STM32" in MACHINE:
    sys.modules["pyb"] = Module(ADCAll=ADCAll)
import llm
hal = llm.hal
sys.modules["llm.hal.micropython"].sys = Module(
    implementation=Module(name="micropython", _machine=MACHINE), platform="nrf" if NRF else "x"
)
print(hal.levels(), hal.temperature(), hal.voltage())
found = hal.clock()
print(hal.hertz(found))
for hz in hal.levels():
    hal.set_clock(hz)
    print(hal.hertz(hal.clock()) == hz, end=" ")
try:
    hal.set_clock(123)
    print("set", end=" ")
except ValueError as error:
    print(type(error).__name__, end=" ")
if hal.levels():
    hal.set_clock(found)
print(hal.clock() == FOUND or NRF)
hal.drive(Pin(), True), hal.drive(Pin(), False)
uart = UART()
hal.drain(uart), hal.set_baud(uart, 115200)
print(log, hal.waiting(uart))
"""

LAST = "[(1,), (0,), 'flush', 115200] 3\n"


@pytest.mark.parametrize(
    ("machine", "found", "want"),
    [
        (
            "Generic ESP32S3 module with ESP32S3",
            160_000_000,
            "(80000000, 160000000, 240000000) 41 None\n160000000\n"
            "True True True ValueError True\n",
        ),
        (
            "ESP32C3 module with ESP32C3",
            160_000_000,
            "(80000000, 160000000) 41 None\n160000000\nTrue True ValueError True\n",
        ),
        (
            "NUCLEO_H743ZI with STM32H743",
            (400_000_000, 200_000_000, 100_000_000, 100_000_000),
            "(100000000, 200000000, 300000000, 400000000) 37.5 None\n400000000\n"
            "True True True True set True\n",
        ),
        ("NRF52840-DK with NRF52840", None, "() None None\n64000000\nValueError True\n"),
    ],
)
def test_micropython_on_other_chips(
    unix: Callable[..., str], machine: str, found: object, want: str
) -> None:
    got = unix(CHIP, MACHINE=machine, FOUND=found, NRF="NRF" in machine)
    assert got == want + LAST


def test_there_is_a_board_of_each_kind() -> None:
    chips = {json.loads(path.read_text())["chip"] for path in POWER}
    assert chips >= {"ESP32-S3", "STM32H743", "nRF52840"}


@pytest.mark.parametrize("path", POWER, ids=lambda path: path.parent.name)
def test_power_of_a_board(path: Path) -> None:
    power = json.loads(path.read_text())
    assert set(power) == {"chip", "volts", "note", "levels"} and power["note"].endswith(".")
    levels = power["levels"]
    assert [level["mhz"] for level in levels] == sorted({level["mhz"] for level in levels})
    for level in levels:
        assert set(level) == {"mhz", "ma", "mw", "kind", "source"}
        assert level["mw"] == round(level["ma"] * power["volts"])
        assert level["kind"] in ("datasheet", "estimate", "measured") and len(level["source"]) > 40
    assert [level["mw"] for level in levels] == sorted(level["mw"] for level in levels)


def test_levels_of_the_chips_have_their_power() -> None:
    # What hal offers without being asked is in the boards' files.
    for board, mhz in (
        ("ESP32_S3_N16R8", (80, 160, 240)),
        ("WEACT_H743", (100, 200, 300, 400)),
        ("NRF52840_DK", (64,)),
    ):
        power = json.loads((ROOT / "boards" / board / "power.json").read_text())
        assert tuple(level["mhz"] for level in power["levels"]) == mhz
