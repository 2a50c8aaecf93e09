"""The MicroPython side of `hal`."""

import os
import sys
import time
from hashlib import sha256
from time import sleep_ms, ticks_diff, ticks_ms, ticks_us

import _llm as engine
import uctypes

from .shared import mem_free, mem_used, view, with_path

try:
    import machine
except ImportError:
    machine = None

try:
    import select  # here, since finding it takes thousands of instructions
except ImportError:
    select = None

try:
    import termios  # the Unix port
except ImportError:
    termios = None

__all__ = [
    "clock",
    "drain",
    "drive",
    "engine",
    "has_keys",
    "hertz",
    "is_text",
    "levels",
    "mapped",
    "mem_free",
    "mem_used",
    "random_seed",
    "read",
    "set_baud",
    "set_clock",
    "sha256",
    "sleep_ms",
    "stdout",
    "temperature",
    "ticks_diff",
    "ticks_ms",
    "ticks_us",
    "unbuffer",
    "view",
    "voltage",
    "waiting",
    "with_path",
]


def random_seed():
    if hasattr(os, "urandom"):
        return int.from_bytes(os.urandom(4), "little")
    return time.ticks_us() ^ time.time()


def mapped(address, size):
    return uctypes.bytearray_at(address, size)


def stdout():
    return sys.stdout


def is_text(stream):
    return False  # all take bytes


_stdin = getattr(sys.stdin, "buffer", sys.stdin)
_stdin_poll = None


def waiting(stream=None):
    global _stdin_poll
    if hasattr(stream, "any"):  # a UART
        return stream.any()
    if stream is None and _stdin_poll:
        poll = _stdin_poll
    else:
        poll = select.poll()
        poll.register(_stdin if stream is None else stream, select.POLLIN)
        if stream is None:
            _stdin_poll = poll
    for _ in poll.ipoll(0):  # takes no RAM
        return 1
    return 0


def read(stream=None):
    data = (_stdin if stream is None else stream).read(1) or b""
    return data.encode() if isinstance(data, str) else data


def has_keys():
    return termios is None


def unbuffer():
    if termios:
        try:
            before = termios.tcgetattr(0)
        except OSError:  # not a terminal
            return lambda: None
        termios.setraw(0)
        now = termios.tcgetattr(0)
        now[1] = before[1]  # what is written goes on as before
        termios.tcsetattr(0, termios.TCSANOW, now)
        return lambda: termios.tcsetattr(0, termios.TCSANOW, before)
    return lambda: None


def drive(pin, on):
    pin.value(1 if on else 0)


def drain(uart):
    uart.flush()


def set_baud(uart, baud):
    uart.init(baudrate=baud)


def clock():
    # An int, or (STM32) a tuple of the processor's clock and those of the buses.
    try:
        return machine.freq()
    except (AttributeError, NotImplementedError):  # the Unix port, nRF
        return 64_000_000 if sys.platform == "nrf" else None


def set_clock(clock):
    try:
        if isinstance(clock, tuple):
            machine.freq(*clock)
        else:
            machine.freq(clock)
    except (AttributeError, NotImplementedError):
        raise ValueError("the clock cannot be set on this port") from None


def hertz(clock):
    return clock[0] if isinstance(clock, tuple) else clock or 0


def levels():
    chip = sys.implementation._machine
    if "ESP32" in chip:
        # C3, C6: up to 160 MHz. Below 80 MHz the bus slows down too, and Wi-Fi stops.
        return (80_000_000, 160_000_000) + ((240_000_000,) if "32C" not in chip else ())
    if "STM32H7" in chip:
        # The highest at each voltage of the core, and half the lowest of them.
        return 100_000_000, 200_000_000, 300_000_000, 400_000_000
    if "mps2" in chip:  # boards/QEMU_M7
        return 25_000_000, 50_000_000, 100_000_000
    return ()


def temperature():
    try:
        import esp32

        return esp32.mcu_temperature()
    except (ImportError, AttributeError):
        pass
    try:
        import pyb

        return pyb.ADCAll(12, 0x70000).read_core_temp()
    except (ImportError, AttributeError):
        return None


def voltage():
    return None
