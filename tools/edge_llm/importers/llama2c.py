"""Checkpoints and tokenizers of karpathy/llama2.c.

Three files have that name: the legacy one (a header of seven 32-bit integers, then float32),
version 1 (256 bytes of header with a magic number, then float32) and version 2 (the same header,
float32 norms, int8 matrices with a float32 scale per group). They differ in the order of the
tensors too. The layout was read from that project's export.py, run.c and runq.c.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

from ..image import Config, Dtype, directory, rope_phase
from ..tokenizer import Tokenizer, TokenType

_MAGIC = b"24ka"  # 0x616B3432, "ak42" read from the high byte
_LEGACY_HEADER = 28
_HEADER = 256
_ANGLES = "angles"  # the cosines and sines that a legacy file holds and nobody reads
_LEGACY_ORDER = (
    "token_embd attn_norm attn_q attn_k attn_v attn_output ffn_norm ffn_gate ffn_down ffn_up "
    f"output_norm {_ANGLES} output"
).split()
_ORDER = (
    "attn_norm ffn_norm output_norm token_embd attn_q attn_k attn_v attn_output "
    "ffn_gate ffn_down ffn_up output"
).split()
_NORMS = ("attn_norm", "ffn_norm", "output_norm")
_VERSIONS = {0: "legacy float32", 1: "version 1, float32", 2: "version 2, int8"}


def open_checkpoint(path: Path, tokenizer: Path | None) -> Checkpoint:
    """Open a checkpoint and its tokenizer (None: `tok*.bin` beside it).

    Raises:
        ValueError: in one sentence, what is wrong.
        OSError: a file cannot be read.
    """
    checkpoint = Checkpoint(path)
    n_tokens = checkpoint.config.vocab_size
    checkpoint.tokenizer = read_tokenizer(tokenizer or _tokenizer_beside(path, n_tokens))
    found = len(checkpoint.tokenizer.pieces)
    if found != n_tokens:
        raise ValueError(
            f"{tokenizer or 'tokenizer'}: has {found} tokens, but the embedding of {path.name} "
            f"has {n_tokens}; they do not belong together"
        )
    return checkpoint


class Checkpoint:
    """A llama2.c checkpoint, mapped; a `Source`."""

    tokenizer: Tokenizer
    licence = "unknown"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._bytes = np.memmap(path, np.uint8, "r")
        self._group_size = 0  # of version 2
        self.config, version, header = self._read_header()
        self.origin: dict[str, Any] = {
            "file": path.name,
            "format": f"llama2.c checkpoint, {_VERSIONS[version]}",
        }
        self._shapes = {
            (tensor.name, tensor.layer): (tensor.rows, tensor.cols)
            for tensor in directory(self.config, lambda name, layer: Dtype.F32)
        }
        self._offsets: dict[tuple[str, int | None], int] = {}
        end = self._lay_out(_ORDER if version else _LEGACY_ORDER, header)
        size = len(self._bytes)
        if size != end:
            problem = "is truncated" if size < end else "is longer than its header says"
            raise ValueError(f"{path}: {problem}: {size} bytes instead of {end}")

    def tensor(self, name: str, layer: int | None) -> np.ndarray:
        """As `Source.tensor`."""
        if name == "rope_phase":
            return rope_phase(self.config.head_dim, self.config.rope_theta)
        rows, cols = self._shapes[name, layer]
        at, count = self._offsets[name, layer], rows * cols
        if not self._quantized(name):
            return self._bytes[at : at + 4 * count].view("<f4").reshape(rows, cols)
        # Groups run over the flat tensor, so they may straddle rows.
        codes = self._bytes[at : at + count].view(np.int8).reshape(-1, self._group_size)
        at += count
        scales = self._bytes[at : at + 4 * len(codes)].view("<f4")
        return (codes * scales[:, None]).reshape(rows, cols)

    def _read_header(self) -> tuple[Config, int, int]:
        """(configuration, version with 0 for legacy, size of the header)."""
        head = self._bytes[:_HEADER].tobytes()
        version, at, size = 0, 0, _LEGACY_HEADER
        if head[:4] == _MAGIC:
            at, size = 8, _HEADER
            version = struct.unpack_from("<i", head, 4)[0] if len(head) >= 8 else 0
            if version not in (1, 2):
                raise ValueError(
                    f"{self._path}: a llama2.c checkpoint of version {version}; 1 and 2 are known"
                )
        if len(head) < size:
            raise ValueError(f"{self._path}: {len(head)} bytes do not hold a llama2.c checkpoint")
        dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab, context = struct.unpack_from(
            "<7i", head, at
        )
        tied = head[36] == 1 if version else vocab > 0
        config = Config(
            vocab if version else abs(vocab),
            dim,
            hidden_dim,
            n_layers,
            n_heads,
            n_kv_heads,
            dim // max(n_heads, 1),
            context,
            tied=tied,
        )
        try:
            config.check()
            if dim % n_heads:
                raise ValueError(f"n_heads: {n_heads} does not divide dim = {dim}")
            if version == 2:
                (self._group_size,) = struct.unpack_from("<i", head, 37)
                if self._group_size < 1:
                    raise ValueError(f"group_size: {self._group_size} is not positive")
        except ValueError as error:
            raise ValueError(
                f"{self._path}: not a llama2.c checkpoint, or damaged: in its header, {error}"
            ) from None
        return config, version, size

    def _lay_out(self, order: list[str], at: int) -> int:
        """Find where each tensor begins; returns where the last ends."""
        for name in order:
            if name == _ANGLES:
                at += 4 * self.config.context * self.config.head_dim
                continue
            for layer in (None, *range(self.config.n_layers)):
                if (name, layer) not in self._shapes:
                    continue
                rows, cols = self._shapes[name, layer]
                count = rows * cols
                self._offsets[name, layer] = at
                if not self._quantized(name):
                    at += 4 * count
                elif count % self._group_size:
                    raise ValueError(
                        f"{self._path}: group_size {self._group_size} does not divide the "
                        f"{count} elements of {name}"
                    )
                else:
                    at += count + 4 * (count // self._group_size)
        return at

    def _quantized(self, name: str) -> bool:
        return self._group_size > 0 and name not in _NORMS


def read_tokenizer(path: Path) -> Tokenizer:
    """Read a tokenizer.bin: the longest piece's length, then score, length and bytes of each.

    Raises:
        ValueError: the file is none, or damaged.
        OSError: it cannot be read.
    """
    content = path.read_bytes()
    if len(content) < 4:
        raise ValueError(f"{path}: not a llama2.c tokenizer, it has {len(content)} bytes")
    (longest,) = struct.unpack_from("<I", content)
    at, scores, pieces = 4, [], []
    while at < len(content):
        end = at + 8
        if end <= len(content):
            score, size = struct.unpack_from("<fI", content, at)
            end += size
        if end > len(content):
            raise ValueError(
                f"{path}: not a llama2.c tokenizer, or truncated: piece {len(pieces)} ends "
                f"at {end} of {len(content)} bytes"
            )
        if size > longest:
            raise ValueError(
                f"{path}: not a llama2.c tokenizer, or damaged: piece {len(pieces)} has {size} "
                f"bytes, the longest should have {longest}"
            )
        if score != score:
            raise ValueError(f"{path}: the score of piece {len(pieces)} is NaN")
        scores.append(score)
        pieces.append(content[at + 8 : end])
        at = end
    if len(pieces) < 3:
        raise ValueError(f"{path}: {len(pieces)} pieces, a llama2.c tokenizer has 3 at least")
    return _tokenizer(pieces, np.array(scores, np.float32))


def _tokenizer(pieces: list[bytes], scores: np.ndarray) -> Tokenizer:
    types = np.full(len(pieces), TokenType.NORMAL, np.uint8)
    types[0] = TokenType.UNKNOWN
    types[1:3] = TokenType.CONTROL
    # There the names of the control tokens stand between line breaks.
    pieces[1:3] = [piece.strip(b"\n") for piece in pieces[1:3]]
    byte_names = [b"<0x%02X>" % byte for byte in range(256)]
    byte_fallback = pieces[3:259] == byte_names
    if byte_fallback:
        types[3:259] = TokenType.BYTE
        pieces[3:259] = [bytes([byte]) for byte in range(256)]
    ranks = np.unique(-scores, return_inverse=True)[1].astype(np.uint32)
    return Tokenizer(pieces, ranks, types, 1, 2, 0, byte_fallback=byte_fallback)


def _tokenizer_beside(path: Path, n_tokens: int) -> Path:
    """The tok*.bin in the folder of a checkpoint; of several, the one with `n_tokens` tokens."""
    files = sorted(path.parent.glob("tok*.bin"))
    if len(files) > 1:
        files = [file for file in files if _n_tokens(file) == n_tokens]
    if len(files) == 1:
        return files[0]
    raise ValueError(
        f"{path.name}: {len(files) or 'no'} tokenizers (tok*.bin) beside it fit; "
        "name one with --tokenizer"
    )


def _n_tokens(path: Path) -> int:
    try:
        return len(read_tokenizer(path).pieces)
    except ValueError:
        return 0
