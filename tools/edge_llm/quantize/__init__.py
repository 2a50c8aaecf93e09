"""From float matrices to integer codes.

A quantizer is a function `(name, weights, bits) -> Quantized`: `weights` is float32 [rows, cols],
`bits` 4 or 8, and the result is what `tiles.pack` takes. `name` is for error messages. `rtn` is
the plain one, round to nearest; others stand beside it with the same signature.
"""

from __future__ import annotations

import numpy as np


def check_finite(name: str, weights: np.ndarray) -> None:
    """Refuse a tensor that holds NaN or infinity.

    Raises:
        ValueError: naming the tensor and the first bad element.
    """
    finite = np.isfinite(weights)
    if not finite.all():
        at = np.unravel_index(int(np.argmin(finite)), weights.shape)
        raise ValueError(
            f"tensor {name}: element {tuple(int(i) for i in at)} is {weights[at]}, "
            "weights must be finite; get the checkpoint again"
        )
