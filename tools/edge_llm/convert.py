"""From a checkpoint to an image."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from . import __version__
from .image import Dtype, Tensor, directory, write_image
from .importers import Source
from .quantize import check_finite, rtn
from .tiles import pack

# What --quantize means. The embedding and the head suffer most from 4 bits, so they get 8.
DTYPES = {
    "int4": (Dtype.INT4, Dtype.INT8),
    "int8": (Dtype.INT8, Dtype.INT8),
    "f32": (Dtype.F32, Dtype.F32),
}
_NOTES = {
    "int4": "int4 in groups of 32, embedding and head int8, round to nearest",
    "int8": "int8 in groups of 32, round to nearest",
    "f32": "none (float32)",
}


def convert(
    source: Source,
    output: str | os.PathLike[str],
    quantize: str,
    *,
    context: int | None = None,
    name: str | None = None,
    licence: str | None = None,
    progress: Callable[[Tensor], None] | None = None,
) -> int:
    """Write the image of a checkpoint and return its size in bytes.

    Args:
        source: from `importers.open_model`.
        output: path of the image.
        quantize: `int4`, `int8` or `f32`.
        context: positions, at most what the model was trained for; None: all of them.
        name: for the card; None: the name of the checkpoint's file.
        licence: for the card; None: what the checkpoint says of it.
        progress: called with each tensor once it is written.

    Raises:
        ValueError: naming the setting, or the tensor that is not finite.
    """
    config = source.config
    if context is not None:
        if not 1 <= context <= config.context:
            raise ValueError(
                f"context: {context} is not between 1 and the {config.context} positions that the "
                "model was trained for"
            )
        config = replace(config, context=context)
    matrix, head = DTYPES[quantize]
    tensors = directory(
        config, lambda role, layer: head if role in ("token_embd", "output") else matrix
    )

    def planes(tensor: Tensor) -> tuple[np.ndarray, ...]:
        label = f"{tensor.label} of {source.origin['file']}"
        if tensor.dtype.quantized:
            # The floats are gone before the codes are packed, so that both are never in memory.
            matrix = rtn.quantize(
                label, source.tensor(tensor.name, tensor.layer), tensor.dtype.bits
            )
            result = pack(matrix, tensor.dtype.bits)
        else:
            values = source.tensor(tensor.name, tensor.layer)
            check_finite(label, values)
            result = (values,)
        if progress:
            progress(tensor)
        return result

    card: dict[str, Any] = {
        "name": name or os.path.splitext(source.origin["file"])[0],
        "licence": licence or source.licence,
        "origin": source.origin,
        "quantization": _NOTES[quantize],
        "converter": f"edge-llm {__version__}",
    }
    return write_image(output, config, source.tokenizer, card, tensors, planes)
