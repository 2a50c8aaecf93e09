"""Binary files that the engine reads weights from while it computes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from ._engine import ffi, lib

Piece = tuple[int, memoryview]  # offset in the image, and what to fill


class Source:
    """A binary file, anything with `seek` and `readinto`: the engine's llm_source_t.

    Pieces are read on a thread, one batch at a time. Whatever a read raises, KeyboardInterrupt
    included, is kept in `error` and ends the evaluation.
    """

    def __init__(self, file: Any) -> None:
        self._file = file
        self._pool = ThreadPoolExecutor(1, "llm-stream")
        self._pending: Future[int] | None = None
        self._handle = ffi.new_handle(self)
        self.error: BaseException | None = None
        self.size: int = file.seek(0, 2)
        self.struct = ffi.new("llm_source_t *")
        self.struct.context = self._handle
        self.struct.read = lib.llm_py_read
        self.struct.start = lib.llm_py_start
        self.struct.wait = lib.llm_py_wait
        self.struct.now = lib.llm_py_now

    def read(self, offset: int, buffer: memoryview) -> None:
        """Fill `buffer` from `offset` on. OSError says what was read where."""
        try:
            self._file.seek(offset)
            at = 0
            while at < len(buffer):
                n = self._file.readinto(buffer[at:])
                if not n or n < 0:
                    raise OSError(f"it ends at {offset + at}" if n == 0 else "nothing was read")
                at += n
        except (OSError, ValueError) as error:  # a closed file raises ValueError
            problem = f"stream: {len(buffer)} bytes at {offset}: {error}"
            raise OSError(*_errno(error), problem) from error

    def start(self, pieces: Sequence[Piece]) -> None:
        """Begin to read `pieces`."""
        self._pending = self._pool.submit(self._read_all, pieces)

    def _read_all(self, pieces: Sequence[Piece]) -> int:
        begun = self.now()
        for offset, buffer in pieces:
            self.read(offset, buffer)
        return self.now() - begun

    def wait(self) -> int:
        """Wait until they are read; returns the microseconds that took."""
        pending, self._pending = self._pending, None
        assert pending is not None
        return pending.result()

    def now(self) -> int:
        """Microseconds since any time."""
        return time.perf_counter_ns() // 1000

    def close(self) -> None:
        """Wait for what is still being read."""
        self._pool.shutdown()


def _errno(error: BaseException) -> tuple[int, ...]:
    number = getattr(error, "errno", None)
    return () if number is None else (number,)


# ------------------------------------------------------------------------- called by the engine


def _source(context: Any) -> Source:
    return ffi.from_handle(context)


def _buffer(data: Any, size: int) -> memoryview:
    return memoryview(ffi.buffer(data, size))


def _guarded(source: Source, function: Any, *arguments: Any) -> Any:
    """What `function` returns; None if it raises, or another has."""
    if source.error is None:
        try:
            return function(*arguments)
        except BaseException as error:
            source.error = error
    return None


@ffi.def_extern()
def llm_py_read(context: Any, offset: int, data: Any, size: int) -> bool:
    source = _source(context)
    _guarded(source, source.read, offset, _buffer(data, size))
    return source.error is None


@ffi.def_extern()
def llm_py_start(context: Any, reads: Any, n: int) -> bool:
    source = _source(context)
    pieces = [(reads[i].offset, _buffer(reads[i].data, reads[i].size)) for i in range(n)]
    _guarded(source, source.start, pieces)
    return source.error is None


@ffi.def_extern()
def llm_py_wait(context: Any, took: Any) -> bool:
    source = _source(context)
    took[0] = min(_guarded(source, source.wait) or 0, 2**32 - 1)
    return source.error is None


@ffi.def_extern()
def llm_py_now(context: Any) -> int:
    source = _source(context)
    return (_guarded(source, source.now) or 0) % 2**32
