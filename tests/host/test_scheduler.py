"""Several texts at once on CPython: any mixture of them gives what each gives alone."""

from __future__ import annotations

import asyncio
from functools import cache
from pathlib import Path
from typing import Any

import edge_llm.engine
import edge_llm.llm as llm
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

VECTORS = Path(__file__).resolve().parents[1] / "vectors"


def load(**options: Any) -> llm.Model:
    return llm.load(VECTORS / "tiny-int4.llm", **options)


@cache
def alone(prompt: str, max_tokens: int, seed: int, context: int) -> tuple[str, tuple[int, ...]]:
    gen = llm.Generator(load(context=context), temperature=1.5, seed=seed)
    text = "".join(gen.generate(prompt, max_tokens=max_tokens))
    return text, tuple(gen.ids)


TEXTS = st.tuples(
    st.text("abc", max_size=24),  # the prompt
    st.integers(0, 60),  # max_tokens
    st.integers(0, 3),  # seed
    st.integers(0, 2),  # priority
    st.integers(0, 12),  # turns before it is submitted
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(TEXTS, min_size=1, max_size=9),
    st.integers(1, 5),
    st.sampled_from(["static", "paged"]),
    st.integers(5, 8),
)
def test_texts_are_those_that_each_writes_alone(
    texts: list[tuple[str, int, int, int, int]], sequences: int, kv: str, block: int
) -> None:
    context = 32  # which some go past
    model = load(context=context, sequences=sequences, kv=kv, block=block)
    jobs = []
    with llm.Scheduler(model) as scheduler:
        for prompt, max_tokens, seed, priority, wait in texts:
            for _ in range(wait):
                scheduler.step()
            gen = llm.Generator(model, temperature=1.5, seed=seed)
            jobs.append(scheduler.submit(gen, prompt, max_tokens=max_tokens, priority=priority))
        scheduler.run()
        assert scheduler.jobs == []
    for job, (prompt, max_tokens, seed, _, _) in zip(jobs, texts, strict=True):
        assert (job.read(), tuple(job.ids)) == alone(prompt, max_tokens, seed, context)
        assert job.stop_reason in ("max_tokens", "end")


def test_texts_share_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four texts of the same length take a quarter of the passes."""
    model = load(sequences=4)
    passes = []
    real = type(model).eval_batch

    def counted(self: llm.Model, sequences: list[Any], tokens: list[int]) -> None:
        passes.append(len(sequences))
        real(self, sequences, tokens)

    monkeypatch.setattr(type(model), "eval_batch", counted)
    with llm.Scheduler(model) as scheduler:
        for seed in range(4):
            gen = llm.Generator(model, temperature=0, seed=seed)
            scheduler.submit(gen, "ab", max_tokens=10)
        scheduler.run()
    assert max(passes) == 4
    assert sum(passes) == 4 * 9  # the first token of each comes from its prompt
    assert len(passes) <= 9 + 3  # they begin one after the other


def test_a_long_prompt_holds_nobody_up_for_more_than_a_block() -> None:
    model = load(sequences=2, block=4)
    with llm.Scheduler(model) as scheduler:
        first = scheduler.submit(llm.Generator(model, temperature=0), "ab", max_tokens=40)
        scheduler.step()
        second = scheduler.submit(llm.Generator(model, temperature=0), "abc" * 12, max_tokens=3)
        while second.sequence is None or isinstance(second.due, list):
            before = len(first.gen.ids), second.sequence.n_tokens if second.sequence else 0
            scheduler.step()
            assert len(first.gen.ids) == before[0] + 1
            assert second.sequence is not None
            assert second.sequence.n_tokens - before[1] <= 4
        scheduler.run()


def test_a_prompt_in_the_cache_is_not_evaluated_again() -> None:
    model = load(sequences=1)
    with llm.Scheduler(model) as scheduler:
        for prompt, evaluated in (("abcabcabc", None), ("abcabcabc", 1)):
            gen = llm.Generator(model, temperature=0)
            scheduler.submit(gen, prompt, max_tokens=2)
            scheduler.run()
            assert evaluated is None or gen._n_evaluated == evaluated


def test_the_event_loop_runs_between_turns() -> None:
    model = load(sequences=2)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    async def main() -> list[str]:
        other = asyncio.create_task(tick())
        with llm.Scheduler(model) as scheduler:
            jobs = [
                scheduler.submit(llm.Generator(model, temperature=0), "ab", max_tokens=10)
                for _ in range(2)
            ]
            await scheduler.arun()
        other.cancel()
        return [job.read() for job in jobs]

    texts = asyncio.run(main())
    assert texts[0] == texts[1] != ""
    assert ticks >= 9


def test_what_fails_for_one_text_ends_that_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pass that all share fails for one of them: the others go on, to the same texts."""
    model = load(context=32, sequences=3)
    bad = []
    batch, one = type(model).eval_batch, edge_llm.engine.Sequence.eval

    def eval_batch(self: llm.Model, sequences: list[Any], tokens: list[int]) -> None:
        if any(sequence in bad and sequence.n_tokens > 9 for sequence in sequences):
            raise MemoryError("nothing left")
        batch(self, sequences, tokens)

    def eval(self: Any, tokens: Any) -> None:
        if self in bad and self.n_tokens > 9:
            raise MemoryError("nothing left")
        one(self, tokens)

    monkeypatch.setattr(type(model), "eval_batch", eval_batch)
    monkeypatch.setattr(edge_llm.engine.Sequence, "eval", eval)
    with llm.Scheduler(model) as scheduler:
        generators = [llm.Generator(model, temperature=1.5, seed=seed) for seed in range(3)]
        jobs = [scheduler.submit(gen, "ab", max_tokens=40) for gen in generators]
        scheduler.step()
        bad.append(jobs[1].sequence)
        scheduler.run()
    assert [job.stop_reason == "error" for job in jobs] == [False, True, False]
    for seed, job in enumerate(jobs):
        text, ids = alone("ab", 40, seed, 32)
        read = job.read()
        assert read == text[: len(read)] and tuple(job.ids) == ids[: len(job.ids)]
        assert (len(job.ids) == len(ids)) == (seed != 1)
    with pytest.raises(MemoryError, match="nothing left"):
        jobs[1].read()
