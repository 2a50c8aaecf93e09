"""`llm.metrics` and `llm.Limits`, on a simulated chip and with recorded traces of sensors."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import edge_llm.llm as llm
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from simulator import Chip, SlowModel, generator

MHZ = 1_000_000
TRACES = Path(__file__).resolve().parents[1] / "traces"


@pytest.fixture
def chip(monkeypatch: pytest.MonkeyPatch) -> Chip:
    return Chip().install(monkeypatch)


@pytest.fixture
def model(chip: Chip) -> SlowModel:
    return SlowModel(chip, 1e6, 100)


# --------------------------------------------------------------------------------------- figures


@pytest.mark.parametrize("n", [1, 2, 31, 32, 33, 100, 256, 257, 1000])
def test_percentiles_are_those_of_the_last_tokens(
    model: SlowModel, monkeypatch: pytest.MonkeyPatch, n: int
) -> None:
    rng = random.Random(n)
    model.noise = lambda: rng.uniform(0.5, 2)
    gen = generator(model, monkeypatch)
    metrics = llm.metrics(gen)
    took = []
    evaluate = model.eval

    def timed(tokens: Any) -> None:
        start = model.chip.us
        evaluate(tokens)
        took.append(model.chip.us - start)

    model.eval = timed  # type: ignore[method-assign]
    for _ in gen.generate("x", max_tokens=n + 1):
        model.chip.wait(rng.uniform(0, 50_000))  # the reader's time, which is not the model's
    figures = metrics.as_dict()
    last = took[1:][-256:]  # the first is the prompt
    for p in (50, 90, 99):
        want = np.percentile(last, p, method="inverted_cdf") / 1000
        assert figures[f"token_ms_p{p}"] == pytest.approx(want, abs=0.002), p
    assert figures["jitter_ms"] == pytest.approx(
        figures["token_ms_p99"] - figures["token_ms_p50"], abs=0.001
    )
    assert figures["tokens"] == n + 1


def test_prompts_and_tokens_apart(
    chip: Chip, model: SlowModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    gen = generator(model, monkeypatch)
    metrics = llm.metrics(gen)
    assert metrics.as_dict()["tokens_per_s"] == metrics.as_dict()["prefill_tokens_per_s"] == 0.0
    for _ in range(3):
        list(gen.generate("x", max_tokens=101))
        chip.wait(7e6)
    token_us = model.token_us(chip.hz)
    figures = metrics.as_dict()
    assert (figures["texts"], figures["prompt_tokens"], figures["tokens"]) == (3, 24, 303)
    assert figures["prefill_ms"] == pytest.approx(24 * token_us / 1000, abs=3)
    assert figures["first_token_ms"] == pytest.approx(8 * token_us / 1000, abs=1)
    assert figures["decode_ms"] == pytest.approx(300 * token_us / 1000, abs=3)
    assert figures["tokens_per_s"] == pytest.approx(1e6 / token_us, rel=0.01)
    assert figures["prefill_tokens_per_s"] == pytest.approx(1e6 / token_us, rel=0.05)
    # In the middle of a text it counts too.
    pieces = gen.generate("x", max_tokens=100)
    for _ in range(51):
        next(pieces)
    assert metrics.as_dict()["tokens"] == 354
    assert metrics.as_dict()["decode_ms"] == pytest.approx(350 * token_us / 1000, abs=3)
    pieces.close()
    assert metrics.as_dict()["tokens"] == 354
    metrics.detach()
    metrics.detach()
    list(gen.generate("x", max_tokens=100))
    assert metrics.as_dict()["texts"] == 4


def test_memory_and_cache(chip: Chip, model: SlowModel, monkeypatch: pytest.MonkeyPatch) -> None:
    used = iter([5000, 9000, 7000])
    monkeypatch.setattr(llm.hal, "mem_used", lambda: next(used))
    model.context = 1000
    gen = generator(model, monkeypatch)
    metrics = llm.metrics(gen)
    for peak in (5000, 9000, 9000):
        list(gen.generate("x", max_tokens=93))
        figures = metrics.as_dict()
        assert figures["heap_peak"] == peak
    assert (figures["kv_used"], figures["kv_share"]) == (400, 0.1)
    assert figures["model_ram"] == 1000


@pytest.mark.parametrize("governed", [True, False])
def test_energy_is_power_times_residency(
    chip: Chip, model: SlowModel, monkeypatch: pytest.MonkeyPatch, governed: bool
) -> None:
    power = {80: 116, 160: 180, 240: 239}
    governor = llm.Governor(min_tps=100) if governed else None
    gen = generator(model, monkeypatch, governor=governor)
    list(gen.generate("x", max_tokens=200))  # before measuring: does not count
    metrics = llm.metrics(gen, power=power)
    before = chip.us
    joules, last = 0.0, before

    def wait(us: float) -> None:
        nonlocal joules
        chip.us += us
        joules += us / 1e6 * power[chip.hz // MHZ] / 1000

    chip.wait = wait  # type: ignore[method-assign]
    list(gen.generate("x", max_tokens=2000))
    figures = metrics.as_dict()
    assert figures["energy_mj"] == pytest.approx(joules * 1000, rel=0.01)
    assert figures["energy_mj_per_token"] == pytest.approx(joules / 2, rel=0.01)
    assert sum(figures["residency_ms"].values()) == pytest.approx((chip.us - before) / 1000, abs=9)
    assert set(figures["residency_ms"]) == ({"80", "160", "240"} if governed else {"240"})
    assert last == before
    metrics.power = {80: 116}  # a clock of which nothing is known
    assert metrics.as_dict()["energy_mj"] is None


def test_temperature_and_its_rise(
    chip: Chip, model: SlowModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    gen = generator(model, monkeypatch)
    metrics = llm.metrics(gen, temperature=lambda: 30 + chip.us / 1e6 * 0.05)
    assert metrics.as_dict()["temperature"] is None
    list(gen.generate("x", max_tokens=20_000))
    figures = metrics.as_dict()
    assert figures["temperature"] == pytest.approx(30 + chip.us / 1e6 * 0.05, abs=0.2)
    assert figures["temperature_per_min"] == pytest.approx(3, rel=0.001)


def test_json_lines(chip: Chip, model: SlowModel, monkeypatch: pytest.MonkeyPatch) -> None:
    gen = generator(model, monkeypatch, governor=llm.Governor())
    metrics = llm.metrics(gen)

    class Stream:
        data = b""

        def write(self, data: bytes) -> int:
            self.data += data[:5]
            return min(5, len(data))

    stream = Stream()
    for _ in range(2):
        list(gen.generate("x", max_tokens=40))
        metrics.emit(stream)
    lines = stream.data.decode().splitlines()
    assert len(lines) == 2 and json.loads(lines[1]) == metrics.as_dict()


def test_prometheus_reads_the_page(
    chip: Chip, model: SlowModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    governor = llm.Governor(min_tps=100, power={80: 116, 160: 180, 240: 239})
    gen = generator(model, monkeypatch, governor=governor)
    metrics = llm.metrics(gen, temperature=lambda: 41.5)
    for tokens in (0, 500):
        if tokens:
            list(gen.generate("x", max_tokens=tokens))
        page = metrics.prometheus()
        families = list(text_string_to_metric_families(page))
        samples = {
            (sample.name, *sample.labels.values()): sample.value
            for family in families
            for sample in family.samples
        }
        assert all(family.documentation and family.type != "unknown" for family in families)
        assert len({family.name for family in families}) == len(families)
        figures = metrics.as_dict()
        assert samples["llm_tokens_total",] == tokens == figures["tokens"]
        if not tokens:
            assert not any(name == "llm_token_seconds" for name, *_ in samples)
            continue
        assert samples["llm_temperature_celsius",] == 41.5
        for p in (50, 90, 99):
            want = figures[f"token_ms_p{p}"] / 1000
            assert samples["llm_token_seconds", str(p / 100)] == pytest.approx(want)
        for mhz, ms in figures["residency_ms"].items():
            assert samples["llm_clock_seconds_total", mhz] == pytest.approx(ms / 1000)
        assert samples["llm_energy_joules_total",] == pytest.approx(figures["energy_mj"] / 1000)
        kinds = {family.name: family.type for family in families}
        assert kinds["llm_tokens"] == "counter" and kinds["llm_token_seconds"] == "summary"


# ---------------------------------------------------------------------------------------- limits


class Clock:
    """Time for Limits alone."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ms = 0
        monkeypatch.setattr(llm.hal, "ticks_ms", lambda: self.ms)


def test_a_limit_fires_once_a_period_and_is_undone_step_by_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    limits = llm.Limits()
    value: float | None = 0
    log: list[Any] = []
    limits.add(
        "x",
        lambda: value,
        above=10,
        back=5,
        act=lambda: log.append((clock.ms, "act")),
        undo=lambda: log.append((clock.ms, "undo")),
        again=3,
    )
    limits.on_event(lambda event: log.append((event["over"], event["steps"])))

    def during(seconds: int) -> list[Any]:
        log.clear()
        for _ in range(seconds * 10):
            clock.ms += 100
            limits.check()
        return log

    value = 10
    assert during(20) == []
    value = 10.5
    during(7)
    assert [entry for entry in log if entry[1] == "act"] == [
        (20100, "act"),
        (23100, "act"),
        (26100, "act"),
    ]
    assert [entry for entry in log if isinstance(entry[0], bool)] == [(True, n) for n in (1, 2, 3)]
    value = 7  # neither
    assert during(20) == []
    value = None  # the sensor says nothing
    assert during(20) == []
    value = 5
    during(20)
    assert [entry[1] for entry in log if isinstance(entry[1], str)] == ["undo"] * 3
    assert [entry for entry in log if isinstance(entry[0], bool)] == [
        (False, n) for n in (2, 1, 0)
    ]
    assert limits.fired == 6


def test_what_can_do_no_more_is_no_event(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    limits = llm.Limits()
    left = 2

    def act() -> bool:
        nonlocal left
        left -= 1
        return left >= 0

    limits.add("x", lambda: 1, below=2, act=act, again=1)
    for _ in range(50):
        clock.ms += 1000
        limits.check()
    assert limits.fired == 2


def test_failing_callbacks_do_not_end_a_text(
    chip: Chip, model: SlowModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    gen = generator(model, monkeypatch)
    metrics = llm.metrics(gen, temperature=lambda: 99)
    heard: list[Any] = []

    def fails(*args: Any) -> None:
        raise RuntimeError("of the user")

    metrics.limits.on_event(fails)
    metrics.limits.on_event(heard.append)
    metrics.limit("temperature", above=50, act=fails, undo=fails)
    metrics.limits.add("broken", fails, above=1)
    assert len(list(gen.generate("x", max_tokens=2000))) == 2000
    assert [event["event"] for event in heard] == ["temperature"]
    assert str(metrics.limits.error) == "of the user"

    def interrupted(event: Any) -> None:
        raise KeyboardInterrupt

    metrics.limits.on_event(interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(gen.generate("x", max_tokens=20_000))
    metrics.limits._callbacks.pop()
    assert len(list(gen.generate("x", max_tokens=20))) == 20


def test_a_callback_may_make_text_itself(
    chip: Chip, model: SlowModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    gen = generator(model, monkeypatch)
    metrics = llm.metrics(gen, temperature=lambda: 99)
    other = llm.Generator(SlowModel(chip, 1e6, 0), seed=0)
    other._watchers.append(metrics)
    depth = deepest = 0

    def tells(event: Any) -> None:
        nonlocal depth, deepest
        depth += 1
        deepest = max(deepest, depth)
        list(other.generate("x", max_tokens=3000))  # more than a second of it
        depth -= 1

    metrics.limits.on_event(tells)
    metrics.limit("temperature", above=50, again=2)
    list(gen.generate("x", max_tokens=3000))
    assert deepest == 1 and metrics.limits.fired > 1 and metrics.limits.error is None


def test_a_full_cache_is_compressed(
    chip: Chip, model: SlowModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.context = 20_000
    calls = []
    model.compress = lambda: calls.append(model.n_tokens)  # type: ignore[attr-defined]
    gen = generator(model, monkeypatch)
    metrics = llm.metrics(gen)
    metrics.limit("kv_share", above=0.85, back=0.75)
    events: list[Any] = []
    metrics.limits.on_event(events.append)
    list(gen.generate("x", max_tokens=20_000))
    assert len(calls) == 2 and calls[0] == pytest.approx(17_000, abs=300)
    list(gen.generate("x", max_tokens=10))  # the cache is nearly empty again
    chip.wait(1e7)
    list(gen.generate("x", max_tokens=10))
    assert [event["over"] for event in events] == [True, True, False]


def test_jitter_steps_down(chip: Chip, model: SlowModel, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(1)
    calm = True
    model.noise = lambda: 1 if calm or rng.random() < 0.95 else 9
    gen = generator(model, monkeypatch, governor=llm.Governor("performance"))
    metrics = llm.metrics(gen)
    metrics.limit("jitter_ms", above=20, back=5)
    list(gen.generate("x", max_tokens=1000))
    assert metrics.limits.fired == 0
    calm = False
    clocks = [chip.hz // MHZ for _ in gen.generate("x", max_tokens=1500)]
    assert set(clocks) >= {240, 160} and metrics.limits.fired >= 1
    calm = True
    list(gen.generate("x", max_tokens=9000))
    assert [chip.hz // MHZ for _ in gen.generate("x", max_tokens=10)] == [240] * 10


@pytest.mark.parametrize(
    ("error", "arguments"),
    [
        ("either above or below", {"above": 1, "below": 1}),
        ("either above or below", {}),
        ("beyond the limit", {"above": 1, "back": 2}),
        ("beyond the limit", {"below": 1, "back": 0}),
    ],
)
def test_bad_limits(error: str, arguments: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=error):
        llm.Limits().add("x", lambda: 0, **arguments)


def test_bad_settings(model: SlowModel, monkeypatch: pytest.MonkeyPatch) -> None:
    gen = generator(model, monkeypatch)
    for window in (0, 16, 100, 8192):
        with pytest.raises(ValueError, match="window"):
            llm.metrics(gen, window=window)
    with pytest.raises(ValueError, match="name"):
        llm.metrics(gen).limit("colour", above=1)


# ------------------------------------------------------------------------------ recorded sensors


def trace(name: str) -> Callable[[float], float]:
    """A trace of tests/traces: lines of seconds and a figure. Gives the last one before a time."""
    rows = np.loadtxt(TRACES / name, delimiter=",", skiprows=1)
    return lambda seconds: float(rows[max(0, np.searchsorted(rows[:, 0], seconds) - 1), 1])


def test_a_warm_day(chip: Chip, model: SlowModel, monkeypatch: pytest.MonkeyPatch) -> None:
    celsius = trace("warm-day.csv")
    model.compute, model.memory_us = 20e6, 100_000
    gen = generator(model, monkeypatch, governor=llm.Governor("performance"))
    metrics = llm.metrics(gen, temperature=lambda: celsius(chip.us / 1e6))
    metrics.limit("temperature", above=70, back=62, again=20)
    events: list[tuple[float, Any]] = []
    metrics.limits.on_event(lambda event: events.append((chip.us / 1e6, event)))
    hz_of = [(chip.us / 1e6, chip.hz // MHZ) for _ in gen.generate("x", max_tokens=3000)]
    # Whenever the trace has been above the limit for two seconds a step has been taken, and none
    # is taken back before it is below 62: seen from the trace alone.
    for seconds, event in events:
        shown = celsius(seconds)
        assert shown > 68 if event["over"] else shown < 64, (seconds, event)
    steps = [event["steps"] for _, event in events]
    assert max(steps) == 2 and steps[-1] == 0
    assert all(abs(a - b) == 1 for a, b in zip([0, *steps], steps, strict=False))
    assert all(b - a > 19 for (a, _), (b, _) in zip(events, events[1:], strict=False))
    for seconds, mhz in hz_of[50:]:
        recent = [celsius(seconds - ago) for ago in range(3)]
        if min(recent) > 70:
            assert mhz < 240, seconds
    assert {mhz for _, mhz in hz_of} == {240, 160, 80}
    assert hz_of[-1][1] == 240 and math.isfinite(metrics.as_dict()["temperature_per_min"])


def test_a_cell_that_runs_down(
    chip: Chip, model: SlowModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    volts = trace("cell.csv")
    model.compute, model.memory_us = 20e6, 100_000
    governor = llm.Governor("performance", battery=lambda: volts(chip.us / 1e6))
    events: list[tuple[float, bool]] = []
    governor.limits.on_event(lambda event: events.append((chip.us / 1e6, event["over"])))
    gen = generator(model, monkeypatch, governor=governor)
    for _ in gen.generate("x", max_tokens=2500):
        seconds = chip.us / 1e6
        held = bool(events) and events[-1][1]
        assert chip.hz == (80 if held else 240) * MHZ
        if min(volts(seconds - ago) for ago in range(3)) > 3.01 and held:
            # It is let go ten seconds after it was taken, not before.
            assert seconds - events[-1][0] < 12
        if max(volts(seconds - ago) for ago in range(3)) < 2.9:
            assert held, seconds
    # Short dips of the trace are taken once each, its sag at the end for good.
    assert [over for _, over in events] == [True, False] * (len(events) // 2) + [True]
    assert 3 <= len(events) <= 9
