"""The cache: layouts, windows that slide, 4-bit pages, sequences and what they share."""

from __future__ import annotations

import random

import numpy as np
import pytest
from edge_llm import engine
from edge_llm.image import Config, Dtype
from oracle import Oracle
from oracle_image import read_image
from oracle_models import make_image, random_planes
from test_engine import assert_same_bits, logits_of, splits

VOCAB = 40


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A small model that was trained for 1,100 positions."""
    config = Config(VOCAB, 24, 40, 2, 4, 2, 6, 1100)
    path = tmp_path_factory.mktemp("cache") / "small.llm"
    return make_image(path, config, Dtype.INT4, random_planes(7))


def draw(n: int, seed: int) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(VOCAB) for _ in range(n)]


def in_parts(model: engine.Model, tokens: list[int], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits after random parts of `tokens`, and the index of the last token of each."""
    sizes = splits(len(tokens), seed)
    ends = np.cumsum(sizes)
    parts = [tokens[end - size : end] for size, end in zip(sizes, ends, strict=True)]
    return logits_of(model, parts), ends - 1


@pytest.mark.parametrize("kv", ["static", "paged"])
@pytest.mark.parametrize("cache", ["int8", "f32"])
@pytest.mark.parametrize("context", [1, 2, 7, 8, 20, 64, 65, 130])
def test_slides_as_the_oracle(raw: bytes, context: int, cache: str, kv: str) -> None:
    """Both layouts, one token at a time and in blocks, far past the context."""
    tokens = draw(2 * context + 20, context)
    oracle = Oracle(read_image(raw), context, cache, length=len(tokens))
    expected = oracle.forward(tokens)
    model = engine.Model(raw, context=context, cache=cache, kv=kv)
    assert model.kv == kv
    assert_same_bits(logits_of(model, tokens), expected)
    assert model.n_tokens == len(tokens)
    sinks = min(4, context // 2)
    assert model.tokens() == tokens[:sinks] + tokens[len(tokens) - (context - sinks) :]
    assert model.event() == ("slide", len(tokens) - context)
    assert model.event() is None
    model.rewind(0)
    got, at = in_parts(model, tokens, context)
    assert_same_bits(got, expected[at])


@pytest.mark.parametrize("kernels", engine.kernels())
@pytest.mark.parametrize("context", [100, 200])
def test_int4_as_the_oracle(raw: bytes, context: int, kernels: str) -> None:
    tokens = draw(context + 80, context)
    oracle = Oracle(read_image(raw), context, "int4", length=len(tokens))
    expected = oracle.forward(tokens)
    model = engine.Model(raw, context=context, cache="int4", kernels=kernels)
    assert (model.kv, model.cache) == ("paged", "int4")
    assert_same_bits(logits_of(model, tokens), expected)
    model.rewind(0)
    got, at = in_parts(model, tokens, context)
    assert_same_bits(got, expected[at])


@pytest.mark.parametrize("cache", ["int8", "int4"])
def test_values_are_summed_in_blocks_of_512_that_are_seen(raw: bytes, cache: str) -> None:
    tokens = draw(760, 5)
    oracle = Oracle(read_image(raw), 700, cache, length=len(tokens))
    expected = oracle.forward(tokens)
    model = engine.Model(raw, context=700, cache=cache)
    got, at = in_parts(model, tokens, 5)
    assert_same_bits(got, expected[at])


@pytest.mark.parametrize("cache", ["int8", "f32", "int4"])
@pytest.mark.parametrize("seed", range(6))
def test_sequences_do_not_disturb_each_other(raw: bytes, cache: str, seed: int) -> None:
    """Random interleavings of sequences, alone and in batches, forks and rewinds: each has the
    logits that its tokens have in a model of their own, in both layouts, before and after the
    window slides.
    """
    rng = random.Random(seed)
    context = rng.choice([20, 70, 130])
    kinds = ["paged"] if cache == "int4" else ["static", "paged"]
    models = [engine.Model(raw, context=context, cache=cache, kv=kv, sequences=4) for kv in kinds]
    alone = engine.Model(raw, context=context, cache=cache)
    # Of each sequence: one in each model, and its tokens.
    open_ones: list[tuple[list[engine.Model | engine.Sequence], list[int]]] = [(models, [])]

    def check(sequences: list[engine.Sequence], tokens: list[int]) -> None:
        alone.rewind(0)
        alone.eval(tokens)
        expected = bytes(alone.logits())
        for sequence in sequences:
            assert sequence.tokens() == alone.tokens() and sequence.n_tokens == len(tokens)
            assert bytes(sequence.logits()) == expected

    for _ in range(40):
        action = rng.choice(["open", "fork", "close", "eval", "eval", "eval", "batch", "rewind"])
        sequences, tokens = rng.choice(open_ones)
        if action == "open" and len(open_ones) < 5:
            open_ones.append(([model.sequence() for model in models], []))
        elif action == "fork" and len(open_ones) < 5:
            open_ones.append(([sequence.fork() for sequence in sequences], tokens[:]))
        elif action == "close" and sequences is not models:
            for sequence in sequences:
                sequence.close()
            open_ones.remove((sequences, tokens))
        elif action == "eval":
            more = [rng.randrange(VOCAB) for _ in range(rng.choice([1, 3, 20, 40]))]
            tokens += more
            for sequence in sequences:
                sequence.eval(more)
            check(sequences, tokens)
        elif action == "batch":
            some = rng.sample(open_ones, rng.randint(1, min(4, len(open_ones))))
            more = [rng.randrange(VOCAB) for _ in some]
            for i, model in enumerate(models):
                model.eval_batch([sequences[i] for sequences, _ in some], more)
            for (one, its_tokens), token in zip(some, more, strict=True):
                its_tokens.append(token)
                check(one, its_tokens)
        elif action == "rewind" and len(tokens) <= context:
            del tokens[rng.randint(0, len(tokens)) :]
            for sequence in sequences:
                sequence.rewind(len(tokens))
    for model in models:
        for sequences, _ in open_ones[1:]:
            for sequence in sequences:
                sequence.close()
        model.rewind(0)
        assert model.memory()["kv_used"] == 0


@pytest.mark.parametrize("cache", ["int8", "f32", "int4"])
def test_reuse_gives_the_same_bits(raw: bytes, cache: str) -> None:
    """A chain of prompts that share beginnings, some longer than the context."""
    rng = random.Random(3)
    fresh = engine.Model(raw, context=150, cache=cache)
    model = engine.Model(raw, context=150, cache=cache)
    tokens = draw(100, 3)
    saved = 0
    for _ in range(30):
        tokens = tokens[: rng.randint(0, len(tokens))] + draw(rng.randint(1, 40), rng.random())
        before = model.tokens()
        slid = model.n_tokens > 150
        same = model.reuse(tokens)
        common = 0
        while common < min(len(before), len(tokens) - 1) and before[common] == tokens[common]:
            common += 1
        assert same == (min(common, 4) if slid else common)
        saved += same
        model.eval(tokens[same:])
        fresh.rewind(0)
        fresh.eval(tokens)
        assert bytes(model.logits()) == bytes(fresh.logits())
        assert model.tokens() == fresh.tokens()
    assert saved > 500
