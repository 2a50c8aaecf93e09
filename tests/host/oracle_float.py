"""A llama2.c checkpoint, its tokenizer and its forward pass, in floating point.

This is what the whole project is measured against: it reads the original files, knows nothing of
images or quantization, and uses NumPy's own ``cos``, ``sin`` and ``exp``. Clear before fast.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

NORM_EPS = 1e-5
ROPE_THETA = 10000.0


@dataclass
class Checkpoint:
    """A legacy fp32 llama2.c checkpoint; arrays are float32, (outputs, inputs), layers first."""

    dim: int
    hidden_dim: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    vocab_size: int
    context: int
    token_embd: np.ndarray
    attn_norm: np.ndarray
    attn_q: np.ndarray
    attn_k: np.ndarray
    attn_v: np.ndarray
    attn_output: np.ndarray
    ffn_norm: np.ndarray
    ffn_gate: np.ndarray
    ffn_down: np.ndarray
    ffn_up: np.ndarray
    output_norm: np.ndarray
    output: np.ndarray | None

    @property
    def head_dim(self) -> int:
        """Elements of one head."""
        return self.dim // self.n_heads


def read_checkpoint(path: str | Path) -> Checkpoint:
    """Read the checkpoint at `path`; raises ValueError if its size is not what its header says."""
    raw = Path(path).read_bytes()
    dim, hidden, layers, heads, kv_heads, vocab, context = struct.unpack_from("<7i", raw)
    tied = vocab > 0  # llama2.c marks a separate head by a negative vocabulary size
    vocab = abs(vocab)
    head_dim = dim // heads
    kv_dim = kv_heads * head_dim
    data = np.frombuffer(raw, "<f4", offset=28)
    at = 0

    def take(*shape: int) -> np.ndarray:
        nonlocal at
        size = int(np.prod(shape))
        part = data[at : at + size].reshape(shape)
        at += size
        return part

    fields = {
        "token_embd": take(vocab, dim),
        "attn_norm": take(layers, dim),
        "attn_q": take(layers, dim, dim),
        "attn_k": take(layers, kv_dim, dim),
        "attn_v": take(layers, kv_dim, dim),
        "attn_output": take(layers, dim, dim),
        "ffn_norm": take(layers, dim),
        "ffn_gate": take(layers, hidden, dim),
        "ffn_down": take(layers, dim, hidden),
        "ffn_up": take(layers, hidden, dim),
        "output_norm": take(dim),
    }
    take(2, context, head_dim // 2)  # tables of cosines and sines, computed anew here
    output = None if tied else take(vocab, dim)
    if at != data.size:
        raise ValueError(f"{path}: {data.size} floats follow the header, which promises {at}")
    return Checkpoint(
        dim, hidden, layers, heads, kv_heads, vocab, context, output=output, **fields
    )


class FloatModel:
    """The forward pass in `dtype` (``np.float32`` or ``np.float64``), with a KV cache."""

    def __init__(self, checkpoint: Checkpoint, dtype: type = np.float64) -> None:
        c = self.checkpoint = checkpoint
        self.dtype = dtype
        self.pos = 0
        shape = (c.n_layers, c.n_kv_heads, c.context, c.head_dim)
        self.keys = np.zeros(shape, dtype)
        self.values = np.zeros(shape, dtype)
        pairs = np.arange(c.head_dim // 2)
        angles = np.outer(np.arange(c.context), ROPE_THETA ** (-2.0 * pairs / c.head_dim))
        self.cos = np.cos(angles).astype(dtype)
        self.sin = np.sin(angles).astype(dtype)

    def _norm(self, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
        mean = np.mean(x * x, axis=-1, keepdims=True, dtype=self.dtype)
        return x / np.sqrt(mean + self.dtype(NORM_EPS)) * weight.astype(self.dtype)

    def _linear(self, weight: np.ndarray, x: np.ndarray) -> np.ndarray:
        return x @ weight.astype(self.dtype).T

    def _rope(self, x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
        """Turn neighbours (2i, 2i + 1) of x, (tokens, heads, head_dim)."""
        a, b = x[..., 0::2], x[..., 1::2]
        cos, sin = cos[:, None], sin[:, None]
        return np.stack([a * cos - b * sin, a * sin + b * cos], axis=-1).reshape(x.shape)

    def forward(self, tokens: list[int]) -> np.ndarray:
        """Append `tokens` to the cache; returns their logits, (len(tokens), vocab_size)."""
        c, n, start = self.checkpoint, len(tokens), self.pos
        end = start + n
        x = c.token_embd[tokens].astype(self.dtype)
        cos, sin = self.cos[start:end], self.sin[start:end]
        future = np.arange(end) > np.arange(start, end)[:, None]
        for i in range(c.n_layers):
            h = self._norm(x, c.attn_norm[i])
            q = self._rope(self._linear(c.attn_q[i], h).reshape(n, -1, c.head_dim), cos, sin)
            k = self._rope(self._linear(c.attn_k[i], h).reshape(n, -1, c.head_dim), cos, sin)
            v = self._linear(c.attn_v[i], h).reshape(n, -1, c.head_dim)
            self.keys[i, :, start:end] = k.swapaxes(0, 1)
            self.values[i, :, start:end] = v.swapaxes(0, 1)
            heads = []
            for head in range(c.n_heads):
                kv = head // (c.n_heads // c.n_kv_heads)
                score = q[:, head] @ self.keys[i, kv, :end].T / np.sqrt(self.dtype(c.head_dim))
                score[future] = -np.inf
                p = np.exp(score - score.max(axis=-1, keepdims=True))
                p /= p.sum(axis=-1, keepdims=True)
                heads.append(p @ self.values[i, kv, :end])
            x = x + self._linear(c.attn_output[i], np.concatenate(heads, axis=-1))
            h = self._norm(x, c.ffn_norm[i])
            gate = self._linear(c.ffn_gate[i], h)
            gate = gate / (1 + np.exp(-gate)) * self._linear(c.ffn_up[i], h)
            x = x + self._linear(c.ffn_down[i], gate)
        self.pos = end
        head = c.token_embd if c.output is None else c.output
        return self._linear(head, self._norm(x, c.output_norm))

    def greedy(self, prompt: list[int], count: int) -> list[int]:
        """The `count` likeliest tokens after `prompt`, one by one, from an empty cache."""
        self.pos = 0
        logits = self.forward(prompt)[-1]
        out: list[int] = []
        while True:
            out.append(int(np.argmax(logits)))
            if len(out) == count:
                return out
            logits = self.forward(out[-1:])[-1]


def bpe(text: str, rank: dict[bytes, float]) -> list[bytes]:
    """SentencePiece's merges in their plainest, quadratic form: the parts that `text` ends in.

    `rank` holds the pieces; of all neighbours that make one, those of the lowest rank are joined
    first, the leftmost of equals.
    """
    parts = [c.encode() for c in text]
    while True:
        pairs = [
            (rank[a + b], i)
            for i, (a, b) in enumerate(zip(parts, parts[1:], strict=False))
            if a + b in rank
        ]
        if not pairs:
            return parts
        _, i = min(pairs)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]


class Vocabulary:
    """A llama2.c ``tokenizer.bin``."""

    def __init__(self, path: str | Path) -> None:
        raw = Path(path).read_bytes()
        self.pieces: list[bytes] = []
        scores: list[float] = []
        at = 4  # an int32 with the longest piece's length, of no use here
        while at < len(raw):
            score, size = struct.unpack_from("<fi", raw, at)
            scores.append(score)
            self.pieces.append(raw[at + 8 : at + 8 + size])
            at += 8 + size
        # 0 to 258 are <unk>, <s>, </s> and the 256 bytes: never the result of a merge.
        self.ids = {p: i for i, p in reversed(list(enumerate(self.pieces))) if i >= 259}
        self.rank = {p: -scores[i] for p, i in self.ids.items()}

    def encode(self, text: str, bos: bool = True) -> list[int]:
        """Token ids of `text`; bytes without a piece become tokens 3 to 258."""
        out = [1] if bos else []
        text = text.replace("\u2581", " ")
        for part in bpe(" " + text, self.rank) if text else []:
            out += [self.ids[part]] if part in self.ids else [3 + byte for byte in part]
        return out

    def decode(self, ids: list[int]) -> str:
        """Text of `ids`, without the space that `encode` puts in front."""
        raw = b"".join(
            b"" if i in (1, 2) else bytes([i - 3]) if 3 <= i < 259 else self.pieces[i] for i in ids
        )
        return raw.removeprefix(b" ").decode("utf-8", "replace")
