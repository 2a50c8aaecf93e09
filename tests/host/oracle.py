"""The engine's arithmetic in NumPy, bit for bit, written from docs/arithmetic.md.

Every float is ``np.float32`` and every operation is one rounding. Integer sums are exact whatever
their order, so they are formed as float64 matrix products (all values stay below 2^53) and then
wrapped to 32 bits. All tokens of one call go through a layer together; nothing that a token
computes depends on its neighbours except through the cache, so the results are those of one token
after the other.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from oracle_image import Image, Tensor

F = np.float32
LOG2_E = F(1.44269504)
MASK64 = (1 << 64) - 1


# Functions


def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``lanes(a * b)`` over the last axis; the axes before it broadcast."""
    n = a.shape[-1]
    pad = -n % 8
    # Sums that start from 0.0 are never -0.0, so that adding 0.0 for the padding changes nothing.
    a = np.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, pad)])
    b = np.pad(b, [(0, 0)] * (b.ndim - 1) + [(0, pad)])
    lanes = np.zeros((*np.broadcast_shapes(a.shape[:-1], b.shape[:-1]), 8), F)
    for i in range(0, n + pad, 8):
        lanes += a[..., i : i + 8] * b[..., i : i + 8]
    t = lanes[..., :4] + lanes[..., 4:]
    u = t[..., :2] + t[..., 2:]
    return u[..., 0] + u[..., 1]


def rsqrt(v: np.ndarray | np.float32) -> np.ndarray:
    """1 / sqrt(v), v > 0."""
    v = np.asarray(v, F)
    y = (np.uint32(0x5F375A86) - (v.view(np.uint32) >> np.uint32(1))).view(F)
    h = F(0.5) * v
    for _ in range(3):
        y = y * (F(1.5) - (h * y) * y)
    return y


def exp2q(d: np.ndarray) -> np.ndarray:
    """2^d in units of 2^-30, d <= 0, as int64."""
    t = np.trunc(np.where(d < -31, F(-31), d) * F(2**24)).astype(np.int64)
    n = -(t >> 24)
    f = (t & 0xFFFFFF) << 7
    r = np.full_like(f, 64154101)
    for constant in (154911401, 479317604, 1031498459, 1488531108, 1 << 30):
        r = constant + ((f * r) >> 32)
    return r >> n


def sincos(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sine and cosine of a uint32 phase in 2^-32 turns."""
    p = p.astype(np.uint32)
    q = (p + np.uint32(1 << 29)) >> np.uint32(30)
    x = (p - (q << np.uint32(30))).view(np.int32).astype(F) * F(1.4629180792671596e-9)
    z = x * x
    s = x + (x * z) * (F(-0.16666667) + z * (F(0.0083333310) + z * F(-0.00019840874)))
    c = F(1) + z * (
        F(-0.5) + z * (F(0.041666642) + z * (F(-0.0013888397) + z * F(0.000024433157)))
    )
    return np.choose(q, [s, c, -s, -c]), np.choose(q, [c, -s, -c, s])


def quantize(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Codes (as float64, for exact products) and scales of the vectors along the last axis."""
    a = np.abs(x).max(axis=-1)
    zero = a < F(1e-30)
    safe = np.where(zero, F(1), a)
    codes = np.rint(x * (F(127) / safe)[..., None])
    return _codes(codes, zero), np.where(zero, F(0), safe / F(127))


def quantize_kv(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`quantize` with scales that are rounded up to bfloat16."""
    a = np.abs(x).max(axis=-1)
    zero = a < F(1e-30)
    bits = (np.where(zero, F(127), a) / F(127)).view(np.uint32)
    scale = ((bits + np.uint32(0xFFFF)) & np.uint32(0xFFFF0000)).view(F)
    codes = np.rint(x * (F(1) / scale)[..., None])
    return _codes(codes, zero), np.where(zero, F(0), scale)


def _codes(codes: np.ndarray, zero: np.ndarray) -> np.ndarray:
    codes = np.where(zero[..., None], F(0), codes)
    if not (np.abs(codes) <= 127).all():
        raise OverflowError("a code leaves -127 to 127")
    return codes.astype(np.float64)


def rmsnorm(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    """RMSNorm of the vectors along the last axis."""
    r = rsqrt(dot(x, x) / F(x.shape[-1]) + F(eps))
    return (x * r[..., None]) * weight


def silu(x: np.ndarray) -> np.ndarray:
    """x * sigmoid(x)."""
    e = exp2q(-(np.abs(x) * LOG2_E)).astype(F) * F(2**-30)
    r = F(1) / (F(1) + e)
    return np.where(x >= 0, x * r, x * (e * r))


def wrap32(v: np.ndarray) -> np.ndarray:
    """An exact integer in a float64, wrapped to 32 bits, as float32."""
    return v.astype(np.int64).astype(np.int32).astype(F)


# The model


class Matrix:
    """A matrix of an image, ready to be multiplied."""

    def __init__(self, tensor: Tensor) -> None:
        self.values = tensor.values
        if self.values is None:
            group_of = np.arange(tensor.cols) // 32
            self.whole = tensor.codes.astype(np.float64) * tensor.scales[:, group_of]
            self.row_scales = tensor.row_scales.astype(F)

    def row(self, rows: list[int]) -> np.ndarray:
        """These rows as floats, (len(rows), cols)."""
        if self.values is not None:
            return self.values[rows]
        return self.whole[rows].astype(F) * self.row_scales[rows, None]

    def times(self, x: np.ndarray) -> np.ndarray:
        """The matrix times each vector of x, (n, cols): (n, rows)."""
        if self.values is not None:
            return dot(x[:, None], self.values[None])
        codes, scale = quantize(x)
        acc = codes @ self.whole.T
        return wrap32(acc) * (self.row_scales * scale[:, None])


PAGE = 64


def bf16_up(v: np.ndarray) -> np.ndarray:
    """Rounded away from zero to bfloat16."""
    bits = np.asarray(v, F).view(np.uint32)
    return ((bits + np.uint32(0xFFFF)) & np.uint32(0xFFFF0000)).view(F)


def compress_keys(codes: np.ndarray, scales: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Codes (n, head_dim), scales (n,) of a page of int8 keys: 4-bit codes, a scale a channel."""
    x = codes.astype(F) * scales[:, None]
    at = np.abs(x).argmax(axis=0)  # the first of the largest
    m = x[at, np.arange(x.shape[1])]
    zero = np.abs(m) < F(1e-30)
    scale = bf16_up(np.where(zero, F(8), m) * F(-0.125))
    k = F(1) / scale
    code = np.rint(x * k).clip(-8, 7)
    return np.where(zero, 0, code).astype(np.float64), np.where(zero, F(0), scale)


def compress_values(codes: np.ndarray, scales: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same of values: 4-bit codes, a scale a position."""
    a = np.abs(codes).max(axis=1).astype(F) * scales
    zero = a < F(1e-30)
    scale = bf16_up(np.where(zero, F(7), a) / F(7))
    k = F(1) / scale
    code = np.rint((codes.astype(F) * scales[:, None]) * k[:, None]).clip(-8, 7)
    return np.where(zero[:, None], 0, code).astype(np.float64), np.where(zero, F(0), scale)


class Oracle:
    """The forward pass over an image, with a cache of `context` positions.

    `cache` is "int8", "f32", "int4" or None, which takes the image's own default. `pos` is the
    number of tokens evaluated; set it to a smaller one to go back, unless the window has slid.
    `length` is how many tokens can be evaluated, the context if None; beyond the context the
    window slides.
    """

    def __init__(
        self,
        image: Image,
        context: int | None = None,
        cache: str | None = None,
        length: int | None = None,
    ) -> None:
        c = self.config = image.config
        self.context = context or c.context
        self.sinks = min(4, self.context // 2)
        matrices = {k: t for k, t in image.tensors.items() if k[1] not in VECTORS}
        if cache is None:
            cache = "f32" if all(t.dtype == "f32" for t in matrices.values()) else "int8"
        self.cache = cache
        self.matrices = {k: Matrix(t) for k, t in matrices.items()}
        self.vectors = {k: t.values[0] for k, t in image.tensors.items() if k[1] in VECTORS}
        self.pos = 0
        shape = (c.n_layers, c.n_kv_heads, length or self.context)
        kind = F if cache == "f32" else np.float64
        self.keys = np.zeros((*shape, c.head_dim), kind)
        self.values = np.zeros((*shape, c.head_dim), kind)
        self.key_scales = np.zeros(shape, F)
        self.value_scales = np.zeros(shape, F)

    def forward(self, tokens: list[int]) -> np.ndarray:
        """Append `tokens` to the cache; returns their logits, (len(tokens), vocab_size)."""
        c, n, start = self.config, len(tokens), self.pos
        end = start + n
        positions = np.arange(start, end, dtype=np.uint64)
        steps = self.vectors[None, "rope_phase"].astype(np.uint64)
        sin, cos = sincos((positions[:, None] * steps) & np.uint64(0xFFFFFFFF))
        head = "token_embd" if c.tied else "output"
        x = self.matrices[None, "token_embd"].row(tokens)
        for i in range(c.n_layers):
            h = rmsnorm(x, self.vectors[i, "attn_norm"], c.norm_eps)
            q, k, v = (
                self.matrices[i, name].times(h).reshape(n, -1, c.head_dim)
                for name in ("attn_q", "attn_k", "attn_v")
            )
            plain, q, k = q, self._rope(q, sin, cos), self._rope(k, sin, cos)
            self._store(i, start, k, v)
            attend = self._attend_int8 if self.cache == "int8" else self._attend_f32
            if self.cache == "int4" or end > self.context:
                heads = [
                    np.stack(
                        [self._attend_one(i, head_i, start + t, plain[t], q[t]) for t in range(n)]
                    )
                    for head_i in range(c.n_heads)
                ]
            else:
                heads = [
                    attend(i, kv, q[:, head_i], start)
                    for head_i in range(c.n_heads)
                    for kv in [head_i // (c.n_heads // c.n_kv_heads)]
                ]
            x = x + self.matrices[i, "attn_output"].times(np.concatenate(heads, axis=-1))
            h = rmsnorm(x, self.vectors[i, "ffn_norm"], c.norm_eps)
            gate = self.matrices[i, "ffn_gate"].times(h)
            up = self.matrices[i, "ffn_up"].times(h)
            x = x + self.matrices[i, "ffn_down"].times(silu(gate) * up)
        self.pos = end
        x = rmsnorm(x, self.vectors[None, "output_norm"], c.norm_eps)
        return self.matrices[None, head].times(x)

    def _rope(self, x: np.ndarray, sin: np.ndarray, cos: np.ndarray) -> np.ndarray:
        half = self.config.head_dim // 2
        first, second = (
            (slice(0, None, 2), slice(1, None, 2))
            if self.config.rope == 1
            else (slice(0, half), slice(half, None))
        )
        a, b, sin, cos = x[..., first], x[..., second], sin[:, None], cos[:, None]
        out = np.empty_like(x)
        out[..., first] = a * cos - b * sin
        out[..., second] = a * sin + b * cos
        return out

    def _store(self, layer: int, start: int, k: np.ndarray, v: np.ndarray) -> None:
        at = slice(start, start + k.shape[0])
        k, v = k.swapaxes(0, 1), v.swapaxes(0, 1)
        if self.cache != "f32":
            self.keys[layer, :, at], self.key_scales[layer, :, at] = quantize_kv(k)
            self.values[layer, :, at], self.value_scales[layer, :, at] = quantize_kv(v)
        else:
            self.keys[layer, :, at], self.values[layer, :, at] = k, v

    def _weights(self, s: np.ndarray, start: int) -> tuple[np.ndarray, np.ndarray]:
        """p (n, positions) as integers and P (n,) as float of the scores s (n, positions)."""
        n, end = s.shape
        past = np.arange(end) <= np.arange(start, start + n)[:, None]
        m = np.where(past, s, F(-np.inf)).max(axis=-1, keepdims=True)
        p = np.where(past, exp2q(np.where(past, s - m, F(0))), 0)
        total = p.sum(axis=-1)
        high, low = (total >> 32).astype(F), (total & 0xFFFFFFFF).astype(F)
        return p, high * F(2**32) + low

    def _attend_int8(self, layer: int, kv: int, q: np.ndarray, start: int) -> np.ndarray:
        """One query head, q (n, head_dim): (n, head_dim)."""
        n, end = q.shape[0], start + q.shape[0]
        codes, scale = quantize(q)
        c = scale * (rsqrt(F(self.config.head_dim)) * LOG2_E)
        key_scales, value_scales = self.key_scales[layer, kv, :end], self.value_scales[layer, kv]
        dots = wrap32(codes @ self.keys[layer, kv, :end].T)
        p, total = self._weights(dots * (key_scales * c[:, None]), start)
        value_scales = value_scales[:end]
        # The largest scale among the positions that each token sees.
        b = np.maximum.accumulate(value_scales)[start:] * F(32769)
        inverse = np.where(b == 0, F(0), F(1) / np.where(b == 0, F(1), b))
        u = np.rint(p.astype(F) * (value_scales * inverse[:, None]))
        if not ((u >= 0) & (u <= 32767)).all():
            raise OverflowError("u leaves 0 to 32767")
        u = u.astype(np.float64)
        out = np.zeros((n, q.shape[1]), F)
        for block in range(0, end, 512):
            part = slice(block, min(block + 512, end))
            partial = wrap32(u[:, part] @ self.values[layer, kv, part])
            seen = block <= np.arange(start, end)
            out = np.where(seen[:, None], out + partial, out)
        return out * (b / total)[:, None]

    def _attend_one(
        self, layer: int, head: int, pos: int, plain: np.ndarray, q: np.ndarray
    ) -> np.ndarray:
        """One query head at one position, where the window has slid or pages are compressed.

        `plain` and `q` (n_heads, head_dim) are the queries before and after RoPE: (head_dim,).
        """
        c = self.config
        kv = head // (c.n_heads // c.n_kv_heads)
        window = self.context - self.sinks
        first = max(pos + 1 - window, self.sinks) if pos >= self.context else 0
        seen = [*range(self.sinks), *range(first, pos + 1)] if first else list(range(pos + 1))
        k, v = self.keys[layer, kv, seen], self.values[layer, kv, seen]
        ks, vs = self.key_scales[layer, kv, seen], self.value_scales[layer, kv, seen]
        # The queries that the positions are asked with: (len(seen), head_dim).
        asked = np.repeat(q[head][None], len(seen), axis=0)
        if first:
            steps = self.vectors[None, "rope_phase"].astype(np.uint64)
            sin, cos = sincos(((len(seen) - 1) * steps & np.uint64(0xFFFFFFFF))[None])
            asked[: self.sinks] = self._rope(plain[head][None, None], sin, cos)[0, 0]
        if self.cache == "int4":
            k, v, ks, vs = k.copy(), v.copy(), ks.copy(), vs.copy()
            for page in range(pos // PAGE):
                rows = [i for i, t in enumerate(seen) if t // PAGE == page]
                if not rows:
                    continue
                at, of = slice(page * PAGE, (page + 1) * PAGE), [seen[i] % PAGE for i in rows]
                codes, channels = compress_keys(
                    self.keys[layer, kv, at], self.key_scales[layer, kv, at]
                )
                k[rows], ks[rows] = codes[of], F(1)
                asked[rows] = asked[rows] * channels
                codes, scales = compress_values(
                    self.values[layer, kv, at], self.value_scales[layer, kv, at]
                )
                v[rows], vs[rows] = codes[of], scales[of]
        to_powers = rsqrt(F(c.head_dim)) * LOG2_E
        out = np.zeros(c.head_dim, F)
        if self.cache == "f32":
            p, total = self._weights(dot(asked, k)[None] * to_powers, len(seen) - 1)
            for weight, value in zip(p[0].astype(F), v, strict=True):
                out = out + weight * value
            return out * (F(1) / total[0])
        codes, scale = quantize(asked)
        dots = wrap32((codes * k).sum(axis=-1))
        p, total = self._weights((dots * (ks * (scale * to_powers)))[None], len(seen) - 1)
        b = vs.max() * F(32769)
        u = np.rint(p[0].astype(F) * (vs * (F(0) if b == 0 else F(1) / b))).astype(np.float64)
        for block in range(0, len(seen), 512):
            out = out + wrap32(u[block : block + 512] @ v[block : block + 512])
        return out * (b / total[0])

    def _attend_f32(self, layer: int, kv: int, q: np.ndarray, start: int) -> np.ndarray:
        end = start + q.shape[0]
        s = dot(q[:, None], self.keys[layer, kv, None, :end])
        s = s * (rsqrt(F(self.config.head_dim)) * LOG2_E)
        p, total = self._weights(s, start)
        weights = p.astype(F)
        out = np.zeros_like(q)
        for t in range(end):
            seen = (t <= np.arange(start, end))[:, None]
            out = np.where(seen, out + weights[:, t, None] * self.values[layer, kv, t], out)
        return out * (F(1) / total)[:, None]


VECTORS = ("attn_norm", "ffn_norm", "output_norm", "rope_phase")


# Sampling


class SplitMix64:
    """Steele, Lea and Flood's generator (2014), in Python's integers."""

    def __init__(self, seed: int) -> None:
        self.state = seed & MASK64

    def draw(self) -> int:
        """The next 64 bits."""
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK64
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK64
        return z ^ (z >> 31)


def penalized(logits: np.ndarray, recent: list[int], penalty: float) -> np.ndarray:
    """Logits after the repetition penalty, as float32 with minus infinity for NaN."""
    out = np.where(np.isnan(logits), F(-np.inf), logits).astype(F)
    r = F(penalty)
    with np.errstate(over="ignore"):
        for token in set(recent) if r != 1 else ():
            out[token] = out[token] / r if out[token] > 0 else out[token] * r
    return out


def shares(
    logits: np.ndarray,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
) -> list[int]:
    """The share of each token in a draw, after the penalty; temperature is at least 0.001."""
    best = logits.max()
    with np.errstate(over="ignore", invalid="ignore"):
        # Infinity less infinity is taken as 0: the best have the whole share, whatever they are.
        d = np.where(logits == best, F(0), (logits - best) * (LOG2_E / F(temperature)))
    p = [int(v) for v in exp2q(d)]
    falling = sorted(p, reverse=True)
    floor = 1  # "above 0"
    if top_k:
        floor = max(floor, falling[min(top_k, len(p)) - 1])
    left = [v for v in falling if v >= floor]
    if F(top_p) != 1:
        part = int(Fraction(float(F(top_p))) * 65536)
        # At least 1: of the smallest top_p, the best still stay.
        target = max(1, (sum(left) * part) >> 16)
        for tau in sorted(set(left), reverse=True):
            if sum(v for v in left if v >= tau) >= target:
                floor = max(floor, tau)
                break
    if F(min_p) != 0:
        floor = max(floor, int(Fraction(float(F(min_p))) * 2**30))
    return [v if v >= floor else 0 for v in p]


def sample(
    logits: np.ndarray,
    rng: SplitMix64,
    recent: list[int],
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    repeat_penalty: float = 1.0,
) -> int:
    """One token from the logits of one position; `recent` are the last tokens of the cache."""
    logits = penalized(logits, recent, repeat_penalty)
    if F(temperature) < F(0.001):
        return int(np.argmax(logits))
    weights = shares(logits, temperature, top_k, top_p, min_p)
    at = rng.draw() % sum(weights)
    for token, share in enumerate(weights):
        at -= share
        if at < 0:
            return token
    raise AssertionError("a draw lies below the sum")
