"""Public checkpoints, read one tensor at a time.

An importer is a module with `open_checkpoint(path, tokenizer) -> Source`. Which one a file needs
is decided by its contents; `open_model` does that and finds the files in a folder.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..image import MAGIC, Config
from ..tokenizer import Tokenizer
from . import llama2c


class Source(Protocol):
    """A checkpoint that is open for reading."""

    config: Config
    tokenizer: Tokenizer
    origin: dict[str, Any]
    """What the checkpoint is, for the card."""
    licence: str
    """As the checkpoint has it, or `unknown`."""

    def tensor(self, name: str, layer: int | None) -> np.ndarray:
        """A tensor by the name and the shape of docs/image-format.md: float32 [rows, cols], or
        uint32 for `rope_phase`. It may be a view of the file."""
        ...


_GGUF = b"GGUF"
_FOREIGN = (
    (0, MAGIC, "an .llm image already"),
    (0, _GGUF, "a GGUF file"),
    (0, b"PK\x03\x04", "a zip archive, as PyTorch writes"),
    (0, b"\x80\x02", "a Python pickle, as PyTorch writes"),
    (0, b"\x89HDF", "an HDF5 file"),
    (4, b"TFL3", "a TensorFlow Lite model"),
    (0, b"\n\x0e\n\x05<unk>", "a SentencePiece model"),
    (12, b"<unk>", "a llama2.c tokenizer, the checkpoint is another file"),
)


def foreign_kind(head: bytes) -> str | None:
    """What a file that begins with `head` is, if it is surely no llama2.c checkpoint."""
    for at, magic, kind in _FOREIGN:
        if head[at : at + len(magic)] == magic:
            return kind
    if head[8:10] == b'{"' and int.from_bytes(head[:8], "little") < 1 << 27:
        return "a safetensors file"
    return None


def open_model(path: str | os.PathLike[str], tokenizer: str | None = None) -> Source:
    """Open a checkpoint for reading.

    Args:
        path: the checkpoint, or a folder that holds one.
        tokenizer: its vocabulary; None looks for `tok*.bin` beside a llama2.c checkpoint. A GGUF
            model has it inside.

    Raises:
        ValueError: what is wrong with the model, in one sentence.
        OSError: a file cannot be read.
    """
    model = Path(path)
    if model.is_dir():
        model = _checkpoint_in(model)
    head = _head(model)
    if not head:
        raise ValueError(f"{model}: is empty")
    importer = _importer(head)
    if not importer:
        raise ValueError(
            f"{model}: is {foreign_kind(head)}; edge-llm converts GGUF models (.gguf) and "
            "llama2.c checkpoints (.bin)"
        )
    return importer(model, Path(tokenizer) if tokenizer else None)


def _importer(head: bytes) -> Callable[[Path, Path | None], Source] | None:
    """What opens a file that begins with `head`."""
    if head.startswith(_GGUF):
        from . import gguf  # here, since its package takes longer to load than all else

        return gguf.open_checkpoint
    return None if foreign_kind(head) else llama2c.open_checkpoint


def _checkpoint_in(folder: Path) -> Path:
    files = [file for ending in ("*.bin", "*.gguf") for file in sorted(folder.glob(ending))]
    found = [file for file in files if _importer(_head(file))]
    if len(found) != 1:
        names = ", ".join(file.name for file in found) or "none"
        raise ValueError(
            f"{folder}: must hold one GGUF model (.gguf) or llama2.c checkpoint (.bin), it has "
            f"{names}"
        )
    return found[0]


def _head(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(64)
