"""The CircuitPython side of `hal`: no `machine`, no `uctypes`, a `hashlib` of its own."""

import hashlib
import io
import os
import sys
import time

import _llm as engine
import microcontroller
import supervisor

from .shared import mem_free, mem_used, view, with_path

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

ticks_ms = supervisor.ticks_ms

_HALF = 1 << 28  # of what supervisor.ticks_ms wraps at


def ticks_us():
    return time.monotonic_ns() // 1000 & 2 * _HALF - 1


def ticks_diff(end, start):
    return (end - start + _HALF & 2 * _HALF - 1) - _HALF


def sleep_ms(ms):
    time.sleep(ms / 1000)


def random_seed():
    try:
        return int.from_bytes(os.urandom(4), "little")
    except NotImplementedError:  # a chip without a source
        return time.monotonic_ns() & 0xFFFFFFFF


def sha256(data=b""):
    return hashlib.new("sha256", data)


def mapped(address, size):
    raise OSError("CircuitPython cannot show memory in place: load a path or a buffer")


def stdout():
    return sys.stdout


def is_text(stream):
    return isinstance(stream, (type(sys.stdout), io.TextIOWrapper, io.StringIO))


def waiting(stream=None):
    if stream is None:
        return supervisor.runtime.serial_bytes_available
    return stream.in_waiting


def read(stream=None):
    if stream is None:
        return sys.stdin.read(1).encode()
    return stream.read(1) or b""


def has_keys():
    return True


def unbuffer():
    return lambda: None


def drive(pin, on):
    pin.value = bool(on)


def drain(uart):
    pass  # `write` returns when all has left


def set_baud(uart, baud):
    uart.baudrate = baud


def clock():
    return microcontroller.cpu.frequency


def set_clock(clock):
    try:
        microcontroller.cpu.frequency = clock
    except AttributeError:
        raise ValueError("the clock cannot be set on this chip") from None


def hertz(clock):
    return clock


def levels():
    # The chips whose clock can be set are few; of these only Espressif's are known here.
    if sys.platform == "Espressif":
        return 80_000_000, 160_000_000, 240_000_000
    return ()


def temperature():
    return microcontroller.cpu.temperature


def voltage():
    return microcontroller.cpu.voltage
