"""What differs between MicroPython and CPython, or by hardware. Only this package knows.

engine: the module documented in `_llm.pyi`.
"""

import sys

if sys.implementation.name == "micropython":
    from .micropython import (
        engine,
        is_text,
        mapped,
        mem_free,
        random_seed,
        stdout,
        ticks_diff,
        ticks_ms,
        view,
        with_path,
    )
else:
    from .cpython import (
        engine,
        is_text,
        mapped,
        mem_free,
        random_seed,
        stdout,
        ticks_diff,
        ticks_ms,
        view,
        with_path,
    )

__all__ = [
    "engine",
    "is_text",
    "mapped",
    "mem_free",
    "random_seed",
    "stdout",
    "ticks_diff",
    "ticks_ms",
    "view",
    "with_path",
    "write",
]


def write(stream, text):
    """Writes all of `text`, as UTF-8 unless it is a text stream, however little is taken at a
    time.

    A stream that takes nothing (0 or None) is waited for if it can be polled. None from one that
    cannot is what a plain Python method returns, and means that it took everything.
    """
    if is_text(stream):
        stream.write(text)
        stream.flush()
        return
    data = text.encode()
    n = stream.write(data)
    while n != len(data):
        if n:
            data = data[n:]
        elif not _wait(stream):
            return
        n = stream.write(data)


def _wait(stream):
    """Waits until a stream is ready for writing; False if that cannot be known."""
    try:
        import select

        poll = select.poll()
        poll.register(stream, select.POLLOUT)
    except (ImportError, OSError, AttributeError, TypeError, ValueError):
        return False
    poll.poll(1000)
    return True
