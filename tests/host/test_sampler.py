"""The engine's choice of a token against the oracle's, over logits of our making."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pytest
from edge_llm import engine
from edge_llm.image import Config, Dtype, Tensor
from oracle_models import make_image

F = np.float32
CONTEXT = 80
MARK = F(1234.5678)


class Bench:
    """A model of one float whose logits are whatever is written over its tensor `output`."""

    def __init__(self, path: Path, vocab_size: int) -> None:
        # The norm of 1 is not quite 1: its weight makes up for it.
        weight = F(1) / oracle.rsqrt(F(1) + F(1e-5))
        assert oracle.rsqrt(F(1) + F(1e-5)) * weight == 1

        def planes(tensor: Tensor) -> tuple[np.ndarray, ...]:
            if tensor.name == "rope_phase":
                return (np.zeros(1, np.uint32),)
            value = {"token_embd": 1, "output_norm": weight, "output": MARK}.get(tensor.name, 0)
            return (np.full((tensor.rows, tensor.cols), value, F),)

        config = Config(vocab_size, 1, 1, 1, 1, 1, 2, CONTEXT, tied=False)
        self.image = bytearray(make_image(path, config, Dtype.F32, planes))
        self.at = self.image.find(np.full(vocab_size, MARK, F).tobytes())
        self.size = 4 * vocab_size

    def model(self, logits: np.ndarray) -> engine.Model:
        """A model that gives `logits` after every token."""
        image = self.image.copy()
        image[self.at : self.at + self.size] = logits.astype(F).tobytes()
        return engine.Model(bytes(image), verify=False)


@pytest.fixture(scope="module")
def benches(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Bench]:
    folder = tmp_path_factory.mktemp("sampler")
    return {n: Bench(folder / f"{n}.llm", n) for n in (1, 2, 7, 300)}


def draws(model: engine.Model, settings: dict[str, Any], tokens: list[int], n: int) -> list[int]:
    """`n` choices of one sampler after the same tokens."""
    sampler = engine.Sampler(**settings)
    model.rewind(0)
    model.eval(tokens)
    out = []
    for _ in range(n):
        out.append(model.sample(sampler))
        model.rewind(len(tokens) - 1)
        model.eval(tokens[-1])
    return out


def expected_draws(
    model: engine.Model, settings: dict[str, Any], tokens: list[int], n: int
) -> list[int]:
    """The same by the oracle, from the logits that the engine reports."""
    model.rewind(0)
    model.eval(tokens)
    logits = np.frombuffer(model.logits(), F)
    rest = dict(settings)
    rng = oracle.SplitMix64(rest.pop("seed"))
    last_n = rest.pop("repeat_last_n")
    recent = tokens[-last_n:] if last_n else []
    penalty = rest.pop("repetition_penalty")
    return [oracle.sample(logits, rng, recent, repeat_penalty=penalty, **rest) for _ in range(n)]


def some_logits(rng: np.random.Generator, n: int, kind: str) -> np.ndarray:
    """Logits of one of several characters."""
    v = rng.standard_normal(n).astype(F) * F(rng.choice([0.01, 1, 4, 30]))
    if kind == "ties":
        v = np.rint(v)
    elif kind == "equal":
        v[:] = v[0]
    elif kind == "holes":
        v[rng.random(n) < 0.3] = np.nan
        v[rng.random(n) < 0.3] = -np.inf
        v[rng.integers(n)] = 0.5
    elif kind == "huge":
        with np.errstate(over="ignore"):
            v *= F(1e38)
    elif kind == "tiny":
        v *= F(1e-38)
    elif kind == "zeros":
        v[rng.random(n) < 0.5] = 0
        v[rng.random(n) < 0.5] = -0.0
    return v


def some_settings(rng: random.Random, n: int) -> dict[str, Any]:
    """Settings from the whole range, the ends above all."""
    return {
        "temperature": rng.choice([0, 0.0009, 0.001, 0.00101, 0.05, 0.7, 1, 1, 1.5, 10, 100]),
        "top_k": rng.choice([0, 0, 0, 1, 2, 5, n, n + 1, 10**6]),
        "top_p": rng.choice([1, 1, 1, 0.99999, 0.95, 0.9, 0.5, 0.1, 1e-4]),
        "min_p": rng.choice([0, 0, 0, 1e-10, 1e-4, 0.05, 0.5, 0.999, 1]),
        "repetition_penalty": rng.choice([1, 1, 1, 1.0001, 1.1, 1.5, 10, 100, 0.5, 0.001]),
        "repeat_last_n": rng.choice([0, 1, 2, 8, 64, CONTEXT, 1000]),
        "seed": rng.choice([0, 1, 2**63, 2**64 - 1, rng.getrandbits(64)]),
    }


@pytest.mark.parametrize("n", [1, 2, 7, 300])
@pytest.mark.parametrize("kind", ["plain", "ties", "equal", "holes", "huge", "tiny", "zeros"])
def test_choices_are_the_oracles(benches: dict[int, Bench], kind: str, n: int) -> None:
    for case in range(60):
        seed = case * 1000 + n
        rng = random.Random(f"{kind} {seed}")
        model = benches[n].model(some_logits(np.random.default_rng(seed), n, kind))
        settings = some_settings(rng, n)
        tokens = [rng.randrange(n) for _ in range(rng.choice([1, 3, 10, CONTEXT]))]
        got = draws(model, settings, tokens, 12)
        assert got == expected_draws(model, settings, tokens, 12), settings


PLAIN = {
    "temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0,
    "repeat_last_n": 64, "seed": 5,
}  # fmt: skip


def test_default_settings(benches: dict[int, Bench]) -> None:
    model = benches[300].model(np.random.default_rng(1).standard_normal(300) * 3)
    settings = {
        "temperature": 0.8, "top_k": 0, "top_p": 0.9, "min_p": 0.0, "repetition_penalty": 1.0,
        "repeat_last_n": 64, "seed": 0,
    }  # fmt: skip
    assert draws(model, {}, [1], 50) == expected_draws(model, settings, [1], 50)


@pytest.mark.parametrize("temperature", [0, 1])
def test_only_the_best_of_infinities_and_nan(
    benches: dict[int, Bench], temperature: float
) -> None:
    """An infinite logit wins over any other, a NaN over none."""
    logits = np.array([np.nan, 3, -np.inf, np.inf, 2, np.nan, 1], F)
    model = benches[7].model(logits)
    assert draws(model, PLAIN | {"temperature": temperature}, [0], 20) == [3] * 20


@pytest.mark.parametrize("value", [np.nan, -np.inf])
@pytest.mark.parametrize("temperature", [0, 1])
def test_nothing_to_choose_from(
    benches: dict[int, Bench], temperature: float, value: float
) -> None:
    """Even then a token comes out that exists."""
    model = benches[7].model(np.full(7, value, F))
    assert set(draws(model, PLAIN | {"temperature": temperature}, [0], 20)) <= set(range(7))


def test_greedy_takes_the_lowest_id_of_equals(benches: dict[int, Bench]) -> None:
    model = benches[7].model(np.array([1, 5, 2, 5, 5, 0, 5], F))
    assert draws(model, PLAIN | {"temperature": 0}, [0], 3) == [1, 1, 1]


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"top_p": 0.5}, {0}),
        ({"top_p": 0.50001}, {0}),  # trunc(top_p * 65536) is still a half
        ({"top_p": 0.50002}, {0, 1, 2}),
        ({"top_p": 0.49999}, {0}),
        ({"min_p": 0.5}, {0, 1, 2}),
        ({"min_p": 0.5000001}, {0}),
        ({"top_k": 1}, {0}),
        ({"top_k": 2}, {0, 1, 2}),  # the second ties with the third
    ],
)
def test_thresholds_to_the_last_bit(
    benches: dict[int, Bench], settings: dict[str, float], kept: set[int]
) -> None:
    """Shares of 2^30, 2^29 and 2^29, exactly."""
    logits = np.array([0, -1, -1, *[-np.inf] * 4], F) / oracle.LOG2_E
    model = benches[7].model(logits)
    model.eval(0)
    exact = oracle.shares(np.frombuffer(model.logits(), F))
    assert exact == [1 << 30, 1 << 29, 1 << 29, 0, 0, 0, 0]
    assert set(draws(model, PLAIN | settings, [0], 60)) == kept


@pytest.mark.parametrize("top_p", [1e-5, 1e-9, 1e-30])
def test_smallest_top_p_keeps_the_best(benches: dict[int, Bench], top_p: float) -> None:
    """Below 2^-16 it is 0 in the engine's fixed point, and that must not leave nothing."""
    model = benches[7].model(np.array([1, 5, 2, 6, 5, 0, 5], F))
    assert draws(model, PLAIN | {"top_p": top_p}, [0], 5) == [3] * 5


def test_greedy_draws_no_number(benches: dict[int, Bench]) -> None:
    """So that the same seed goes on alike, whatever was chosen at temperature 0 before."""
    model = benches[300].model(np.random.default_rng(2).standard_normal(300))
    cold = benches[300].model(np.zeros(300))
    fresh, used = engine.Sampler(**PLAIN), engine.Sampler(**PLAIN)
    cold.eval(0)
    cold.sample(engine.Sampler(**(PLAIN | {"temperature": 0})))
    out = []
    for sampler in (fresh, used):
        model.rewind(0)
        model.eval(0)
        out.append(model.sample(sampler))
    assert out[0] == out[1]


def test_penalty_counts_a_token_once_and_only_the_last(benches: dict[int, Bench]) -> None:
    model = benches[7].model(np.array([8, 7, 6, 5, 4, 3, 2], F))
    greedy = PLAIN | {"temperature": 0, "repetition_penalty": 1.5}
    assert draws(model, greedy, [0], 1) == [1]  # 8 / 1.5 = 5.33
    assert draws(model, greedy, [0, 0, 0, 1, 2], 1) == [0]  # once: 5.33, 4.67, 4
    assert draws(model, greedy | {"repeat_last_n": 2}, [0, 1, 2], 1) == [0]
    assert draws(model, greedy | {"repeat_last_n": 0}, [0, 1, 2], 1) == [0]
    assert draws(model, greedy | {"repeat_last_n": 3}, [0, 1, 2, 3], 1) == [0]


@pytest.mark.parametrize(
    ("settings", "seed"), [({}, 1), ({"top_k": 5}, 2), ({"top_p": 0.8}, 3), ({"min_p": 0.1}, 4)]
)
def test_frequencies_follow_the_distribution(
    benches: dict[int, Bench], settings: dict[str, float], seed: int
) -> None:
    """Pearson's chi-square of 20,000 draws, with a fixed seed, below its 99.9 % quantile."""
    logits = np.random.default_rng(seed).standard_normal(7) * 1.5
    model = benches[7].model(logits)
    n = 20_000
    got = np.bincount(draws(model, PLAIN | settings | {"seed": seed}, [0], n), minlength=7)
    p = np.exp(logits - logits.max())
    order = np.argsort(-p)
    keep = np.zeros(7, bool)
    if "top_k" in settings:
        keep[order[:5]] = True
    elif "top_p" in settings:
        before = np.cumsum(p[order] / p.sum()) - p[order] / p.sum()
        keep[order[before < 0.8]] = True
    else:
        keep = p >= settings.get("min_p", 0)
    assert not got[~keep].any()
    expected = n * p[keep] / p[keep].sum()
    quantile = {0: np.inf, 1: 10.83, 2: 13.82, 3: 16.27, 4: 18.47, 5: 20.52, 6: 22.46}
    assert ((got[keep] - expected) ** 2 / expected).sum() < quantile[int(keep.sum()) - 1]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", float("nan")), ("temperature", -0.1), ("temperature", 100.1),
        ("temperature", float("inf")), ("top_k", -1), ("top_p", 0.0), ("top_p", 1.01),
        ("top_p", float("nan")), ("min_p", -0.01), ("min_p", 1.01), ("min_p", float("nan")),
        ("repetition_penalty", 0.0), ("repetition_penalty", 100.1),
        ("repetition_penalty", float("nan")), ("repeat_last_n", -1), ("seed", -1),
        ("seed", 2**64),
    ],
)  # fmt: skip
def test_settings_out_of_range(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        engine.Sampler(**{name: value})


def test_logits_are_used_up(benches: dict[int, Bench]) -> None:
    model = benches[7].model(np.zeros(7))
    sampler = engine.Sampler()
    with pytest.raises(ValueError, match="logits"):
        model.sample(sampler)
    model.eval(1)
    model.sample(sampler)
    with pytest.raises(ValueError, match="logits"):
        model.sample(sampler)
