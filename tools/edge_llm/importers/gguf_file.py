"""The structure of a GGUF file: its metadata, and where its tensors lie.

The `gguf` package gives the constants and turns blocks of weights into floats. Its own reader is
for files one trusts (a wrong length sends it into a loop of 2^60 turns), so the structure is read
here, every length held against the file first. The layout is that of ggml's docs/gguf.md.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFValueType

_SCALARS = {
    GGUFValueType.UINT8: "<u1",
    GGUFValueType.INT8: "<i1",
    GGUFValueType.UINT16: "<u2",
    GGUFValueType.INT16: "<i2",
    GGUFValueType.UINT32: "<u4",
    GGUFValueType.INT32: "<i4",
    GGUFValueType.FLOAT32: "<f4",
    GGUFValueType.BOOL: "<u1",
    GGUFValueType.UINT64: "<u8",
    GGUFValueType.INT64: "<i8",
    GGUFValueType.FLOAT64: "<f8",
}
_TYPES = (
    GGMLQuantizationType.F32,
    GGMLQuantizationType.F16,
    GGMLQuantizationType.BF16,
    GGMLQuantizationType.Q8_0,
    GGMLQuantizationType.Q4_0,
    GGMLQuantizationType.Q4_1,
    GGMLQuantizationType.Q5_0,
    GGMLQuantizationType.Q5_1,
    GGMLQuantizationType.Q4_K,
    GGMLQuantizationType.Q5_K,
    GGMLQuantizationType.Q6_K,
)
# Beyond any real file, and little enough to walk through.
_MOST_ENTRIES = 1 << 16
_MOST_STRINGS = 1 << 22
_BLOCK = 1 << 20  # elements that are dequantized at once


class GgufError(ValueError):
    """What is wrong, with the name of the file."""


class GgufTensor(NamedTuple):
    """A tensor of the file, one that can be read."""

    kind: GGMLQuantizationType
    shape: tuple[int, ...]  # outermost first, as NumPy has it
    offset: int  # in the file, in bytes
    size: int  # in bytes


class GgufFile:
    """A GGUF file.

    Attributes:
        version: 2 or 3.
        metadata: by key: a number, bytes for a string, an array or a list of bytes.
        tensors: by name.
    """

    def __init__(self, path: Path) -> None:
        """Open a file and read its structure.

        Raises:
            GgufError: naming the file and what is wrong with it.
            OSError: it cannot be read.
        """
        self.path = path
        self._content = np.asarray(np.memmap(path, np.uint8, "r"))
        self._at = 0
        self.version = 0
        self.metadata: dict[str, Any] = {}
        self.tensors: dict[str, GgufTensor] = {}
        n_tensors, n_pairs = self._read_header()
        for _ in range(n_pairs):
            key = self._name("metadata")
            if key in self.metadata:
                self.fail(f"metadata {key} is there twice", "the file is damaged")
            self.metadata[key] = self._value(key, self._integer("<u4", key))
        tensors = [self._read_tensor() for _ in range(n_tensors)]
        alignment = self.integer("general.alignment", 32)
        if alignment < 1 or alignment & (alignment - 1):
            self.fail(f"general.alignment {alignment} is no power of two", "the file is damaged")
        data = -(-self._at // alignment) * alignment
        for name, kind, shape, offset in tensors:
            self._place(name, kind, shape, data + offset)

    def fail(self, problem: str, remedy: str) -> NoReturn:
        """Raise GgufError, naming the file."""
        raise GgufError(f"{self.path}: {problem}; {remedy}")

    # -------------------------------------------------------------------------------- contents

    def values(self, name: str) -> np.ndarray:
        """A tensor as float32 [rows, cols], one row if it has one dimension, finite or not;
        float32 ones are a view of the file."""
        tensor = self.tensors[name]
        cols, rows = tensor.shape[-1], int(np.prod(tensor.shape[:-1]))
        if tensor.kind == GGMLQuantizationType.F32:
            content = self._content[tensor.offset : tensor.offset + tensor.size]
            return content.view("<f4").reshape(rows, cols)
        values = np.empty((rows, cols), np.float32)
        height = max(1, _BLOCK // cols)
        # Read, not mapped: whatever was looked at through a map counts as memory in use.
        with open(self.path, "rb") as file, np.errstate(all="ignore"):  # of damaged scales
            file.seek(tensor.offset)
            for start in range(0, rows, height):
                block = values[start : start + height]
                content = np.fromfile(file, np.uint8, len(block) * tensor.size // rows)
                block[:] = quants.dequantize(content.reshape(len(block), -1), tensor.kind)
        return values

    def integer(self, key: str, default: int | None = None) -> int:
        """An integer of the metadata; one that is given layer by layer must be the same in all."""
        value = self._get(key, default)
        if isinstance(value, np.ndarray) and len(value) and (value == value[0]).all():
            value = value[0].item()
        if type(value) is not int:
            self.fail(f"metadata {key} is {_shown(value)}, not one integer", "it is another model")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A number of the metadata."""
        value = self._get(key, default)
        if type(value) not in (int, float):
            self.fail(f"metadata {key} is {_shown(value)}, not a number", "the file is damaged")
        return float(value)

    def text(self, key: str, default: str | None = None) -> str:
        """A string of the metadata."""
        value = self._get(key, default)
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        if not isinstance(value, str):
            self.fail(f"metadata {key} is {_shown(value)}, not a string", "the file is damaged")
        return value

    def array(self, key: str, n: int) -> np.ndarray:
        """An array of `n` numbers of the metadata."""
        value = self._get(key, None)
        if not isinstance(value, np.ndarray) or len(value) != n:
            self.fail(f"metadata {key} is {_shown(value)}, not {n} numbers", "the file is damaged")
        return value

    def strings(self, key: str) -> list[bytes]:
        """A list of strings of the metadata."""
        value = self._get(key, None)
        if not isinstance(value, list):
            self.fail(f"metadata {key} is {_shown(value)}, not strings", "the file is damaged")
        return value

    def _get(self, key: str, default: Any) -> Any:
        value = self.metadata.get(key, default)
        if value is None:
            self.fail(f"metadata {key} is missing", "export the model again")
        return value

    # -------------------------------------------------------------------------------- structure

    def _read_header(self) -> tuple[int, int]:
        """(number of tensors, of pairs of metadata)"""
        if self._take(4, "the header").tobytes() != b"GGUF":
            self.fail("no GGUF file", "give a model's .gguf")
        self.version = self._integer("<u4", "the header")
        if self.version and self.version & 0xFFFF == 0:
            self.fail("a big-endian GGUF file", "convert it with gguf-convert-endian")
        if self.version not in (2, 3):
            self.fail(f"GGUF version {self.version}, 2 and 3 are known", "export the model again")
        counts = [self._integer("<u8", "the header") for _ in range(2)]
        for count, what in zip(counts, ("tensors", "metadata"), strict=True):
            if count > _MOST_ENTRIES:
                self.fail(f"{count} {what}, at most {_MOST_ENTRIES} can be", "it is damaged")
        return counts[0], counts[1]

    def _take(self, size: int, what: str) -> np.ndarray:
        start, self._at = self._at, self._at + size
        if self._at > len(self._content):
            self._truncated(what)
        return self._content[start : self._at]

    def _truncated(self, what: str) -> NoReturn:
        size = len(self._content)
        self.fail(f"truncated or damaged: {what} goes beyond its {size} bytes", "get it again")

    def _integer(self, dtype: str, what: str) -> int:
        return self._take(int(dtype[2]), what).view(dtype)[0].item()

    def _name(self, what: str) -> str:
        content = self._take(self._integer("<u8", what), what)
        try:
            return content.tobytes().decode()
        except UnicodeError:
            self.fail(f"a name among {what} is no UTF-8", "the file is damaged")

    def _value(self, key: str, kind: int) -> Any:
        if kind in _SCALARS:
            scalar = self._array(key, kind, 1)[0]
            return bool(scalar) if kind == GGUFValueType.BOOL else scalar.item()
        if kind == GGUFValueType.STRING:
            return self._strings(key, 1)[0]
        if kind == GGUFValueType.ARRAY:
            kind = self._integer("<u4", key)
            count = self._integer("<u8", key)
            if kind in _SCALARS:
                return self._array(key, kind, count)
            if kind == GGUFValueType.STRING:
                return self._strings(key, count)
            self.fail(f"metadata {key} is an array of type {kind}", "the file is damaged")
        self.fail(f"metadata {key} has the unknown type {kind}", "the file is damaged")

    def _array(self, key: str, kind: int, count: int) -> np.ndarray:
        dtype = _SCALARS[GGUFValueType(kind)]
        return self._take(count * int(dtype[2]), f"metadata {key}").view(dtype)

    def _strings(self, key: str, count: int) -> list[bytes]:
        if count > _MOST_STRINGS:
            self.fail(f"metadata {key} has {count} strings", f"at most {_MOST_STRINGS} can be")
        content, at, strings = memoryview(self._content), self._at, []
        for _ in range(count):
            end = at + 8
            if end <= len(content):
                end += struct.unpack_from("<Q", content, at)[0]
            if end > len(content):
                self._truncated(f"metadata {key}")
            strings.append(bytes(content[at + 8 : end]))
            at = end
        self._at = at
        return strings

    def _read_tensor(self) -> tuple[str, int, tuple[int, ...], int]:
        """(name, type, shape, offset in the data)"""
        name = self._name("the tensors")
        n_dims = self._integer("<u4", name)
        if n_dims > 4:
            self.fail(f"tensor {name} has {n_dims} dimensions", "the file is damaged")
        shape = tuple(self._integer("<u8", name) for _ in range(n_dims))[::-1]
        return name, self._integer("<u4", name), shape, self._integer("<u8", name)

    def _place(self, name: str, number: int, shape: tuple[int, ...], offset: int) -> None:
        if name in self.tensors:
            self.fail(f"tensor {name} is there twice", "the file is damaged")
        known = ", ".join(kind.name for kind in _TYPES)
        if number not in _TYPES:
            names = {kind.value: kind.name for kind in GGMLQuantizationType}
            self.fail(
                f"tensor {name} has the type {names.get(number, number)}, known are {known}",
                "get the model in one of these",
            )
        kind = GGMLQuantizationType(number)
        n_block, n_bytes = GGML_QUANT_SIZES[kind]
        if not shape or 0 in shape or shape[-1] % n_block:
            self.fail(
                f"tensor {name} of shape {shape} cannot be {kind.name}, in blocks of {n_block}",
                "the file is damaged",
            )
        size = n_bytes
        for length in (*shape[:-1], shape[-1] // n_block):  # Python's integers: none too large
            size *= length
        if offset + size > len(self._content):
            self._truncated(f"tensor {name}")
        self.tensors[name] = GgufTensor(kind, shape, offset, size)


def _shown(value: Any) -> str:
    """A value of the metadata in a few words."""
    if isinstance(value, (list, np.ndarray)):
        return f"an array of {len(value)}"
    text = repr(value)
    return text if len(text) < 50 else text[:50] + "..."
