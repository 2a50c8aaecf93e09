"""A reader of ``.llm`` images written from docs/image-format.md alone, for the oracle.

It does not share a line with ``edge_llm.image`` or with the engine's reader, so that an image
which all three read alike is an image as the page describes it.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass, field

import numpy as np

ROLES = {
    1: "token_embd",
    2: "output_norm",
    3: "output",
    4: "rope_phase",
    16: "attn_norm",
    17: "attn_q",
    18: "attn_k",
    19: "attn_v",
    20: "attn_output",
    32: "ffn_norm",
    33: "ffn_gate",
    34: "ffn_up",
    35: "ffn_down",
}
DTYPES = {1: "f32", 2: "int8", 3: "int4", 4: "u32"}
GLOBAL = 0xFFFF


@dataclass
class Config:
    """The section ``CONF``."""

    vocab_size: int
    dim: int
    hidden_dim: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    context: int
    norm_eps: float = 1e-5
    rope_theta: float = 10000.0
    rope: int = 1
    tied: bool = True


@dataclass
class Tensor:
    """One tensor, without padding.

    `values` is (rows, cols) of f32 or u32 tensors; `codes` (rows, cols), `scales` (rows, groups)
    and `row_scales` (rows,) are those of int4 and int8 tensors.
    """

    dtype: str
    rows: int
    cols: int
    values: np.ndarray | None = None
    codes: np.ndarray | None = None
    scales: np.ndarray | None = None
    row_scales: np.ndarray | None = None


@dataclass
class Image:
    """A model: `tensors` by (layer, name), where layer is None for those of the whole model."""

    config: Config
    tensors: dict[tuple[int | None, str], Tensor]
    sections: dict[str, bytes] = field(default_factory=dict)
    card: dict = field(default_factory=dict)


def _crc_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_CRC = _crc_table()


def crc32c(data: bytes) -> int:
    """CRC32C of `data`."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def _expect(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(what)


def read_image(raw: bytes) -> Image:
    """Read and check a whole image; raises ValueError naming what is not as the page says."""
    _expect(raw[:8] == b"\x89LLM\r\n\x1a\n", "magic")
    version, header_size, total, n_sections, table, flags = struct.unpack_from("<HHIIII", raw, 8)
    _expect((version, header_size, table, flags) == (1, 64, 64, 0), "header")
    _expect(total == len(raw) and total % 64 == 0 and not any(raw[28:60]), "header")
    table_end = 64 + 16 * n_sections
    (crc,) = struct.unpack_from("<I", raw, 60)
    _expect(crc == crc32c(raw[:60] + raw[64:table_end]), "header_crc")
    sections: dict[str, bytes] = {}
    end = table_end
    for i in range(n_sections):
        name, offset, size, crc = struct.unpack_from("<4sIII", raw, 64 + 16 * i)
        kind = name.decode("ascii")
        _expect(kind not in sections, f"{kind} occurs twice")
        _expect(offset % 64 == 0 and end <= offset <= offset + size <= total, f"{kind} place")
        _expect(not any(raw[end:offset]), f"gap before {kind}")
        end = offset + size
        sections[kind] = raw[offset:end]
        if kind == "HASH":
            _expect(crc == 0, "HASH crc")
            _expect(hashlib.sha256(raw[:offset]).digest() == sections[kind], "HASH")
        else:
            _expect(crc == crc32c(sections[kind]), f"{kind} crc")
    _expect(not any(raw[end:]), "gap at the end")
    known = [kind for kind in sections if not kind[0].islower()]
    _expect(known == ["CONF", "TOKN", "TDIR", "DATA", "CARD", "HASH"], f"sections {known}")

    config = _read_config(sections["CONF"])
    tensors = {}
    directory = sections["TDIR"]
    _expect(len(directory) % 32 == 0, "TDIR size")
    last = (-1, -1)
    for at in range(0, len(directory), 32):
        role, layer, *rest = struct.unpack_from("<HHBBHIIIIII", directory, at)
        _expect((layer, role) > last, "TDIR order")
        last = (layer, role)
        key = (None if layer == GLOBAL else layer, ROLES[role])
        tensors[key] = _read_tensor(sections["DATA"], *rest)
    _expect(set(tensors) == set(shapes(config)), "TDIR entries")
    for key, shape in shapes(config).items():
        _expect((tensors[key].rows, tensors[key].cols) == shape, f"shape of {key}")
    return Image(config, tensors, sections, json.loads(sections["CARD"]))


def _read_config(raw: bytes) -> Config:
    _expect(len(raw) == 128 and not any(raw[48:]), "CONF")
    *sizes, eps, theta, norm, act, ffn, rope, flags = struct.unpack_from("<8I2f4BI", raw)
    _expect((norm, act, ffn) == (1, 1, 1) and rope in (1, 2) and flags in (0, 1), "CONF kind")
    return Config(*sizes, eps, theta, rope, bool(flags & 1))


def shapes(c: Config) -> dict[tuple[int | None, str], tuple[int, int]]:
    """(rows, cols) of every tensor that a model of this configuration has."""
    q_dim, kv_dim = c.n_heads * c.head_dim, c.n_kv_heads * c.head_dim
    whole = {
        "token_embd": (c.vocab_size, c.dim),
        "output_norm": (1, c.dim),
        "output": (c.vocab_size, c.dim),
        "rope_phase": (1, c.head_dim // 2),
    }
    if c.tied:
        del whole["output"]
    layer = {
        "attn_norm": (1, c.dim),
        "attn_q": (q_dim, c.dim),
        "attn_k": (kv_dim, c.dim),
        "attn_v": (kv_dim, c.dim),
        "attn_output": (c.dim, q_dim),
        "ffn_norm": (1, c.dim),
        "ffn_gate": (c.hidden_dim, c.dim),
        "ffn_up": (c.hidden_dim, c.dim),
        "ffn_down": (c.dim, c.hidden_dim),
    }
    out: dict[tuple[int | None, str], tuple[int, int]] = {}
    for i in range(c.n_layers):
        out.update({(i, name): shape for name, shape in layer.items()})
    out.update({(None, name): shape for name, shape in whole.items()})
    return out


def _read_tensor(
    data: bytes,
    dtype: int,
    reserved: int,
    group: int,
    rows: int,
    cols: int,
    offset: int,
    scales_at: int,
    row_scales_at: int,
    reserved2: int,
) -> Tensor:
    _expect(reserved == 0 and reserved2 == 0, "TDIR reserved")
    kind = DTYPES[dtype]
    if kind in ("f32", "u32"):
        _expect((group, scales_at, row_scales_at) == (0, 0, 0), f"{kind} scales")
        values = np.frombuffer(data, "<f4" if kind == "f32" else "<u4", rows * cols, offset)
        return Tensor(kind, rows, cols, values=values.reshape(rows, cols))
    _expect(group == 32, "group_size")
    _expect(offset % 64 == scales_at % 64 == row_scales_at % 64 == 0, "plane alignment")
    tiles, groups = -(-rows // 4), -(-cols // 32)
    blocks = tiles * groups * 4
    if kind == "int4":
        packed = np.frombuffer(data, np.uint8, blocks * 16, offset)
        packed = packed.reshape(tiles, groups, 4, 16)
        codes = np.concatenate([packed & 15, packed >> 4], axis=-1).astype(np.int8)
        codes = np.where(codes > 7, codes - 16, codes)
    else:
        codes = np.frombuffer(data, np.int8, blocks * 32, offset).reshape(tiles, groups, 4, 32)
    codes = codes.swapaxes(1, 2).reshape(tiles * 4, groups * 32)
    scales = np.frombuffer(data, np.int8, blocks, scales_at)
    scales = scales.reshape(tiles, groups, 4).swapaxes(1, 2).reshape(tiles * 4, groups)
    row_scales = np.frombuffer(data, "<f4", tiles * 4, row_scales_at)
    _expect(not codes[rows:].any() and not codes[:, cols:].any(), "padding of codes")
    _expect(not scales[rows:].any() and not row_scales[rows:].any(), "padding of scales")
    _expect(scales.min(initial=0) >= -127, "scale of -128")
    return Tensor(kind, rows, cols, None, codes[:rows, :cols], scales[:rows], row_scales[:rows])
