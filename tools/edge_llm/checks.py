"""The one way a reader says that something is wrong."""

from __future__ import annotations

from typing import Any


def require(ok: Any, field: str, message: str) -> None:
    """Raise ValueError `field: message` unless `ok`."""
    if not ok:
        raise ValueError(f"{field}: {message}")
