"""The engine against the oracles: the float one closely, the one of the arithmetic bit for bit."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from edge_llm import engine
from edge_llm.convert import convert
from edge_llm.image import Config, Dtype, Tensor
from edge_llm.importers import open_model
from edge_llm.tiles import GROUP_SIZE, Quantized, n_groups, pack
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle import Oracle
from oracle_float import Checkpoint, FloatModel, Vocabulary, read_checkpoint
from oracle_image import read_image
from oracle_models import make_image, random_planes

STORIES = Path(__file__).resolve().parents[3] / "shared" / "models" / "stories260K"
needs_stories = pytest.mark.skipif(
    not STORIES.exists(), reason="../shared/models/stories260K is absent"
)
MIXED = (Dtype.F32, Dtype.INT8, Dtype.INT4)


def logits_of(model: engine.Model, parts: Sequence[int | Sequence[int]]) -> np.ndarray:
    """Logits after each of `parts` (a token or several), (len(parts), vocab_size)."""
    rows = []
    for part in parts:
        model.eval(part)
        rows.append(np.frombuffer(model.logits(), np.float32))
    return np.array(rows)


def assert_same_bits(got: np.ndarray, expected: np.ndarray) -> None:
    """Equal in every bit, and otherwise a message with the first difference."""
    assert got.shape == expected.shape and got.dtype == expected.dtype == np.float32
    differ = got.view(np.uint32) != expected.view(np.uint32)
    if differ.any():
        at = tuple(int(i) for i in np.argwhere(differ)[0])
        pytest.fail(
            f"{differ.sum()} of {differ.size} logits differ, first at (position, token) {at}: "
            f"{float(got[at])!r} instead of {float(expected[at])!r}"
        )


def splits(n: int, seed: int) -> list[int]:
    """`n` cut into random parts, small and large."""
    rng = random.Random(seed)
    parts = []
    while n:
        parts.append(min(n, rng.choice([1, 1, 2, 3, 5, 7, 8, 9, 16, 17, 31])))
        n -= parts[-1]
    return parts


# stories260K


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return read_checkpoint(STORIES / "stories260K.bin")


@pytest.fixture(scope="module")
def prompt() -> list[int]:
    return Vocabulary(STORIES / "tok512.bin").encode("Once upon a time")


@pytest.fixture(scope="module")
def story(checkpoint: Checkpoint, prompt: list[int]) -> list[int]:
    """The prompt and 200 greedy tokens of the float oracle."""
    return prompt + FloatModel(checkpoint).greedy(prompt, 200)


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """stories260K as images."""
    folder = tmp_path_factory.mktemp("stories")
    images = {}
    for quantize in ("f32", "int8", "int4"):
        path = folder / f"{quantize}.llm"
        convert(open_model(STORIES), path, quantize)
        images[quantize] = path.read_bytes()
    return images


@needs_stories
def test_f32_is_the_story_of_the_checkpoint(
    stories: dict[str, bytes], checkpoint: Checkpoint, prompt: list[int], story: list[int]
) -> None:
    model = engine.Model(stories["f32"])
    assert model.cache == "f32"
    assert model.encode("Once upon a time") == prompt
    greedy = engine.Sampler(temperature=0)
    model.eval(prompt)
    for expected in story[len(prompt) :]:
        token = model.sample(greedy)
        assert token == expected, f"at position {model.n_tokens}"
        model.eval(token)
    assert model.tokens() == story


@needs_stories
def test_f32_logits_are_those_of_the_checkpoint(
    stories: dict[str, bytes], checkpoint: Checkpoint, story: list[int]
) -> None:
    got = logits_of(engine.Model(stories["f32"]), story)
    assert np.abs(got - FloatModel(checkpoint).forward(story)).max() < 1e-3


@needs_stories
@pytest.mark.parametrize("kernels", engine.kernels())
@pytest.mark.parametrize("cache", ["int8", "f32"])
@pytest.mark.parametrize("quantize", ["f32", "int8", "int4"])
def test_stories_bit_for_bit(
    stories: dict[str, bytes], story: list[int], quantize: str, cache: str, kernels: str
) -> None:
    raw = stories[quantize]
    got = logits_of(engine.Model(raw, cache=cache, kernels=kernels), story[:64])
    assert_same_bits(got, Oracle(read_image(raw), cache=cache).forward(story[:64]))


@needs_stories
@pytest.mark.parametrize("block", range(1, 17))
@pytest.mark.parametrize("quantize", ["f32", "int4"])
def test_blocks_change_nothing(
    stories: dict[str, bytes], story: list[int], quantize: str, block: int
) -> None:
    """Any block size and any split of the prompt end in the logits of one token at a time."""
    raw = stories[quantize]
    single = logits_of(engine.Model(raw), story)
    model = engine.Model(raw, block=block)
    assert model.block == block
    sizes = splits(len(story), block)
    ends = np.cumsum(sizes)
    parts = [story[end - size : end] for size, end in zip(sizes, ends, strict=True)]
    assert_same_bits(logits_of(model, parts), single[ends - 1])
    model.rewind(0)
    assert_same_bits(logits_of(model, [story]), single[-1:])


@needs_stories
def test_two_models_do_not_disturb_each_other(stories: dict[str, bytes], story: list[int]) -> None:
    tokens = {"int4": story[:50], "int8": story[50:100], "f32": story[25:75]}
    alone = {name: logits_of(engine.Model(stories[name]), tokens[name]) for name in tokens}
    models = {name: engine.Model(stories[name], context=50) for name in tokens}
    twin = engine.Model(stories["int4"], cache="f32")  # over the same bytes
    together: dict[str, list[np.ndarray]] = {name: [] for name in tokens}
    for i in range(50):
        for name, model in models.items():
            together[name].append(logits_of(model, [tokens[name][i]])[0])
        twin.eval(tokens["f32"][i])
    for name in tokens:
        assert_same_bits(np.array(together[name]), alone[name])


@needs_stories
@pytest.mark.parametrize("quantize", ["f32", "int4"])
def test_rewind_and_go_on(stories: dict[str, bytes], story: list[int], quantize: str) -> None:
    model = engine.Model(stories[quantize])
    whole = logits_of(model, story[:100])
    for keep in (99, 40, 1, 0):
        model.rewind(keep)
        assert model.n_tokens == keep and model.tokens() == story[:keep]
        model.eval(story[100:108])  # another way first
        model.rewind(keep)
        assert_same_bits(logits_of(model, story[keep:100]), whole[keep:])


# Models with random weights


def compare(
    raw: bytes,
    tokens: list[int],
    cache: str | None = None,
    block: int = 0,
    kernels: str | None = None,
) -> None:
    """Engine and oracle, one token at a time and in blocks."""
    model = engine.Model(raw, context=len(tokens), cache=cache, block=block, kernels=kernels)
    expected = Oracle(read_image(raw), context=len(tokens), cache=cache).forward(tokens)
    assert_same_bits(logits_of(model, tokens), expected)
    model.rewind(0)
    sizes = splits(len(tokens), len(tokens))
    ends = np.cumsum(sizes)
    parts = [tokens[end - size : end] for size, end in zip(sizes, ends, strict=True)]
    assert_same_bits(logits_of(model, parts), expected[ends - 1])


@pytest.mark.parametrize("kernels", engine.kernels())
@pytest.mark.parametrize("dtype", [*MIXED, None], ids=["f32", "int8", "int4", "mixed"])
@pytest.mark.parametrize("ratio", [1, 2, 4])
@pytest.mark.parametrize("head_dim", [2, 6, 8, 16, 32, 64])
def test_random_models(
    tmp_path: Path, head_dim: int, ratio: int, dtype: Dtype | None, kernels: str
) -> None:
    """Every head size and ratio; rows no multiple of 4, columns no multiple of 32."""
    seed = head_dim * 8 + ratio
    rng = random.Random(seed)
    config = Config(
        vocab_size=rng.randrange(30, 80),
        dim=rng.randrange(9, 70),
        hidden_dim=rng.randrange(33, 130),
        n_layers=2,
        n_heads=2 * ratio,
        n_kv_heads=2,
        head_dim=head_dim,
        context=64,
        rope=1 + seed % 2,
        tied=rng.random() < 0.5,
    )
    choose = dtype if dtype is not None else lambda name, layer: rng.choice(MIXED)
    raw = make_image(tmp_path / "random.llm", config, choose, random_planes(seed))
    tokens = [rng.randrange(config.vocab_size) for _ in range(24)]
    for cache in ("int8", "f32"):
        compare(raw, tokens, cache, kernels=kernels)


@pytest.mark.parametrize("head_dim", [128, 510, 512])
@pytest.mark.parametrize("rope", [1, 2])
def test_large_heads(tmp_path: Path, head_dim: int, rope: int) -> None:
    config = Config(20, 24, 40, 1, 2, 1, head_dim, 16, rope=rope)
    raw = make_image(tmp_path / "large.llm", config, Dtype.INT4, random_planes(head_dim))
    for cache in ("int8", "f32"):
        compare(raw, list(range(16)), cache)


@st.composite
def configs(draw: st.DrawFn) -> Config:
    """Any small model."""
    n_kv_heads = draw(st.integers(1, 3))
    return Config(
        vocab_size=draw(st.integers(1, 70)),
        dim=draw(st.integers(1, 100)),
        hidden_dim=draw(st.integers(1, 140)),
        n_layers=draw(st.integers(1, 3)),
        n_heads=n_kv_heads * draw(st.sampled_from([1, 2, 4])),
        n_kv_heads=n_kv_heads,
        head_dim=2 * draw(st.integers(1, 32)),
        context=draw(st.integers(40, 100)),
        norm_eps=draw(st.sampled_from([1e-5, 1e-6, 1e-3, 1.0])),
        rope=draw(st.sampled_from([1, 2])),
        tied=draw(st.booleans()),
    )


@settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    config=configs(),
    cache=st.sampled_from(["int8", "f32", None]),
    block=st.integers(0, 16),
    n=st.integers(1, 40),
    seed=st.integers(0, 1000),
)
def test_any_model(
    tmp_path: Path, config: Config, cache: str | None, block: int, n: int, seed: int
) -> None:
    rng = random.Random(seed)

    def choose(name: str, layer: int | None) -> Dtype:
        return rng.choice(MIXED)

    raw = make_image(tmp_path / "any.llm", config, choose, random_planes(seed))
    compare(raw, [rng.randrange(config.vocab_size) for _ in range(n)], cache, block)


@pytest.mark.parametrize("cache", ["int8", "f32"])
@pytest.mark.parametrize("n", [511, 512, 513, 1100])
def test_past_512_positions(tmp_path: Path, n: int, cache: str) -> None:
    """The values are summed in blocks of 512 positions, whose sums are added as floats."""
    config = Config(40, 24, 40, 2, 4, 2, 6, 1100)
    raw = make_image(tmp_path / "long.llm", config, Dtype.INT4, random_planes(n))
    rng = random.Random(n)
    compare(raw, [rng.randrange(40) for _ in range(n)], cache)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("dtype", "code", "hidden_dim"),
    [(Dtype.INT8, -128, 1040), (Dtype.INT4, -8, 16384)],
    ids=["int8", "int4"],
)
def test_accumulator_at_its_limit(
    tmp_path: Path, dtype: Dtype, code: int, hidden_dim: int, sign: int
) -> None:
    """The longest row of the most extreme codes, scales and activations fits 32 bits."""
    config = Config(5, 4, hidden_dim, 1, 1, 1, 2, 8)
    ordinary = random_planes(9)

    def planes(tensor: Tensor) -> tuple[np.ndarray, ...]:
        if tensor.name == "ffn_down":
            codes = np.full((4, n_groups(hidden_dim) * GROUP_SIZE), code, np.int8)
            codes[:, hidden_dim:] = 0
            scales = np.full((4, n_groups(hidden_dim)), 127 * sign, np.int8)
            matrix = Quantized(codes, scales, np.full(4, 1e-9, np.float32))
            return tuple(pack(matrix, dtype.bits))
        (values,) = ordinary(tensor)
        # All rows alike, so that every activation of ffn_down is the largest: code 127 or -127.
        if tensor.name in ("ffn_gate", "ffn_up"):
            values[:] = values[0]
        return (values,)

    def choose(name: str, layer: int | None) -> Dtype:
        return dtype if name == "ffn_down" else Dtype.F32

    raw = make_image(tmp_path / "limit.llm", config, choose, planes)
    compare(raw, [0, 1, 2, 3, 4])


def test_values_at_their_limit(tmp_path: Path) -> None:
    """A whole block of 512 equal weights and values of the largest codes fits 32 bits."""
    config = Config(3, 4, 4, 1, 2, 1, 4, 600)
    ordinary = random_planes(2)

    def planes(tensor: Tensor) -> tuple[np.ndarray, ...]:
        (values,) = ordinary(tensor)
        if tensor.name == "attn_q":
            values[:] = 0  # all positions weigh the same
        elif tensor.name == "attn_v":
            values[:] = values[0]  # all codes are 127 or -127
        return (values,)

    raw = make_image(tmp_path / "values.llm", config, Dtype.F32, planes)
    compare(raw, [1] * 600, cache="int8")


@pytest.mark.parametrize("cache", ["int8", "f32"])
@pytest.mark.parametrize(
    "name", ["token_embd", "attn_q", "attn_k", "attn_v", "ffn_gate", "ffn_up", "output_norm"]
)
def test_vectors_of_zeros(tmp_path: Path, name: str, cache: str) -> None:
    """They have the scale 0, and nothing is divided by it."""
    config = Config(6, 8, 12, 2, 2, 1, 4, 16)
    ordinary = random_planes(4)

    def planes(tensor: Tensor) -> tuple[np.ndarray, ...]:
        some = ordinary(tensor)
        return tuple(np.zeros_like(plane) for plane in some) if tensor.name == name else some

    raw = make_image(tmp_path / "zero.llm", config, Dtype.INT4, planes)
    compare(raw, [0, 1, 2, 3, 4, 5], cache)
    assert np.isfinite(logits_of(engine.Model(raw, cache=cache), [0, 1])).all()
