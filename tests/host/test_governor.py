"""`llm.Governor` on a simulated chip."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import edge_llm.llm as llm
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulator import Chip, SlowModel, Uart, generator

MHZ = 1_000_000
LEVELS = (80 * MHZ, 160 * MHZ, 240 * MHZ)


@pytest.fixture
def chip(monkeypatch: pytest.MonkeyPatch) -> Chip:
    return Chip().install(monkeypatch)


Make = Callable[..., tuple[Any, SlowModel, Any]]


@pytest.fixture
def make(chip: Chip, monkeypatch: pytest.MonkeyPatch) -> Make:
    """make(compute, memory_us, **settings of the governor) -> governor, model, generator"""

    def made(compute: float, memory_us: float, **gov: Any) -> tuple[Any, SlowModel, Any]:
        governor = llm.Governor(**gov)
        model = SlowModel(chip, compute, memory_us)
        return governor, model, generator(model, monkeypatch, governor=governor)

    return made


# ------------------------------------------------------------------------------------ the policies

COSTS = [
    (100e6, 0),  # all compute: 1.25, 0.625 and 0.417 s a token
    (20e6, 400_000),  # mostly memory: 650, 525 and 483 ms
    (2e6, 900_000),  # nearly all memory
    (1e6, 100),  # a small one: 12.6, 6.4 and 4.3 ms
]


@pytest.mark.parametrize(("compute", "memory_us"), COSTS)
@pytest.mark.parametrize("min_tps", [0.5, 1.1, 1.5, 1.9, 2.05, 5, 100, 200, 1000])
def test_deadline_finds_the_lowest_level_that_keeps_the_rate(
    chip: Chip, make: Make, compute: float, memory_us: float, min_tps: float
) -> None:
    governor, model, gen = make(compute, memory_us, min_tps=min_tps)
    pieces = gen.generate("x", max_tokens=400)
    clocks = [chip.hz for _ in pieces]
    budget = 1e6 / min_tps
    keeps = [hz for hz in LEVELS if model.token_us(hz) <= budget]
    keeps_easily = [hz for hz in LEVELS if model.token_us(hz) * 1.1 <= budget]
    # From above a level is taken when it does by a margin; from below when it does.
    good = {(keeps or LEVELS[-1:])[0], (keeps_easily or LEVELS[-1:])[0]}
    assert set(clocks[-100:]) <= good
    assert len(set(clocks[-100:])) == 1
    assert len(chip.changes()) <= 6, chip.changes()
    assert chip.hz == chip.found


def test_deadline_keeps_the_rate_that_was_asked_for(chip: Chip, make: Make) -> None:
    for compute, memory_us in COSTS:
        governor, model, gen = make(compute, memory_us, min_tps=1.1)
        list(gen.generate("x", max_tokens=5))
        start = chip.us
        list(gen.generate("x", max_tokens=400))
        reachable = 1e6 / model.token_us(LEVELS[-1])
        assert 400 / ((chip.us - start) / 1e6) >= min(1.1, reachable) * 0.97


def test_what_was_learned_is_used_at_once_by_the_next_text(chip: Chip, make: Make) -> None:
    governor, model, gen = make(20e6, 400_000, min_tps=1.1)
    list(gen.generate("x", max_tokens=60))
    clocks = []
    for _ in gen.generate("x", max_tokens=10):
        clocks.append(chip.hz)
    assert clocks == [LEVELS[0]] * 10
    # The prompt is done at the highest level.
    assert chip.changes()[-2:] == [LEVELS[0], LEVELS[2]]


def test_the_split_of_computing_and_memory_is_learned(chip: Chip, make: Make) -> None:
    governor, model, gen = make(20e6, 400_000, min_tps=1.5)
    assert governor.times() == dict.fromkeys(LEVELS, 0)
    list(gen.generate("x", max_tokens=60))
    for hz, us in governor.times().items():
        assert us == pytest.approx(model.token_us(hz), rel=0.01), hz


def test_noise_makes_no_flapping(chip: Chip, make: Make) -> None:
    rng = random.Random(1)
    for min_tps in (1.5, 1.6, 1.7, 2.3, 2.4, 2.5):
        governor, model, gen = make(100e6, 0, min_tps=min_tps)
        model.noise = lambda: rng.uniform(0.97, 1.03)
        before = len(chip.changes())
        list(gen.generate("x", max_tokens=1000))
        assert len(chip.changes()) - before <= 8, min_tps


def test_a_longer_queue_asks_for_more_and_a_shorter_for_less(chip: Chip, make: Make) -> None:
    queue = 1
    governor, model, gen = make(1e6, 100, min_tps=50, queue=lambda: queue)
    pieces = gen.generate("x", max_tokens=1000)
    settled = [chip.hz for _ in itertools.islice(pieces, 100)]
    assert settled[-1] == LEVELS[0]
    queue = 3
    assert next(i for i, _ in enumerate(pieces) if chip.hz > LEVELS[0]) < 8
    assert [chip.hz for _ in itertools.islice(pieces, 50)][-1] == LEVELS[1]
    queue = 0
    assert next(i for i, _ in enumerate(pieces) if chip.hz == LEVELS[0]) >= 4


def test_the_time_of_a_slow_reader_is_not_the_models(chip: Chip, make: Make) -> None:
    # 650 ms a token at the lowest level would do for 1.1 a second, but not with 300 ms of reading.
    governor, model, gen = make(20e6, 400_000, min_tps=1.1)
    for _ in gen.generate("x", max_tokens=60):
        chip.wait(300_000)
        last = chip.hz
    assert last == LEVELS[1]
    # A reader that alone takes longer than that: no clock can help.
    governor, model, gen = make(20e6, 400_000, min_tps=1.1)
    for _ in gen.generate("x", max_tokens=60):
        chip.wait(2_000_000)
        last = chip.hz
    assert last == LEVELS[0]


def test_performance_is_the_highest_level(chip: Chip, make: Make) -> None:
    chip.hz = chip.found = LEVELS[0]
    governor, model, gen = make(1e6, 0, policy="performance")
    assert {chip.hz for _ in gen.generate("x", max_tokens=50)} == {LEVELS[2]}
    assert chip.hz == LEVELS[0]


def test_battery_is_the_lowest_level_when_nothing_is_known_of_power(
    chip: Chip, make: Make
) -> None:
    governor, model, gen = make(1e6, 0, policy="battery")
    assert {chip.hz for _ in gen.generate("x", max_tokens=50)} == {LEVELS[0]}
    assert chip.changes() == [LEVELS[0], LEVELS[2]]


@pytest.mark.parametrize(("compute", "memory_us"), COSTS)
def test_battery_is_the_level_of_least_energy(
    chip: Chip, make: Make, compute: float, memory_us: float
) -> None:
    power = {80: 116, 160: 180, 240: 239}
    governor, model, gen = make(compute, memory_us, policy="battery", power=power)
    clocks = [chip.hz for _ in gen.generate("x", max_tokens=400)]
    energy = {hz: model.token_us(hz) * power[hz // MHZ] for hz in LEVELS}
    assert energy[clocks[-1]] <= min(energy.values()) / 0.9
    assert len(chip.changes()) <= 5


# ---------------------------------------------------------------------------------------- limits


def test_a_low_battery_holds_the_low_level(chip: Chip, make: Make) -> None:
    volts = 3.3
    governor, model, gen = make(5e6, 0, min_tps=100, battery=lambda: volts)
    events: list[dict[str, Any]] = []
    governor.limits.on_event(events.append)
    pieces = gen.generate("x")

    def after(seconds: float) -> int:
        end = chip.us + seconds * 1e6
        for _ in pieces:
            if chip.us > end:
                break
        return chip.hz

    assert after(3) == LEVELS[2]
    volts = 2.89
    assert after(3) == LEVELS[0]
    volts = 2.95  # not yet: it is the load that is gone
    assert after(30) == LEVELS[0]
    volts = 3.05
    assert after(15) == LEVELS[2]
    volts = 2.8
    assert after(3) == LEVELS[0]
    volts = 3.3
    assert after(3) == LEVELS[0]  # for ten seconds at least
    assert after(15) == LEVELS[2]
    pieces.close()
    assert [(event["event"], event["over"], event["value"]) for event in events] == [
        ("battery", True, 2.89),
        ("battery", False, 3.05),
        ("battery", True, 2.8),
        ("battery", False, 3.3),
    ]
    assert chip.hz == chip.found


def test_heat_takes_the_clock_down_in_steps_and_up_again(chip: Chip, make: Make) -> None:
    celsius = 60.0
    governor, model, gen = make(
        1e6, 0, policy="performance", temperature=lambda: celsius, max_temperature=70
    )
    pieces = gen.generate("x")

    def after(seconds: float) -> int:
        end = chip.us + seconds * 1e6
        next(_ for _ in pieces if chip.us > end)
        return chip.hz

    assert after(2) == 240 * MHZ
    celsius = 71
    assert after(2) == 160 * MHZ  # the highest below 80 % of 240
    assert after(10) == 80 * MHZ
    assert after(30) == 80 * MHZ
    celsius = 66  # not cool enough
    assert after(30) == 80 * MHZ
    celsius = 64
    assert after(2) == 160 * MHZ
    assert after(12) == 240 * MHZ
    assert governor.limits.fired == 4
    assert governor.limits.error is None


def test_steps_of_eighty_percent(monkeypatch: pytest.MonkeyPatch) -> None:
    levels = [100 * MHZ, 200 * MHZ, 300 * MHZ, 340 * MHZ, 400 * MHZ]
    chip = Chip(levels, found=400 * MHZ).install(monkeypatch)
    governor = llm.Governor("performance")
    with governor:
        governor._begin(None)
        found = []
        while governor.step_down() is not False:
            found.append(chip.hz // MHZ)
        assert found == [300, 200, 100]
        for _ in range(5):
            governor.step_up()
            governor._begin(None)
            found.append(chip.hz // MHZ)
        assert found[3:] == [200, 300, 400, 400, 400]


# --------------------------------------------------------------------------------- begin and end


class Trouble(Exception):
    pass


def test_the_clock_comes_back_however_a_text_ends(chip: Chip, make: Make) -> None:
    governor, model, gen = make(1e6, 0, policy="battery")

    class Stream:
        def write(self, data: bytes) -> int:
            raise Trouble

    with pytest.raises(Trouble):
        gen.stream("x", Stream())
    assert (chip.hz, chip.changes()) == (chip.found, [LEVELS[0], chip.found])
    pieces = gen.generate("x")
    next(pieces)
    pieces.close()
    assert chip.hz == chip.found
    with pytest.raises(Trouble):
        for _ in gen.generate("x"):
            assert chip.hz == LEVELS[0]
            model.eval = _raise  # type: ignore[method-assign]
    assert chip.hz == chip.found
    with pytest.raises(Trouble):
        list(gen.generate("x"))  # in the prompt
    assert chip.hz == chip.found
    del model.eval
    with pytest.raises(Trouble), governor:
        list(gen.generate("x", max_tokens=3))
        assert chip.hz == LEVELS[0]
        raise Trouble
    assert chip.hz == chip.found


def _raise(*args: object) -> None:
    raise Trouble


@pytest.mark.parametrize("in_a_block", [False, True])
def test_ctrl_c_at_any_time(monkeypatch: pytest.MonkeyPatch, in_a_block: bool) -> None:
    """At every call of the hardware and of the model, before and after: the clock comes back, and
    so do the peripherals."""
    ended = False
    for n in range(1, 1000):
        chip = Chip().install(monkeypatch)
        on = {"a": True, "b": True}
        uart = Uart(chip, 9600)
        governor = llm.Governor(
            "battery",
            peripherals=[lambda x, on=on, name=name: on.update({name: x}) for name in on],
            uarts=[(uart, 9600)],
        )
        gen = generator(SlowModel(chip, 1e6, 0), monkeypatch, governor=governor)
        chip.interrupt_in = n
        try:
            if in_a_block:
                with governor:
                    gen.stream("x", uart, max_tokens=12)
            else:
                gen.stream("x", uart, max_tokens=12)
            ended = True
        except KeyboardInterrupt:
            pass
        chip.interrupt_in = -1
        assert chip.hz == chip.found, n
        assert on == {"a": True, "b": True}, n
        list(gen.generate("x", max_tokens=3))  # all is well afterwards
        assert chip.hz == chip.found
        if ended:
            break
    assert ended and n > 60


def test_texts_that_overlap_or_are_left(chip: Chip, make: Make) -> None:
    governor, model, gen = make(20e6, 0, policy="battery")
    other_model = SlowModel(chip, 1e6, 0)
    other = llm.Generator(other_model, seed=0, governor=governor)
    one, two = gen.generate("x", max_tokens=20), other.generate("x", max_tokens=10)
    next(one), next(two)
    list(two)  # the later one ends first
    assert chip.hz == chip.found
    list(itertools.islice(one, 8))
    assert chip.hz == LEVELS[0]
    list(one)
    assert chip.hz == chip.found
    # One that is left, and never closed since something holds it, does not hold the clock.
    left = gen.generate("x")
    next(left)
    assert chip.hz == LEVELS[0]
    list(other.generate("x", max_tokens=3))
    assert chip.hz == chip.found
    left.close()
    assert chip.hz == chip.found


def test_a_block_keeps_the_clock_low_between_texts(chip: Chip, make: Make) -> None:
    governor, model, gen = make(5e6, 0, min_tps=1000)
    with governor, governor:
        assert chip.changes() == []
        for _ in range(2):
            list(gen.generate("x", max_tokens=10))
            assert chip.hz == LEVELS[0]
    assert chip.changes() == [LEVELS[0], LEVELS[2], LEVELS[0], LEVELS[2]]
    governor.idle()  # nothing to do then
    assert chip.hz == LEVELS[2]


def test_peripherals_are_switched_off_and_on(chip: Chip, make: Make) -> None:
    log = []

    class Wlan:
        def active(self, on: bool) -> None:
            log.append(("wlan", on))

        def deinit(self) -> None:
            log.append("never")

    class Spi:
        def init(self) -> None:
            log.append(("spi", True))

        def deinit(self) -> None:
            log.append(("spi", False))

    governor, model, gen = make(
        1e6, 0, peripherals=[Wlan(), Spi(), lambda on: log.append(("led", on))]
    )
    list(gen.generate("x", max_tokens=3))
    want = [(name, on) for on in (False, True) for name in ("wlan", "spi", "led")]
    assert log == want
    with pytest.raises(TypeError, match="peripherals"):
        llm.Governor(peripherals=[object()])

    # One that fails does not keep the others off, nor the clock.
    class Broken:
        def active(self, on: bool) -> None:
            if on:
                raise Trouble

    governor, model, gen = make(1e6, 0, policy="battery", peripherals=[Broken(), Spi()])
    log.clear()
    with pytest.raises(Trouble):
        list(gen.generate("x", max_tokens=3))
    assert log == [("spi", False), ("spi", True)] and chip.hz == chip.found


def test_the_regulator_is_bypassed_before_the_clock_goes_up(chip: Chip, make: Make) -> None:
    chip.hz = chip.found = LEVELS[0]

    def bypass(on: bool) -> None:
        chip.log.append(("bypass", on))

    governor, model, gen = make(1e6, 0, policy="performance", bypass=bypass)
    list(gen.generate("x", max_tokens=3))
    assert chip.log == [
        ("bypass", True),
        ("clock", LEVELS[0], LEVELS[2]),
        ("clock", LEVELS[2], LEVELS[0]),
        ("bypass", False),
    ]

    class Pin:
        value = None

    pin = Pin()
    governor, model, gen = make(1e6, 0, policy="performance", bypass=pin)
    assert {pin.value for _ in gen.generate("x", max_tokens=3)} == {True}
    assert pin.value is False


@pytest.mark.parametrize("told", [True, False])
def test_a_uart_stays_readable(chip: Chip, make: Make, told: bool) -> None:
    uart = Uart(chip, 115200)
    governor, model, gen = make(1e6, 100, min_tps=90, uarts=[(uart, 115200)] if told else [])
    model.noise = lambda: 0.4 if model.n_tokens // 400 % 2 else 4
    gen.stream("x", uart, max_tokens=6000)
    uart.flush()
    assert len(uart.received) == 6000 and len(chip.changes()) > 10
    assert (bytes(uart.received) == b"a" * 6000) is told


# ----------------------------------------------------------------------------------------- chips


def test_a_chip_that_refuses_a_level(monkeypatch: pytest.MonkeyPatch) -> None:
    chip = Chip(refused=[80 * MHZ]).install(monkeypatch)
    governor = llm.Governor(min_tps=1)
    gen = generator(SlowModel(chip, 1e6, 0), monkeypatch, governor=governor)
    assert [chip.hz for _ in gen.generate("x", max_tokens=600)][-1] == 160 * MHZ
    assert governor.levels == [160 * MHZ, 240 * MHZ]
    assert chip.hz == chip.found


def test_a_step_down_stays_where_it_is_when_levels_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    levels = [20 * MHZ, 40 * MHZ, 80 * MHZ, 160 * MHZ, 240 * MHZ]
    chip = Chip(levels, refused=levels[:2]).install(monkeypatch)
    governor = llm.Governor("performance")
    with governor:
        governor.step_down()
        assert chip.hz == 160 * MHZ
        governor.idle()
        assert (chip.hz, governor.levels) == (80 * MHZ, levels[2:])
        governor._begin(None)
        assert chip.hz == 160 * MHZ
        governor.step_up()
        governor._begin(None)
    assert chip.changes() == [mhz * MHZ for mhz in (160, 80, 160, 240)]


def test_a_chip_that_takes_the_next_lower_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    chip = Chip(found=64 * MHZ).install(monkeypatch)
    takes = (20, 50, 64)

    def set_clock(hz: int) -> None:
        chip.hz = MHZ * max(mhz for mhz in takes if mhz * MHZ <= hz)

    monkeypatch.setattr(llm.hal, "set_clock", set_clock)
    for levels, want in (([24, 60, 64], [20, 50, 64]), ([30, 40, 64], [20, 64])):
        for policy in ("performance", "battery", "deadline"):
            governor = llm.Governor(policy, min_tps=1000, levels=[mhz * MHZ for mhz in levels])
            gen = generator(SlowModel(chip, 1e6, 0), monkeypatch, governor=governor)
            for _ in range(3):
                list(gen.generate("x", max_tokens=30))
                governor._begin(gen)
                for i in range(len(governor.levels)):
                    governor._set(min(i, len(governor.levels) - 1))
                governor._end(gen)
            assert [hz // MHZ for hz in governor.levels] == want
            assert chip.hz == 64 * MHZ


@pytest.mark.parametrize("hz", [64 * MHZ, 0])
def test_a_chip_with_one_clock(monkeypatch: pytest.MonkeyPatch, hz: int) -> None:
    chip = Chip(levels=(), found=64 * MHZ).install(monkeypatch)
    monkeypatch.setattr(llm.hal, "clock", lambda: hz or None)
    for policy in ("performance", "battery", "deadline"):
        governor = llm.Governor(policy, min_tps=1000, temperature=lambda: 100)
        model = SlowModel(chip, 0, 4000)
        gen = generator(model, monkeypatch, governor=governor)
        assert len(list(gen.generate("x", max_tokens=600))) == 600
        assert chip.changes() == [] and governor.levels == [hz]
        assert governor.residency()[hz] == pytest.approx(607 * 4, abs=2)
        assert governor.limits.fired == 0  # there is no step to take


def test_a_clock_above_all_levels_is_left_until_there_is_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chip = Chip([100 * MHZ, 400 * MHZ], found=480 * MHZ).install(monkeypatch)
    governor = llm.Governor("performance")
    gen = generator(SlowModel(chip, 1e6, 0), monkeypatch, governor=governor)
    assert {chip.hz for _ in gen.generate("x", max_tokens=20)} == {480 * MHZ}
    assert chip.changes() == []


def test_buses_come_back_too(monkeypatch: pytest.MonkeyPatch) -> None:
    # As on STM32: what the clock is, is a tuple.
    chip = Chip([100 * MHZ, 400 * MHZ]).install(monkeypatch)
    found = (400 * MHZ, 200 * MHZ, 100 * MHZ, 100 * MHZ)
    state: Any = found
    monkeypatch.setattr(llm.hal, "clock", lambda: state)
    monkeypatch.setattr(llm.hal, "hertz", lambda c: c[0] if isinstance(c, tuple) else c)

    def set_clock(clock: Any) -> None:
        nonlocal state
        state = clock if isinstance(clock, tuple) else (clock, clock, clock // 4, clock // 2)

    monkeypatch.setattr(llm.hal, "set_clock", set_clock)
    governor = llm.Governor("battery")
    gen = generator(SlowModel(chip, 1e6, 0), monkeypatch, governor=governor)
    assert {state[0] for _ in gen.generate("x", max_tokens=5)} == {100 * MHZ}
    assert state == found


# --------------------------------------------------------------------------------------- figures


def test_residency_is_all_the_time(chip: Chip, make: Make) -> None:
    governor, model, gen = make(100e6, 0, min_tps=1.1)
    for _ in range(3):
        start, before = chip.us, sum(governor.residency().values())
        list(gen.generate("x", max_tokens=40))
        spent = sum(governor.residency().values()) - before
        assert spent == pytest.approx((chip.us - start) / 1000, abs=4)
        chip.wait(5_000_000)  # between texts it does not count
    assert list(governor.residency()) == list(LEVELS)


def test_power_is_read_from_a_file(tmp_path: Path) -> None:
    levels = [{"mhz": 80, "mw": 116}, {"mhz": 240, "mw": 239}]
    path = tmp_path / "power.json"
    path.write_text(json.dumps({"levels": levels}))
    assert llm.Governor(power=str(path)).power == {80: 116, 240: 239}


@pytest.mark.parametrize(
    ("error", "settings"),
    [
        ("policy", {"policy": "fast"}),
        ("min_tps", {"min_tps": 0}),
        ("min_tps", {"min_tps": float("nan")}),
        ("levels", {"levels": []}),
        ("levels", {"levels": [1.5]}),
    ],
)
def test_bad_settings(error: str, settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=error):
        llm.Governor(**settings)


# ----------------------------------------------------------------------------------- anything goes


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(10, 500), min_size=1, max_size=6, unique=True),
    st.integers(10, 500),
    st.sampled_from(["performance", "deadline", "battery"]),
    st.floats(0.01, 1000),
    st.floats(1e4, 1e9),
    st.floats(0, 1e6),
    st.integers(0, 1 << 30),
)
def test_whatever_happens_the_clock_is_a_level_and_comes_back(
    levels: list[int],
    found: int,
    policy: str,
    min_tps: float,
    compute: float,
    memory_us: float,
    seed: int,
) -> None:
    rng = random.Random(seed)
    with pytest.MonkeyPatch.context() as monkeypatch:
        chip = Chip([mhz * MHZ for mhz in levels], found=found * MHZ).install(monkeypatch)
        power = {mhz: rng.randrange(1, 500) for mhz in levels} if rng.random() < 0.5 else None
        governor = llm.Governor(
            policy,
            min_tps=min_tps,
            power=power,
            queue=lambda: rng.randrange(5),
            battery=lambda: rng.uniform(2.7, 3.3),
            temperature=lambda: rng.choice([None, 20, 100]),
        )
        model = SlowModel(chip, compute, memory_us)
        model.noise = lambda: rng.uniform(0.1, 3)
        gen = generator(model, monkeypatch, governor=governor)
        for _ in range(3):
            try:
                for _ in gen.generate("x", max_tokens=rng.randrange(60)):
                    chip.wait(rng.choice([0, 0, 5000, 2e6]))
                    assert chip.hz in (*governor.levels, chip.found)
                    if rng.random() < 0.02:
                        raise Trouble
            except Trouble:
                pass
            assert chip.hz == chip.found
        assert governor.limits.error is None
