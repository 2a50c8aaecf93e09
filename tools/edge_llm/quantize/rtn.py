"""Round to nearest: each group on its own, no calibration data."""

from __future__ import annotations

import numpy as np

from ..tiles import ACCUMULATOR_LIMIT, GROUP_SIZE, Quantized, accumulator, n_groups
from . import check_finite

# Rows whose scale would be a subnormal float count as zero: some FPUs flush subnormals, and the
# result must be the same on all of them.
_SMALLEST = float(np.finfo(np.float32).tiny)
_BLOCK = 1 << 20  # elements worked on at once, so that memory stays small beside the tensor


def quantize(name: str, weights: np.ndarray, bits: int) -> Quantized:
    """Quantize a matrix to `bits` (4 or 8) a weight in groups of 32 columns.

    int4 steps are signed, so that the largest magnitude of each group is the code -8. int8 steps
    are rounded up, so that nothing is clipped, and coarsened where a row could overflow a 32-bit
    accumulator.

    Args:
        name: of the tensor, for the error message.
        weights: float32 [rows, cols].
        bits: 4 or 8.

    Raises:
        ValueError: weights that are not finite.
    """
    check_finite(name, weights)
    rows, cols = weights.shape
    groups = n_groups(cols)
    result = Quantized(
        np.zeros((rows, groups * GROUP_SIZE), np.int8),
        np.zeros((rows, groups), np.int8),
        np.zeros(rows, np.float32),
    )
    height = max(1, _BLOCK // (groups * GROUP_SIZE))
    for start in range(0, rows, height):
        block = slice(start, min(start + height, rows))
        padded = np.zeros((block.stop - start, groups, GROUP_SIZE))
        padded.reshape(block.stop - start, -1)[:, :cols] = weights[block]
        part = _int4(padded) if bits == 4 else _int8(padded)
        for whole, piece in zip(result, part, strict=True):
            whole[block] = piece
    return result


def _int4(w: np.ndarray) -> Quantized:
    """float64 [rows, groups, 32] to int4."""
    peaks = np.take_along_axis(w, np.abs(w).argmax(axis=2)[..., None], axis=2)[..., 0]
    steps = peaks / -8
    row_scales = _row_scales(np.abs(steps).max(axis=1) / 127)
    scales = np.rint(_divide(steps, row_scales[:, None]))
    # A group too small for a step of its own keeps the smallest there is: better than all zeros.
    scales = np.where((scales == 0) & (row_scales[:, None] > 0), np.sign(steps), scales)
    codes = np.rint(_divide(w, (scales * row_scales[:, None])[..., None]))
    return _result(codes.clip(-8, 7), scales.clip(-127, 127), row_scales)


def _int8(w: np.ndarray) -> Quantized:
    """float64 [rows, groups, 32] to int8."""
    steps = np.abs(w).max(axis=2) / 127
    row_scales = _row_scales(steps.max(axis=1) / 127)
    while True:
        scales = np.ceil(_divide(steps, row_scales[:, None])).clip(0, 127)
        codes = np.rint(_divide(w, (scales * row_scales[:, None])[..., None])).clip(-127, 127)
        result = _result(codes, scales, row_scales)
        # The sum is about |weights| / row_scale: a larger row scale brings it down in proportion.
        excess = accumulator(result.codes, result.scales) / ACCUMULATOR_LIMIT
        if (excess <= 1).all():
            return result
        row_scales = np.where(excess > 1, row_scales * (excess * 1.001), row_scales)
        row_scales = _row_scales(row_scales)


def _row_scales(values: np.ndarray) -> np.ndarray:
    """Round to float32, kept as float64; too small to be a normal float32 becomes 0."""
    rounded = values.astype(np.float32).astype(np.float64)
    return np.where(rounded < _SMALLEST, 0.0, rounded)


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a / b, and 0 where b is 0."""
    return np.divide(a, b, out=np.zeros(np.broadcast(a, b).shape), where=b != 0)


def _result(codes: np.ndarray, scales: np.ndarray, row_scales: np.ndarray) -> Quantized:
    return Quantized(
        codes.astype(np.int8).reshape(len(codes), -1),
        scales.astype(np.int8),
        row_scales.astype(np.float32),
    )
