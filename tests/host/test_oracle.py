"""The oracles against each other, and against mathematics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import oracle
import pytest
from oracle_float import Checkpoint, FloatModel, Vocabulary, read_checkpoint
from oracle_image import Config, Image, Tensor, crc32c, shapes

SHARED = Path(__file__).resolve().parents[3] / "shared"
STORIES = SHARED / "models" / "stories260K"
needs_stories = pytest.mark.skipif(
    not STORIES.exists(), reason="../shared/models/stories260K is absent"
)
F = np.float32

# The first tokens of the best known continuation: what llama2.c writes at temperature 0.
STORY = (
    "Once upon a time, there was a little girl named Lily. She loved to play outside in the park."
)


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return read_checkpoint(STORIES / "stories260K.bin")


@pytest.fixture(scope="module")
def story(checkpoint: Checkpoint) -> list[int]:
    """BOS, "Once upon a time" and 200 greedy tokens."""
    prompt = Vocabulary(STORIES / "tok512.bin").encode("Once upon a time")
    return prompt + FloatModel(checkpoint).greedy(prompt, 200)


def rounded(values: np.ndarray, dtype: str) -> Tensor:
    """A matrix as the tensor of an image, by plain rounding."""
    rows, cols = values.shape
    if dtype == "f32":
        return Tensor("f32", rows, cols, values=values)
    top = 127 if dtype == "int8" else 7
    groups = np.pad(values, [(0, 0), (0, -cols % 32)]).reshape(rows, -1, 32)
    wanted = np.abs(groups).max(axis=-1) / top
    row_scales = np.maximum(wanted.max(axis=-1) / 127, 1e-20).astype(F)
    scales = np.ceil(wanted / row_scales[:, None]).clip(0, 127)
    step = (scales * row_scales[:, None])[..., None]
    codes = np.rint(groups / np.where(step == 0, 1, step)).clip(-top, top)
    codes = codes.reshape(rows, -1)[:, :cols]
    return Tensor(
        dtype, rows, cols, None, codes.astype(np.int8), scales.astype(np.int8), row_scales
    )


def as_image(c: Checkpoint, dtype: str) -> Image:
    """The checkpoint as an image in memory."""
    config = Config(
        c.vocab_size, c.dim, c.hidden_dim, c.n_layers, c.n_heads, c.n_kv_heads, c.head_dim,
        c.context, tied=c.output is None,
    )  # fmt: skip
    turns = 10000.0 ** (-2 * np.arange(c.head_dim // 2) / c.head_dim) / (2 * np.pi)
    phase = np.rint(turns * 2**32).astype(np.uint32)
    tensors = {}
    for (layer, name), shape in shapes(config).items():
        if name == "rope_phase":
            tensors[layer, name] = Tensor("u32", *shape, values=phase[None])
            continue
        values = getattr(c, name)
        values = (values if layer is None else values[layer]).reshape(shape)
        tensors[layer, name] = rounded(values, "f32" if name.endswith("norm") else dtype)
    return Image(config, tensors)


# The functions of docs/arithmetic.md


def test_crc32c_check_value() -> None:
    assert crc32c(b"123456789") == 0xE3069283


def test_rsqrt_error() -> None:
    v = np.exp(np.linspace(-60, 60, 100001)).astype(F)
    error = oracle.rsqrt(v).astype(np.float64) * np.sqrt(v.astype(np.float64)) - 1
    assert np.abs(error).max() < 5e-7


def test_exp2q_error_and_ends() -> None:
    d = -np.linspace(0, 31, 200001).astype(F)
    exact = np.exp2(d.astype(np.float64)) * 2**30
    got = oracle.exp2q(d)
    assert (np.abs(got - exact) <= 1 + exact * 3e-7).all()
    assert oracle.exp2q(np.array([0, -1, -30, -31, -1e9, -np.inf], F)).tolist() == [
        1 << 30, 1 << 29, 1, 0, 0, 0,
    ]  # fmt: skip


def test_sincos_error_over_the_circle() -> None:
    p = np.arange(0, 1 << 32, 65521, dtype=np.uint64).astype(np.uint32)
    angle = p.astype(np.float64) * (2 * np.pi / 2**32)
    sin, cos = oracle.sincos(p)
    assert np.abs(sin - np.sin(angle)).max() < 5e-7
    assert np.abs(cos - np.cos(angle)).max() < 5e-7


def test_silu_error() -> None:
    x = np.linspace(-30, 30, 100001).astype(F)
    exact = x.astype(np.float64) / (1 + np.exp(-x.astype(np.float64)))
    assert np.abs(oracle.silu(x) - exact).max() < 2e-6


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 31, 172])
def test_dot_adds_in_the_order_of_the_page(n: int) -> None:
    rng = np.random.default_rng(n)
    a, b = rng.standard_normal((2, n)).astype(F) * F(1000)
    lanes = [F(0)] * 8
    for i in range(n):
        lanes[i % 8] = lanes[i % 8] + a[i] * b[i]
    t = [lanes[j] + lanes[j + 4] for j in range(4)]
    expected = (t[0] + t[2]) + (t[1] + t[3])
    assert oracle.dot(a, b).tobytes() == expected.tobytes()


def test_quantize_kv_scale_is_bfloat16_and_large_enough() -> None:
    x = np.random.default_rng(0).standard_normal((1000, 8)).astype(F)
    x[0] = 0
    codes, scale = oracle.quantize_kv(x)
    assert not (scale.view(np.uint32) & 0xFFFF).any()
    assert not codes[0].any() and scale[0] == 0
    assert (np.abs(codes * scale[:, None] - x) <= scale[:, None] * 0.500001).all()
    assert (scale >= np.abs(x).max(axis=-1) / F(127)).all()


def test_wrap32() -> None:
    assert oracle.wrap32(np.array([2.0**31, -(2.0**31) - 1, 2.0**32 + 5])).tolist() == [
        F(-(2**31)), F(2**31 - 1), 5,
    ]  # fmt: skip


def test_splitmix64_published_sequence() -> None:
    rng = oracle.SplitMix64(1234567)
    assert [rng.draw() for _ in range(3)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


def test_shares_of_a_known_distribution() -> None:
    logits = np.log2(np.array([8, 4, 4, 2, 1], F)) / oracle.LOG2_E
    unit = 1 << 27
    whole = oracle.shares(logits)
    assert np.allclose(whole, [8 * unit, 4 * unit, 4 * unit, 2 * unit, unit], rtol=1e-5)
    kept = {
        (2, 1.0, 0.0): [0, 1, 2],  # the two that tie both stay
        (0, 0.4, 0.0): [0],
        (0, 0.5, 0.0): [0, 1, 2],
        (0, 1.0, 0.2): [0, 1, 2, 3],
        (4, 0.9, 0.3): [0, 1, 2],
        (9, 1.0, 0.0): [0, 1, 2, 3, 4],
    }
    for (top_k, top_p, min_p), expected in kept.items():
        some = oracle.shares(logits, top_k=top_k, top_p=top_p, min_p=min_p)
        assert [i for i, v in enumerate(some) if v] == expected


# The models


@needs_stories
def test_vocabulary_known_ids_and_way_back() -> None:
    vocabulary = Vocabulary(STORIES / "tok512.bin")
    ids = vocabulary.encode("Once upon a time")
    assert ids == [1, 403, 407, 261, 378]
    for text in ["Once upon a time", "  two  spaces ", "naïve 😀 漢字\n", ""]:
        assert vocabulary.decode(vocabulary.encode(text)) == text


@needs_stories
def test_float_oracle_writes_the_known_story(checkpoint: Checkpoint, story: list[int]) -> None:
    vocabulary = Vocabulary(STORIES / "tok512.bin")
    assert vocabulary.decode(story).startswith(STORY)


@needs_stories
def test_float32_and_float64_agree(checkpoint: Checkpoint, story: list[int]) -> None:
    prompt = story[:-200]
    single = FloatModel(checkpoint, np.float32)
    assert single.greedy(prompt, 200) == story[-200:]
    single.pos = 0
    double = FloatModel(checkpoint, np.float64).forward(story)
    assert np.abs(single.forward(story) - double).max() < 1e-4


@needs_stories
def test_arithmetic_agrees_with_the_float_oracle(checkpoint: Checkpoint, story: list[int]) -> None:
    exact = FloatModel(checkpoint).forward(story)
    got = oracle.Oracle(as_image(checkpoint, "f32"), cache="f32").forward(story)
    assert np.abs(got - exact).max() < 1e-4


def divergence(exact: np.ndarray, got: np.ndarray) -> float:
    """Mean Kullback-Leibler divergence of two sets of logits, in nats."""

    def log_softmax(v: np.ndarray) -> np.ndarray:
        v = v.astype(np.float64) - v.max(axis=-1, keepdims=True)
        return v - np.log(np.exp(v).sum(axis=-1, keepdims=True))

    a, b = log_softmax(exact), log_softmax(got)
    return float((np.exp(a) * (a - b)).sum(axis=-1).mean())


@needs_stories
@pytest.mark.parametrize(
    ("dtype", "cache", "limit"),
    [("f32", "int8", 0.003), ("int8", "f32", 0.003), ("int8", "int8", 0.005), ("int4", None, 0.3)],
)
def test_quantized_arithmetic_is_near(
    checkpoint: Checkpoint, story: list[int], dtype: str, cache: str | None, limit: float
) -> None:
    exact = FloatModel(checkpoint).forward(story)
    got = oracle.Oracle(as_image(checkpoint, dtype), cache=cache).forward(story)
    assert divergence(exact, got) < limit


@needs_stories
@pytest.mark.parametrize("cache", ["f32", "int8"])
def test_one_token_at_a_time_is_the_same(
    checkpoint: Checkpoint, story: list[int], cache: str
) -> None:
    image = as_image(checkpoint, "int4")
    whole = oracle.Oracle(image, cache=cache).forward(story[:40])
    single = oracle.Oracle(image, cache=cache)
    rows = [single.forward([token]) for token in story[:40]]
    assert np.concatenate(rows).tobytes() == whole.tobytes()


def test_both_rope_forms_are_one_up_to_order() -> None:
    """Permuting the rows of q and k turns one form into the other."""
    rng = np.random.default_rng(5)
    config = Config(11, 16, 24, 2, 4, 2, 8, 32)
    tensors = {}
    for key, shape in shapes(config).items():
        if key[1] == "rope_phase":
            phase = rng.integers(0, 1 << 32, shape, dtype=np.uint32)
            tensors[key] = Tensor("u32", *shape, values=phase)
        else:
            tensors[key] = Tensor("f32", *shape, values=rng.standard_normal(shape).astype(F))
    pairs = oracle.Oracle(Image(config, tensors), cache="f32").forward(list(range(11)))

    order = np.concatenate([np.arange(0, 8, 2), np.arange(1, 8, 2)])
    moved = dict(tensors)
    for layer in range(2):
        for name in ("attn_q", "attn_k"):
            old = tensors[layer, name]
            values = old.values.reshape(-1, 8, 16)[:, order].reshape(old.values.shape)
            moved[layer, name] = Tensor("f32", old.rows, old.cols, values=values)
    halves = Config(11, 16, 24, 2, 4, 2, 8, 32, rope=2)
    got = oracle.Oracle(Image(halves, moved), cache="f32").forward(list(range(11)))
    assert np.allclose(got, pairs, atol=1e-4)
