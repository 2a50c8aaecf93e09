"""Quantized matrices as the image stores them: rows four to a tile, columns 32 to a group.

`pack` and `unpack` convert between plain row-by-row arrays and the three planes that
docs/image-format.md defines under "Tensor data".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

GROUP_SIZE = 32
TILE_ROWS = 4
# What keeps a row of int8 weights within a 32-bit accumulator: activations reach +-127.
ACCUMULATOR_LIMIT = (2**31 - 1) // 127


class Quantized(NamedTuple):
    """A quantized matrix, row by row.

    Element (r, c) stands for `codes[r, c] * scales[r, c // 32] * row_scales[r]`.
    """

    codes: np.ndarray  # int8 [rows, n_groups * 32]; the padding past the last column is 0
    scales: np.ndarray  # int8 [rows, n_groups], -127 to 127
    row_scales: np.ndarray  # float32 [rows]

    def dequantize(self, cols: int) -> np.ndarray:
        """float32 [rows, cols], computed as the engine does: `float(code * scale) * row_scale`."""
        steps = np.repeat(self.scales.astype(np.int32), GROUP_SIZE, axis=1)[:, :cols]
        integers = self.codes[:, :cols].astype(np.int32) * steps
        return integers.astype(np.float32) * self.row_scales[:, None]


class Planes(NamedTuple):
    """A quantized matrix as stored: flat arrays of bytes and float32."""

    data: np.ndarray  # uint8: nibbles (int4) or two's complement bytes (int8)
    scales: np.ndarray  # int8
    row_scales: np.ndarray  # float32


def n_groups(cols: int) -> int:
    """Groups that `cols` columns fill."""
    return -(-cols // GROUP_SIZE)


def n_tiles(rows: int) -> int:
    """Tiles that `rows` rows fill."""
    return -(-rows // TILE_ROWS)


def plane_sizes(rows: int, cols: int, bits: int) -> tuple[int, int, int]:
    """Bytes of the planes data, scales and row_scales of a matrix at `bits` (4 or 8) a code."""
    tiles, groups = n_tiles(rows), n_groups(cols)
    blocks = tiles * groups * TILE_ROWS
    return blocks * GROUP_SIZE * bits // 8, blocks, tiles * TILE_ROWS * 4


def pack(matrix: Quantized, bits: int) -> Planes:
    """Arrange a quantized matrix in planes, `bits` being 4 or 8.

    Raises:
        ValueError: shapes that do not belong together, or a code or scale out of range.
    """
    codes, scales, row_scales = matrix
    rows, padded = codes.shape
    groups = padded // GROUP_SIZE
    if padded % GROUP_SIZE or scales.shape != (rows, groups) or row_scales.shape != (rows,):
        raise ValueError(
            f"codes {codes.shape}, scales {scales.shape} and row_scales {row_scales.shape} "
            "do not describe one matrix"
        )
    low, high = (-8, 7) if bits == 4 else (-128, 127)
    if codes.size and (codes.min() < low or codes.max() > high):
        raise ValueError(f"a code is outside {low} to {high}")
    if scales.size and scales.min() < -127:
        raise ValueError("a group scale is below -127")

    tiles = n_tiles(rows)
    fill = tiles * TILE_ROWS - rows
    codes = np.pad(codes, ((0, fill), (0, 0))).reshape(tiles, TILE_ROWS, groups, GROUP_SIZE)
    codes = codes.transpose(0, 2, 1, 3)
    if bits == 4:
        half = GROUP_SIZE // 2
        data = (codes[..., :half] & 15 | codes[..., half:] << 4).astype(np.uint8)
    else:
        data = np.ascontiguousarray(codes).view(np.uint8)
    scales = np.pad(scales, ((0, fill), (0, 0))).reshape(tiles, TILE_ROWS, groups)
    return Planes(
        data.reshape(-1),
        scales.transpose(0, 2, 1).reshape(-1),
        np.pad(row_scales, (0, fill)).astype("<f4"),
    )


def unpack(planes: Planes, rows: int, cols: int, bits: int) -> Quantized:
    """The inverse of `pack`; rows that only fill a tile are dropped, padded columns are kept."""
    tiles, groups = n_tiles(rows), n_groups(cols)
    if bits == 4:
        bytes_ = planes.data.view(np.int8).reshape(tiles, groups, TILE_ROWS, GROUP_SIZE // 2)
        # Shifting the low nibble up and back extends its sign.
        codes = np.concatenate([(bytes_ << 4) >> 4, bytes_ >> 4], axis=-1)
    else:
        codes = planes.data.view(np.int8).reshape(tiles, groups, TILE_ROWS, GROUP_SIZE)
    codes = codes.transpose(0, 2, 1, 3).reshape(tiles * TILE_ROWS, groups * GROUP_SIZE)
    scales = planes.scales.reshape(tiles, groups, TILE_ROWS).transpose(0, 2, 1)
    scales = scales.reshape(tiles * TILE_ROWS, groups)
    return Quantized(codes[:rows], scales[:rows], planes.row_scales[:rows])


def accumulator(codes: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Largest magnitude each row can sum to with activations of magnitude 1: int64 [rows]."""
    rows, groups = scales.shape
    magnitude = np.abs(codes.reshape(rows, groups, -1).astype(np.int64)).sum(axis=2)
    return (np.abs(scales.astype(np.int64)) * magnitude).sum(axis=1)
