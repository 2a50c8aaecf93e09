"""Writer and reader of `.llm` images, format version 1, as defined in docs/image-format.md.

Names here are those of that page. `write_image` streams a model to a file tensor by tensor;
`Image.open` maps one and checks its structure, `Image.verify` checks the rest.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, BinaryIO, NamedTuple

import google_crc32c
import numpy as np

from .checks import require
from .files import complete_file
from .tiles import (
    ACCUMULATOR_LIMIT,
    GROUP_SIZE,
    TILE_ROWS,
    Planes,
    Quantized,
    accumulator,
    n_tiles,
    plane_sizes,
    unpack,
)
from .tokenizer import Tokenizer

MAGIC = b"\x89LLM\r\n\x1a\n"
VERSION = 1
ALIGNMENT = 64
NO_LAYER = 0xFFFF
MAX_WIDTH = 16_384

_HEADER = struct.Struct("<8sHHIIII32sI")
_SECTION = struct.Struct("<4sIII")
_CONF = struct.Struct("<8IffBBBBI80s")
_TDIR = struct.Struct("<HHBBHIIIIII")
_SECTIONS = ("CONF", "TOKN", "TDIR", "DATA", "CARD", "HASH")


class Dtype(IntEnum):
    """How the values of a tensor are stored."""

    F32 = 1
    INT8 = 2
    INT4 = 3
    U32 = 4

    @property
    def bits(self) -> int:
        """Bits of one value or code, scales not counted."""
        return {Dtype.INT8: 8, Dtype.INT4: 4}.get(self, 32)

    @property
    def quantized(self) -> bool:
        """Whether values are codes with scales."""
        return self in (Dtype.INT8, Dtype.INT4)


@dataclass(frozen=True)
class Config:
    """Hyper-parameters and architecture: the section `CONF`, whose page gives the limits."""

    vocab_size: int
    dim: int
    hidden_dim: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    context: int
    norm_eps: float = 1e-5
    rope_theta: float = 10_000.0
    norm: int = 1
    activation: int = 1
    ffn: int = 1
    rope: int = 1
    tied: bool = False

    def check(self) -> None:
        """Raise ValueError, naming the field, if a value is outside its limits."""
        for field, high in (
            ("vocab_size", 1 << 20),
            ("dim", MAX_WIDTH),
            ("hidden_dim", MAX_WIDTH),
            ("n_layers", 256),
            ("n_heads", 256),
            ("n_kv_heads", 256),
            ("head_dim", 512),
            ("context", 1 << 20),
        ):
            value = getattr(self, field)
            require(1 <= value <= high, field, f"{value} is not between 1 and {high}")
        require(self.head_dim % 2 == 0, "head_dim", f"{self.head_dim} is odd")
        require(
            self.n_heads * self.head_dim <= MAX_WIDTH,
            "n_heads",
            f"n_heads * head_dim is {self.n_heads * self.head_dim}, above {MAX_WIDTH}",
        )
        require(
            self.n_heads % self.n_kv_heads == 0,
            "n_kv_heads",
            f"{self.n_kv_heads} does not divide n_heads = {self.n_heads}",
        )
        # Written so that NaN fails too.
        require(
            0 < self.norm_eps <= 1, "norm_eps", f"{self.norm_eps} is not above 0 and at most 1"
        )
        require(
            0 < self.rope_theta < float("inf"),
            "rope_theta",
            f"{self.rope_theta} is not a positive number",
        )
        for field, high in (("norm", 1), ("activation", 1), ("ffn", 1), ("rope", 2)):
            value = getattr(self, field)
            require(1 <= value <= high, field, f"{value} is unknown to format version 1")

    def to_bytes(self) -> bytes:
        """The section `CONF`."""
        return _CONF.pack(
            self.vocab_size,
            self.dim,
            self.hidden_dim,
            self.n_layers,
            self.n_heads,
            self.n_kv_heads,
            self.head_dim,
            self.context,
            self.norm_eps,
            self.rope_theta,
            self.norm,
            self.activation,
            self.ffn,
            self.rope,
            int(self.tied),
            bytes(80),
        )

    @classmethod
    def from_bytes(cls, section: bytes) -> Config:
        """Read and check the section `CONF`."""
        require(len(section) == _CONF.size, "CONF", f"is {len(section)} bytes, not {_CONF.size}")
        *values, flags, reserved = _CONF.unpack(section)
        require(flags <= 1, "CONF flags", f"{flags:#x} has reserved bits set")
        require(not any(reserved), "CONF reserved", "is not zero")
        config = cls(*values, tied=bool(flags & 1))
        config.check()
        return config


@dataclass(frozen=True)
class Tensor:
    """One entry of the tensor directory. Offsets are in bytes within `DATA`."""

    name: str
    role: int
    layer: int | None
    dtype: Dtype
    rows: int
    cols: int
    data: int = 0
    scales: int = 0
    row_scales: int = 0

    @property
    def label(self) -> str:
        """For messages: `attn_q of layer 3`, `output_norm`."""
        return self.name if self.layer is None else f"{self.name} of layer {self.layer}"

    @property
    def key(self) -> tuple[int, int]:
        """What the directory is sorted by."""
        return (NO_LAYER if self.layer is None else self.layer, self.role)

    @property
    def plane_sizes(self) -> tuple[int, ...]:
        """Bytes of each plane: data, and for quantized tensors scales and row_scales."""
        if self.dtype.quantized:
            return plane_sizes(self.rows, self.cols, self.dtype.bits)
        return (self.rows * self.cols * 4,)

    @property
    def size(self) -> int:
        """Bytes of all planes."""
        return sum(self.plane_sizes)

    @property
    def offsets(self) -> tuple[int, ...]:
        """Offset in `DATA` of each plane."""
        return (self.data, self.scales, self.row_scales)[: len(self.plane_sizes)]

    def to_bytes(self) -> bytes:
        """The directory entry."""
        layer, role = self.key
        group = GROUP_SIZE if self.dtype.quantized else 0
        return _TDIR.pack(
            role,
            layer,
            self.dtype,
            0,
            group,
            self.rows,
            self.cols,
            self.data,
            self.scales,
            self.row_scales,
            0,
        )


class _Expected(NamedTuple):
    """What the directory of a model has to hold at one place."""

    layer: int | None
    role: int
    name: str
    rows: int
    cols: int
    dtypes: tuple[Dtype, ...]

    @property
    def label(self) -> str:
        return self.name if self.layer is None else f"{self.name} of layer {self.layer}"


def _expected(config: Config) -> list[_Expected]:
    """All tensors of a model in the order of the directory."""
    dim, hidden, vocab = config.dim, config.hidden_dim, config.vocab_size
    q_dim, kv_dim = config.n_heads * config.head_dim, config.n_kv_heads * config.head_dim
    matrix = (Dtype.F32, Dtype.INT8, Dtype.INT4)
    in_layer = [
        (16, "attn_norm", 1, dim, (Dtype.F32,)),
        (17, "attn_q", q_dim, dim, matrix),
        (18, "attn_k", kv_dim, dim, matrix),
        (19, "attn_v", kv_dim, dim, matrix),
        (20, "attn_output", dim, q_dim, matrix),
        (32, "ffn_norm", 1, dim, (Dtype.F32,)),
        (33, "ffn_gate", hidden, dim, matrix),
        (34, "ffn_up", hidden, dim, matrix),
        (35, "ffn_down", dim, hidden, matrix),
    ]
    in_model = [
        (1, "token_embd", vocab, dim, matrix),
        (2, "output_norm", 1, dim, (Dtype.F32,)),
        *([] if config.tied else [(3, "output", vocab, dim, matrix)]),
        (4, "rope_phase", 1, config.head_dim // 2, (Dtype.U32,)),
    ]
    layers = [_Expected(layer, *row) for layer in range(config.n_layers) for row in in_layer]
    return layers + [_Expected(None, *row) for row in in_model]


def directory(config: Config, matrix_dtype: Callable[[str, int | None], Dtype]) -> list[Tensor]:
    """All tensors of a model in the order of the directory, their planes laid out in `DATA`.

    Args:
        config: gives the shapes.
        matrix_dtype: `(name, layer) -> Dtype` for each matrix; what is no matrix has one dtype.
    """
    tensors, at = [], 0
    for layer, role, name, rows, cols, dtypes in _expected(config):
        dtype = matrix_dtype(name, layer) if len(dtypes) > 1 else dtypes[0]
        offsets = []
        for size in Tensor(name, role, layer, dtype, rows, cols).plane_sizes:
            offsets.append(at)
            at = _align(at + size)
        tensors.append(Tensor(name, role, layer, dtype, rows, cols, *offsets))
    return tensors


def rope_phase(head_dim: int, theta: float, stretch: np.ndarray | float = 1.0) -> np.ndarray:
    """The turn of each pair per position, in 2^-32 of a full turn.

    Args:
        head_dim: elements of a head.
        theta: the base of the frequencies.
        stretch: what they are divided by: one factor, or [head_dim / 2].

    Returns:
        uint32 [1, head_dim / 2]; whole turns are left out.
    """
    pairs = np.arange(head_dim // 2, dtype=np.float64)
    turns = theta ** (-2 * pairs / head_dim) / (2 * np.pi) / stretch
    return np.rint(turns % 1 * 2**32).astype(np.uint64).astype("<u4")[None, :]


def write_image(
    path: str | os.PathLike[str],
    config: Config,
    tokenizer: Tokenizer,
    card: Mapping[str, Any],
    tensors: list[Tensor],
    planes: Callable[[Tensor], tuple[np.ndarray, ...]],
) -> int:
    """Write an image, asking for one tensor at a time, and return its size in bytes.

    The file appears under its name only when complete.

    Args:
        path: of the image.
        config: hyper-parameters.
        tokenizer: its size must be `config.vocab_size`.
        card: what goes into `CARD` as JSON.
        tensors: from `directory`.
        planes: gives the planes of a tensor, called once for each in order: one array, or what
            `tiles.pack` returns.

    Raises:
        ValueError: a field out of its limits, planes of another size than the directory says, or
            an image above 4 GiB.
    """
    config.check()
    n_tokens = len(tokenizer.pieces)
    require(
        n_tokens == config.vocab_size,
        "n_tokens",
        f"the tokenizer has {n_tokens} tokens, vocab_size is {config.vocab_size}",
    )
    card_text = json.dumps(card, ensure_ascii=False, sort_keys=True, indent=1).encode()
    last = tensors[-1]
    contents = {
        "CONF": config.to_bytes(),
        "TOKN": tokenizer.to_bytes(),
        "TDIR": b"".join(tensor.to_bytes() for tensor in tensors),
        "CARD": card_text,
    }
    sizes = {name: len(content) for name, content in contents.items()}
    sizes |= {"DATA": last.offsets[-1] + last.plane_sizes[-1], "HASH": 32}
    offsets, at = {}, _HEADER.size + _SECTION.size * len(_SECTIONS)
    for name in _SECTIONS:
        offsets[name] = _align(at)
        at = offsets[name] + sizes[name]
    total = _align(at)
    require(total < 2**32, "total_size", f"{total} bytes do not fit an image, the limit is 4 GiB")

    with complete_file(path) as file:
        file.truncate(total)
        for name, content in contents.items():
            file.seek(offsets[name])
            file.write(content)
        for tensor in tensors:
            _write_planes(file, offsets["DATA"], tensor, planes(tensor))
        table = b"".join(
            _SECTION.pack(
                name.encode(),
                offsets[name],
                sizes[name],
                0 if name == "HASH" else _file_crc(file, offsets[name], sizes[name]),
            )
            for name in _SECTIONS
        )
        header = _HEADER.pack(
            MAGIC,
            VERSION,
            _HEADER.size,
            total,
            len(_SECTIONS),
            _HEADER.size,
            0,
            bytes(32),
            0,
        )[:60]
        file.seek(0)
        file.write(header + struct.pack("<I", crc32c(header + table)) + table)
        digest = hashlib.sha256()
        for chunk in _chunks(file, 0, offsets["HASH"]):
            digest.update(chunk)
        file.seek(offsets["HASH"])
        file.write(digest.digest())
    return total


def _write_planes(
    file: BinaryIO, base: int, tensor: Tensor, planes: tuple[np.ndarray, ...]
) -> None:
    for offset, size, plane in zip(tensor.offsets, tensor.plane_sizes, planes, strict=True):
        content = np.ascontiguousarray(plane)
        require(
            content.nbytes == size, tensor.label, f"has {content.nbytes} bytes instead of {size}"
        )
        file.seek(base + offset)
        file.write(content.tobytes())


class Section(NamedTuple):
    """One entry of the section table."""

    name: str
    offset: int
    size: int
    crc: int


class Image:
    """An image opened for reading: mapped, and checked in everything but what takes time.

    Attributes:
        config: the hyper-parameters.
        tensors: the directory, in its order.
        sections: the section table.
        total_size: bytes of the image; what it was read from may be larger.
    """

    def __init__(self, buffer: Any) -> None:
        """Read an image from a buffer (bytes, memoryview, memmap).

        Raises:
            ValueError: naming the field that is wrong.
        """
        self._bytes = np.frombuffer(buffer, np.uint8)
        self.total_size, self.sections = self._read_header()
        self.config = Config.from_bytes(self.section("CONF").tobytes())
        Tokenizer.from_bytes(self.section("TOKN"), self.config.vocab_size, deep=False)
        self.tensors = list(self._read_directory())

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Image:
        """Map a file and read it as an image; raises ValueError and OSError."""
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size == 0:  # mmap takes no empty file
                return cls(b"")
            return cls(np.memmap(file, np.uint8, "r"))

    def section(self, name: str) -> np.ndarray:
        """The bytes of a section: uint8, not copied."""
        _, offset, size, _ = next(entry for entry in self.sections if entry.name == name)
        return self._content(offset, size)

    def _content(self, offset: int, size: int) -> np.ndarray:
        return self._bytes[offset : offset + size]

    @property
    def card(self) -> dict[str, Any]:
        """The card; raises ValueError if it is not a JSON object."""
        try:
            card = json.loads(self.section("CARD").tobytes())
        except ValueError as error:
            raise ValueError(f"CARD: not JSON in UTF-8 ({error})") from None
        require(isinstance(card, dict), "CARD", "is not a JSON object")
        return card

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer, every entry checked."""
        tokenizer = Tokenizer.from_bytes(self.section("TOKN"), self.config.vocab_size)
        assert tokenizer is not None
        return tokenizer

    def find(self, name: str, layer: int | None = None) -> Tensor:
        """The directory entry of a tensor; raises KeyError."""
        for tensor in self.tensors:
            if tensor.name == name and tensor.layer == layer:
                return tensor
        raise KeyError(f"{name} of layer {layer}")

    def planes(self, tensor: Tensor) -> list[np.ndarray]:
        """The planes of a tensor as stored, uint8 and not copied."""
        data = self.section("DATA")
        return [
            data[offset : offset + size]
            for offset, size in zip(tensor.offsets, tensor.plane_sizes, strict=True)
        ]

    def quantized(self, tensor: Tensor) -> Quantized:
        """The codes and scales of an int4 or int8 tensor."""
        data, scales, row_scales = self.planes(tensor)
        planes = Planes(data, scales.view(np.int8), row_scales.view("<f4"))
        return unpack(planes, tensor.rows, tensor.cols, tensor.dtype.bits)

    def values(self, tensor: Tensor) -> np.ndarray:
        """What a tensor stands for: float32 or uint32 [rows, cols]."""
        if tensor.dtype.quantized:
            return self.quantized(tensor).dequantize(tensor.cols)
        dtype = "<f4" if tensor.dtype == Dtype.F32 else "<u4"
        return self.planes(tensor)[0].view(dtype).reshape(tensor.rows, tensor.cols)

    def verify(self) -> None:
        """Check what `open` leaves out: CRCs, SHA-256, vocabulary, padding, row sums, card.

        Raises:
            ValueError: naming what is wrong.
        """
        for name, offset, size, crc in self.sections:
            if name == "HASH":
                got = hashlib.sha256(self._bytes[:offset]).digest()
                stored = self.section(name).tobytes()
                require(got == stored, name, "the SHA-256 of the image is another one")
            else:
                got = crc32c(self._content(offset, size))
                require(got == crc, name, f"its CRC32C is {got:08x}, the table has {crc:08x}")
        self._verify_gaps()
        _ = self.tokenizer, self.card
        for tensor in self.tensors:
            if tensor.dtype.quantized:
                self._verify_matrix(tensor)

    def _verify_gaps(self) -> None:
        at = _HEADER.size + _SECTION.size * len(self.sections)
        end = Section("total_size", self.total_size, 0, 0)
        for name, offset, size, _ in [*self.sections, end]:
            require(not self._bytes[at:offset].any(), name, "the gap before it is not zero")
            at = offset + size
        data, at = self.section("DATA"), 0
        spans = [
            (offset, size, tensor.label)
            for tensor in self.tensors
            for offset, size in zip(tensor.offsets, tensor.plane_sizes, strict=True)
        ]
        for offset, size, label in [*sorted(spans), (len(data), 0, "the end of DATA")]:
            require(not data[at:offset].any(), label, "the gap before it is not zero")
            at = max(at, offset + size)

    def _verify_matrix(self, tensor: Tensor) -> None:
        data, scales, row_scales = self.planes(tensor)
        planes = Planes(data, scales.view(np.int8), row_scales.view("<f4"))
        height = n_tiles(tensor.rows) * TILE_ROWS
        codes, scales, row_scales = unpack(planes, height, tensor.cols, tensor.dtype.bits)
        require(scales.min() >= -127, tensor.label, "a group scale is -128")
        require(not codes[:, tensor.cols :].any(), tensor.label, "padded columns are not zero")
        padding = codes[tensor.rows :], scales[tensor.rows :], row_scales[tensor.rows :]
        require(not any(part.any() for part in padding), tensor.label, "padded rows are not zero")
        worst = int(accumulator(codes, scales).max())
        require(
            worst <= ACCUMULATOR_LIMIT,
            tensor.label,
            f"a row sums to {worst}, above {ACCUMULATOR_LIMIT}: a 32-bit accumulator overflows",
        )

    def _read_header(self) -> tuple[int, list[Section]]:
        held = len(self._bytes)
        start = self._bytes[:8].tobytes()
        if start != MAGIC[: len(start)] or not start:
            damaged = start[1:4] == MAGIC[1:4]
            why = "damaged by a transfer in text mode" if damaged else "not an .llm image"
            raise ValueError(f"magic: {why}")
        require(held >= _HEADER.size, "header", f"truncated: {held} bytes of {_HEADER.size}")
        _, version, header_size, total_size, n_sections, table, flags, reserved, crc = (
            _HEADER.unpack(self._bytes[: _HEADER.size].tobytes())
        )
        require(
            version == VERSION,
            "version",
            f"{version}, this edge-llm reads version {VERSION}; "
            + ("a later edge-llm may read it" if version > VERSION else "the image is damaged"),
        )
        require(header_size == _HEADER.size, "header_size", f"{header_size} is not {_HEADER.size}")
        require(6 <= n_sections <= 16, "n_sections", f"{n_sections} is not between 6 and 16")
        require(table == _HEADER.size, "section_table", f"{table} is not {_HEADER.size}")
        end = table + n_sections * _SECTION.size
        require(
            total_size % ALIGNMENT == 0 and total_size >= end,
            "total_size",
            f"{total_size} is not a multiple of {ALIGNMENT} that holds the section table",
        )
        require(
            total_size <= held,
            "total_size",
            f"truncated: {held} bytes of {total_size}",
        )
        require(flags == 0, "flags", f"{flags:#x} has reserved bits set")
        require(not any(reserved), "reserved", "the header's reserved bytes are not zero")
        got = crc32c(self._bytes[:60].tobytes() + self._bytes[table:end].tobytes())
        require(got == crc, "header_crc", f"{crc:08x}, header and section table give {got:08x}")
        return total_size, self._read_sections(end, n_sections, total_size)

    def _read_sections(self, end: int, n: int, total_size: int) -> list[Section]:
        sections = []
        for at in range(_HEADER.size, _HEADER.size + n * _SECTION.size, _SECTION.size):
            kind, offset, size, crc = _SECTION.unpack(self._content(at, _SECTION.size).tobytes())
            require(kind.isalpha(), "section type", f"{kind!r} is not four letters")
            name = kind.decode()
            require(
                name in _SECTIONS or name[0].islower(),
                "section type",
                f"{name} is unknown to format version 1",
            )
            require(offset % ALIGNMENT == 0, name, f"offset {offset} is not a multiple of 64")
            require(offset >= end, name, f"offset {offset} overlaps what ends at {end}")
            end = offset + size
            require(
                end <= total_size,
                name,
                f"{size} bytes at {offset} end past total_size = {total_size}",
            )
            sections.append(Section(name, offset, size, crc))
        known = tuple(section.name for section in sections if section.name in _SECTIONS)
        require(
            known == _SECTIONS,
            "section table",
            f"has {' '.join(known)} instead of {' '.join(_SECTIONS)}",
        )
        *_, hash_ = (section for section in sections if section.name == "HASH")
        require(hash_.size == 32, "HASH", f"is {hash_.size} bytes, not 32")
        require(hash_.crc == 0, "HASH", f"its crc is {hash_.crc:#x}, not 0")
        return sections

    def _read_directory(self) -> Iterator[Tensor]:
        expected = _expected(self.config)
        table = self.section("TDIR")
        want = len(expected) * _TDIR.size
        require(len(table) == want, "TDIR", f"is {len(table)} bytes, this model needs {want}")
        for entry, fields in zip(expected, _TDIR.iter_unpack(table.tobytes()), strict=True):
            yield self._read_tensor(entry, *fields)

    def _read_tensor(self, entry: _Expected, *fields: int) -> Tensor:
        role, layer, dtype, reserved, group_size, rows, cols, *offsets, reserved_2 = fields
        label = f"TDIR {entry.label}"
        want = NO_LAYER if entry.layer is None else entry.layer
        require(role == entry.role, label, f"role is {role} instead of {entry.role}")
        require(layer == want, label, f"layer is {layer} instead of {want}")
        allowed = ", ".join(f"{value} ({value.name.lower()})" for value in entry.dtypes)
        require(dtype in entry.dtypes, label, f"dtype {dtype} is not one of {allowed}")
        quantized = Dtype(dtype).quantized
        group = GROUP_SIZE if quantized else 0
        require(group_size == group, label, f"group_size is {group_size} instead of {group}")
        shape = f"{entry.rows} x {entry.cols}"
        require(rows == entry.rows, label, f"rows is {rows}, the shape is {shape}")
        require(cols == entry.cols, label, f"cols is {cols}, the shape is {shape}")
        require(not reserved and not reserved_2, label, "reserved is not zero")
        tensor = Tensor(entry.name, role, entry.layer, Dtype(dtype), rows, cols, *offsets)
        available = len(self.section("DATA"))
        sizes = tensor.plane_sizes
        for i, (field, offset) in enumerate(
            zip(("data", "scales", "row_scales"), offsets, strict=True)
        ):
            if i >= len(sizes):
                require(offset == 0, label, f"{field} is {offset}, but there are no scales")
                continue
            require(offset % ALIGNMENT == 0, label, f"{field} = {offset} is no multiple of 64")
            require(
                offset + sizes[i] <= available,
                label,
                f"{field}: {sizes[i]} bytes at {offset} end past DATA ({available} bytes)",
            )
        return tensor


def crc32c(content: Any) -> int:
    """CRC32C (Castagnoli) of a contiguous buffer."""
    return google_crc32c.value(np.frombuffer(content, np.uint8))


def _file_crc(file: BinaryIO, offset: int, size: int) -> int:
    crc = 0
    for chunk in _chunks(file, offset, size):
        crc = google_crc32c.extend(crc, chunk)
    return crc


def _chunks(file: BinaryIO, offset: int, size: int) -> Iterator[bytes]:
    file.seek(offset)
    while size:
        chunk = file.read(min(size, 1 << 20))
        size -= len(chunk)
        yield chunk


def _align(n: int) -> int:
    return -(-n // ALIGNMENT) * ALIGNMENT
