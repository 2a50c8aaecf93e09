"""The CPython side of `hal`: the desk, where the same package runs over the same engine."""

import ctypes
import io
import mmap
import os
import sys
import time

from edge_llm import engine

__all__ = ["engine"]


def ticks_ms():
    """Milliseconds since some time in the past."""
    return time.monotonic_ns() // 1_000_000


def ticks_diff(end, start):
    """Milliseconds from `start` to `end`."""
    return end - start


def mem_free():
    """Bytes of RAM that are free: not known here."""
    return 0


def random_seed():
    """A seed that differs from one start to the next."""
    return int.from_bytes(os.urandom(4), "little")


def view(file):
    """The contents of an open binary file in place, or None if it cannot be mapped."""
    try:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):
        return None


def with_path(error, path):
    """An OSError that names the file that `error` is about."""
    if error.errno is None:
        return OSError(f"{path}: {error}")
    return OSError(error.errno, error.strerror, path)


def mapped(address, size):
    """`size` bytes of this process's memory at `address`."""
    return memoryview((ctypes.c_ubyte * size).from_address(address)).cast("B")


def stdout():
    """The terminal."""
    return sys.stdout


def is_text(stream):
    """Whether a stream takes str, not bytes."""
    return isinstance(stream, io.TextIOBase)
