"""MicroPython's ROMFS, with the data of every file at a multiple of 64 from the image's start.

A ROMFS is a tree of records: kind, length, payload; kind and length are variable-length integers
(seven bits a byte, the high bit set on all but the last, most significant first; leading 0x80
bytes change nothing). MicroPython's own builder aligns nothing; here a padding record goes before
a file where its data would lie elsewhere.

Whoever writes the image to flash must place it at an address that is a multiple of 64; partitions
and flash pages begin at one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from .files import complete_file

ALIGNMENT = 64

_MAGIC = b"\xd2\xcd\x31"  # the record kind 0x14A6B1 of the whole
_PADDING = 1
_VERBATIM = 2
_INDIRECT = 3
_DIRECTORY = 4
_FILE = 5
_LENGTH = (
    5  # bytes in which the lengths of records are written: room for 32 bits, known beforehand
)

Tree = Mapping[str, "Path | Tree"]


def write_romfs(output: str | os.PathLike[str], paths: Iterable[str | os.PathLike[str]]) -> int:
    """Write a ROMFS image of files and folders, each under its own name; returns its bytes.

    The image appears under its name only when complete.

    Raises:
        ValueError: two inputs of one name, or something that is neither file nor folder.
        OSError: a file cannot be read or written.
    """
    tree: dict[str, Path | Tree] = {}
    for path in map(Path, paths):
        name = path.resolve().name
        if name in tree:
            raise ValueError(f"{path}: there are two inputs called {name}")
        tree[name] = _tree(path)
    with complete_file(output) as file:
        file.write(_MAGIC)
        start = _open_record(file)
        _write_tree(file, tree)
        if file.tell() % 2:  # the size of the whole must be even
            file.write(_padding(3))
        _close_record(file, start)
        size = file.seek(0, os.SEEK_END)
    return size


def read_romfs(image: bytes) -> dict[str, tuple[int, int]]:
    """What is in a ROMFS image: `path -> (offset, size)` of the data; folders end in `/`.

    Raises:
        ValueError: the image is damaged.
    """
    if image[:3] != _MAGIC:
        raise ValueError("not a ROMFS image")
    size, at = _decode(image, 3, len(image))
    if at + size > len(image):
        raise ValueError(f"truncated: {len(image)} bytes of {at + size}")
    return dict(_walk(image, at, at + size, at, ""))


def _tree(path: Path) -> Path | Tree:
    if path.is_dir():
        return {child.name: _tree(child) for child in sorted(path.iterdir())}
    if not path.exists():
        raise FileNotFoundError(2, "No such file or directory", str(path))
    if not path.is_file():
        raise ValueError(f"{path}: is neither a file nor a folder")
    return path


def _write_tree(file: BinaryIO, tree: Tree) -> None:
    for name, node in tree.items():
        label = name.encode()
        label = _encode(len(label)) + label
        if isinstance(node, Path):
            header = 2 * (1 + _LENGTH) + len(label)
            gap = -(file.tell() + header) % ALIGNMENT
            if gap:
                file.write(_padding(gap if gap > 1 else gap + ALIGNMENT))
            file.write(bytes([_FILE]))
            outer = _open_record(file)
            file.write(label + bytes([_VERBATIM]))
            inner = _open_record(file)
            with open(node, "rb") as content:
                shutil.copyfileobj(content, file)
            _close_record(file, inner)
        else:
            file.write(bytes([_DIRECTORY]))
            outer = _open_record(file)
            file.write(label)
            _write_tree(file, node)
        _close_record(file, outer)


def _open_record(file: BinaryIO) -> int:
    """Leave room for a length; returns where the payload begins."""
    file.write(bytes(_LENGTH))
    return file.tell()


def _close_record(file: BinaryIO, start: int) -> None:
    end = file.tell()
    file.seek(start - _LENGTH)
    file.write(_encode(end - start, _LENGTH))
    file.seek(end)


def _padding(size: int) -> bytes:
    """A padding record of `size` bytes in all, 2 to 129."""
    return bytes([_PADDING, size - 2]) + bytes(size - 2)


def _encode(value: int, width: int = 1) -> bytes:
    """A variable-length integer in at least `width` bytes."""
    digits = [value & 0x7F]
    while value := value >> 7:
        digits.append(value & 0x7F | 0x80)
    digits += [0x80] * (width - len(digits))
    return bytes(reversed(digits))


def _decode(image: bytes, at: int, end: int) -> tuple[int, int]:
    """(value, offset after it)."""
    value = 0
    while at < end:
        byte = image[at]
        at += 1
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at
    raise ValueError(f"truncated: an integer ends past {end}")


def _records(image: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """(kind, start, end) of the payload of each record."""
    while at < end:
        kind, at = _decode(image, at, end)
        size, at = _decode(image, at, end)
        if kind == 0 or at + size > end:
            raise ValueError(f"damaged: a record of kind {kind} ends at {at + size}, past {end}")
        yield kind, at, at + size
        at += size


def _walk(
    image: bytes, at: int, end: int, base: int, prefix: str
) -> Iterator[tuple[str, tuple[int, int]]]:
    for kind, start, stop in _records(image, at, end):
        if kind not in (_DIRECTORY, _FILE):
            continue
        size, start = _decode(image, start, stop)
        name = prefix + image[start : start + size].decode()
        start += size
        if kind == _DIRECTORY:
            yield f"{name}/", (start, 0)
            yield from _walk(image, start, stop, base, f"{name}/")
        else:
            yield name, _data(image, start, stop, base)


def _data(image: bytes, at: int, end: int, base: int) -> tuple[int, int]:
    for kind, start, stop in _records(image, at, end):
        if kind == _VERBATIM:
            return start, stop - start
        if kind == _INDIRECT:
            size, start = _decode(image, start, stop)
            return base + _decode(image, start, stop)[0], size
    raise ValueError("damaged: a file without data")
