"""The MicroPython side of `hal`."""

import gc
import os
import sys
import time
from time import ticks_diff, ticks_ms

import _llm as engine
import uctypes

__all__ = ["engine", "ticks_diff", "ticks_ms"]


def mem_free():
    """Bytes of the heap that are free."""
    gc.collect()
    return gc.mem_free()


def random_seed():
    """A seed that differs from one start to the next, where the port has a source of such
    numbers.
    """
    if hasattr(os, "urandom"):
        return int.from_bytes(os.urandom(4), "little")
    return time.ticks_us() ^ time.time()


def view(file):
    """The contents of an open binary file in place (ROMFS), or None."""
    try:
        return memoryview(file)
    except TypeError:
        return None


def with_path(error, path):
    """An OSError that names the file that `error` is about."""
    if isinstance(error.errno, int):
        return OSError(error.errno, path)
    return OSError(f"{path}: {error}")


def mapped(address, size):
    """`size` bytes of memory at `address`."""
    return uctypes.bytearray_at(address, size)


def stdout():
    """The terminal."""
    return sys.stdout


def is_text(stream):
    """Whether a stream takes str, not bytes: all take bytes."""
    return False
