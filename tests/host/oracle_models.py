"""Small models with random weights, as images, for the tests that compare engine and oracle.

Codes and scales are drawn over their whole range, which no quantizer would do.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from edge_llm import image
from edge_llm.image import Config, Dtype
from edge_llm.tiles import GROUP_SIZE, Quantized, n_groups, pack
from edge_llm.tokenizer import Tokenizer, TokenType

DtypeOf = Callable[[str, int | None], Dtype]
PlanesOf = Callable[[image.Tensor], tuple[np.ndarray, ...]]


def plain_tokenizer(n: int) -> Tokenizer:
    """`n` tokens named by their number: for models that are only given ids."""
    types = np.full(n, TokenType.NORMAL, np.uint8)
    return Tokenizer(
        [b"<%d>" % i for i in range(n)],
        np.arange(n, dtype=np.uint32),
        types,
        add_bos=False,
        add_space_prefix=False,
        byte_fallback=False,
    )


def random_quantized(rng: np.random.Generator, rows: int, cols: int, dtype: Dtype) -> Quantized:
    """Any codes and scales, times row scales that keep the products of the size of 1."""
    groups = n_groups(cols)
    low, high = (-8, 7) if dtype == Dtype.INT4 else (-128, 127)
    codes = rng.integers(low, high, (rows, groups * GROUP_SIZE), np.int8, endpoint=True)
    codes[:, cols:] = 0
    scales = rng.integers(-127, 127, (rows, groups), np.int8, endpoint=True)
    size = (4.6 if dtype == Dtype.INT4 else 74) * 73 * np.sqrt(cols)
    row_scales = (rng.uniform(0.5, 2, rows) / size).astype(np.float32)
    return Quantized(codes, scales, row_scales)


def random_planes(seed: int) -> PlanesOf:
    """Random contents for each tensor."""
    rng = np.random.default_rng(seed)

    def planes(tensor: image.Tensor) -> tuple[np.ndarray, ...]:
        if tensor.dtype.quantized:
            matrix = random_quantized(rng, tensor.rows, tensor.cols, tensor.dtype)
            return tuple(pack(matrix, tensor.dtype.bits))
        if tensor.dtype == Dtype.U32:
            phase = rng.integers(0, 1 << 32, tensor.cols, np.uint32)
            # Some stand at the ends of the octants and of the number range.
            ends = rng.choice([0, 2**29 - 1, 2**29, 3 * 2**29, 2**31, 2**32 - 1], tensor.cols)
            return (np.where(rng.random(tensor.cols) < 0.2, ends, phase).astype("<u4"),)
        values = rng.standard_normal((tensor.rows, tensor.cols))
        if tensor.name.endswith("_norm"):
            values = 1 + 0.3 * values
        elif tensor.name != "token_embd":
            values /= np.sqrt(tensor.cols)
        return (values.astype("<f4"),)

    return planes


def make_image(
    path: Path,
    config: Config,
    dtype: Dtype | DtypeOf,
    planes: PlanesOf,
    tokenizer: Tokenizer | None = None,
) -> bytes:
    """Write a model to `path`; returns the image.

    Args:
        path: of the image.
        config: hyper-parameters.
        dtype: of the matrices, or `(name, layer) -> Dtype`.
        planes: contents of each tensor, `random_planes(seed)` for instance.
        tokenizer: None for one that only counts.
    """
    dtype_of = dtype if callable(dtype) else lambda name, layer: dtype
    image.write_image(
        path,
        config,
        tokenizer or plain_tokenizer(config.vocab_size),
        {"name": "for tests"},
        image.directory(config, dtype_of),
        planes,
    )
    return path.read_bytes()
