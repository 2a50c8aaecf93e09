"""Texts that go past the context with a summary of what has fallen out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import edge_llm.llm as llm
import pytest
from edge_llm.llm.summary import extract
from hypothesis import given
from hypothesis import strategies as st

VECTORS = Path(__file__).resolve().parents[1] / "vectors"

STORY = (
    "The dragon lived on a mountain. It was cold. The dragon loved the mountain more than gold. "
    'A knight came. "Go away!" said the dragon on the mountain. Rain fell. The knight lef'
)


def test_sentences_of_frequent_words_are_kept_in_their_order() -> None:
    assert extract(STORY, 34) == "The dragon lived on a mountain."
    assert extract(STORY, 80) == (
        'The dragon lived on a mountain. "Go away!" said the dragon on the mountain.'
    )
    assert extract("One two. One two. One two.", 100) == "" == extract("", 10)
    assert extract("Three words here. Three words here. Four words here", 40) == (
        "Three words here."
    )


@given(st.text("ab .!?\né漢word", max_size=200), st.integers(0, 120))
def test_an_extract_is_made_of_the_text_and_fits(text: str, size: int) -> None:
    result = extract(text, size)
    assert len(result) <= size
    assert all(word in text for word in result.split())


def load(**options: Any) -> llm.Model:
    return llm.load(VECTORS / "tiny-int4.llm", **({"context": 32} | options))


def bound(model: llm.Model, seed: int = 1, **settings: Any) -> llm.Generator:
    """A generator whose texts do not end by themselves."""
    gen = llm.Generator(model, temperature=1.0, seed=seed, **settings)
    return gen


def oracle(n: int, said: list[str], summary: str) -> list[int]:
    """The same with nothing but `eval` and `sample`, each context in a model of its own."""
    model = load()
    sampler = llm.hal.engine.Sampler(temperature=1.0, top_p=0.9, seed=1)
    cache = model.encode("abc")
    ids: list[int] = []
    while True:
        model.rewind(0)
        model.eval(cache)
        token = model.sample(sampler)
        if token in (model.bos_id, model.eos_id):
            return ids
        ids.append(token)
        if len(ids) == n:
            return ids
        if len(cache) >= 32:
            first = 1 if cache[0] == model.bos_id else 0
            middle = (32 + first) // 2
            said.append(llm.Tokenizer(model).decode(cache[first:middle]))
            cache = cache[:first] + model.encode(summary, False)[:8] + cache[middle:]
        cache.append(token)


@pytest.mark.parametrize("policy", ["slide", "error"])
def test_the_summary_takes_the_place_of_what_it_tells(policy: str) -> None:
    want: list[str] = []
    ids = oracle(120, want, "cab")
    assert len(want) >= 3  # a text that goes past the context several times
    told: list[str] = []

    def summarize(text: str) -> str:
        told.append(text)
        return "cab"

    model = load(policy=policy)
    gen = bound(model, summarize=summarize)
    text = "".join(gen.generate("abc", max_tokens=120))
    assert gen.ids == ids
    assert told == want
    assert model.n_tokens <= model.context
    assert model.event() is None  # nothing has slid

    # Streamed, computed in parts, and beside others: the same.
    gen = bound(load(policy=policy), summarize=summarize)
    pieces = list(gen._begin("abc", 120, None, False, True, ms=0))
    assert "".join(filter(None, pieces)) == text
    model = load(policy=policy, sequences=2)
    with llm.Scheduler(model) as scheduler:
        jobs = [
            scheduler.submit(bound(model, seed, summarize=summarize), "abc", max_tokens=120)
            for seed in (1, 2)
        ]
        scheduler.run()
    assert jobs[0].ids == ids and jobs[0].read() == text


def test_extracts_and_empty_summaries_go_on_as_well() -> None:
    for summarize in ("extract", lambda text: ""):
        gen = bound(load(), summarize=summarize)
        list(gen.generate("abc", max_tokens=200))
        assert gen.model.n_tokens <= gen.model.context


@pytest.mark.parametrize("summarize", ["extracts", 5, True])
def test_what_cannot_summarize_is_refused(summarize: object) -> None:
    with pytest.raises(ValueError, match="^summarize: must be None, 'extract' or a function$"):
        llm.Generator(load(), summarize=summarize)


def test_an_error_of_the_summary_leaves_the_model_usable() -> None:
    def summarize(text: str) -> str:
        raise OSError("no network")

    model = load()
    gen = bound(model, summarize=summarize)
    with pytest.raises(OSError, match="no network"):
        list(gen.generate("abc", max_tokens=200))
    gen = llm.Generator(model, temperature=0)
    again = llm.Generator(load(), temperature=0)
    assert list(gen.generate("ab", max_tokens=9)) == list(again.generate("ab", max_tokens=9))
