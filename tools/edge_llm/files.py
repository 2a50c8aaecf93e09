"""Files that take their name only when they are complete."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast


class _Named(io.FileIO):
    """A file whose errors name it: those of the system calls on an open one do not."""

    def write(self, content, /) -> int:  # type: ignore[no-untyped-def]
        with self._naming():
            return super().write(content)

    def truncate(self, size: int | None = None, /) -> int:
        with self._naming():
            return super().truncate(size)

    @contextlib.contextmanager
    def _naming(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OSError(error.errno, error.strerror, os.fspath(self.name)) from None


@contextlib.contextmanager
def complete_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write and read that becomes `path` at the end of the block, unless it raises.

    Until then it is called `path`.partial. Raises `OSError`, which names the file, when it cannot
    be written.
    """
    partial = Path(f"{os.fspath(path)}.partial")
    try:
        with io.BufferedRandom(_Named(partial, "w+")) as file:
            yield cast(BinaryIO, file)
        partial.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise
