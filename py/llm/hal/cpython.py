"""The CPython side of `hal`: the desk, where the same package runs over the same engine."""

import ctypes
import io
import mmap
import os
import select
import sys
import time
from hashlib import sha256

from edge_llm import engine

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


def ticks_ms():
    return time.monotonic_ns() // 1_000_000


def ticks_us():
    return time.monotonic_ns() // 1000


def ticks_diff(end, start):
    return end - start


def mem_free():
    return 0


def mem_used():
    return 0


def sleep_ms(ms):
    time.sleep(ms / 1000)


def random_seed():
    return int.from_bytes(os.urandom(4), "little")


def view(file):
    try:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):
        return None


def with_path(error, path):
    if error.errno is None:
        return OSError(f"{path}: {error}")
    return OSError(error.errno, error.strerror, path)


def mapped(address, size):
    return memoryview((ctypes.c_ubyte * size).from_address(address)).cast("B")


def stdout():
    return sys.stdout


def is_text(stream):
    return isinstance(stream, io.TextIOBase)


def waiting(stream=None):
    if hasattr(stream, "in_waiting"):  # a serial port of pyserial
        return stream.in_waiting
    return len(select.select([sys.stdin if stream is None else stream], [], [], 0)[0])


def read(stream=None):
    if not hasattr(stream or sys.stdin, "fileno"):
        return stream.read(1)
    return os.read((sys.stdin if stream is None else stream).fileno(), 1)


def has_keys():
    return False


def unbuffer():
    try:
        import termios
        import tty

        before = termios.tcgetattr(sys.stdin)
        tty.setcbreak(sys.stdin)
        now = termios.tcgetattr(sys.stdin)
        now[0] &= ~termios.ICRNL  # a carriage return is one
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, now)
    except (ImportError, OSError, termios.error):  # not a terminal
        return lambda: None
    return lambda: termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def drive(pin, on):
    pin.value = bool(on)


def drain(uart):
    uart.flush()


def set_baud(uart, baud):
    uart.baudrate = baud


def clock():
    return None


def set_clock(clock):
    raise ValueError("the clock cannot be set on a desk")


def hertz(clock):
    return clock or 0


def levels():
    return ()


def temperature():
    return None


def voltage():
    return None
