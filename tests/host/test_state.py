"""States of sequences in files: saved, loaded elsewhere, damaged in every way."""

from __future__ import annotations

import io
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from edge_llm import engine
from edge_llm.image import Config, Dtype
from oracle import Oracle
from oracle_image import crc32c, read_image
from oracle_models import make_image, random_planes

VOCAB = 40


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    config = Config(VOCAB, 24, 40, 2, 4, 2, 6, 1100)
    path = tmp_path_factory.mktemp("state") / "small.llm"
    return make_image(path, config, Dtype.INT4, random_planes(7))


def draw(n: int, seed: int = 0) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(VOCAB) for _ in range(n)]


def saved(model: engine.Model) -> bytes:
    file = io.BytesIO()
    model.save_state(file)
    return file.getvalue()


def goes_on_alike(one: engine.Model, two: engine.Model, tokens: list[int]) -> None:
    assert one.tokens() == two.tokens() and one.n_tokens == two.n_tokens
    for token in tokens:
        one.eval(token)
        two.eval(token)
        assert bytes(one.logits()) == bytes(two.logits())


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 150, 230])
@pytest.mark.parametrize("cache", ["int8", "f32", "int4"])
def test_a_state_goes_on_where_it_was(raw: bytes, cache: str, n: int) -> None:
    model = engine.Model(raw, context=200, cache=cache)
    model.eval(draw(n))
    state = saved(model)
    for kernels in engine.kernels():
        for kv in ("paged",) if cache == "int4" else ("static", "paged"):
            other = engine.Model(raw, context=200, cache=cache, kernels=kernels, kv=kv)
            other.eval(draw(77, 5))  # is forgotten
            other.load_state(io.BytesIO(state))
            with pytest.raises(ValueError, match="logits: there are none"):
                other.logits()
            assert saved(other) == state
            assert other.event() is None
    goes_on_alike(model, other, draw(120, 1))


def chunks(state: bytes, n_ids: int, row: int, n_parts: int) -> list[tuple[int, int, int, bytes]]:
    """(position, positions, kind, contents) of each chunk, as docs/state-format.md says."""
    at, found = 72 + 4 * n_ids, []
    while at < len(state) - 4:
        pos, n, kind = struct.unpack_from("<IHH", state, at)
        size = n_parts * (2 * n * (row + 2) if kind == 1 else 64 * row + 2 * 64 + 2 * row)
        found.append((pos, n, kind, state[at + 8 : at + 8 + size]))
        at += 8 + size
    assert at == len(state) - 4 and struct.unpack_from("<I", state, 12)[0] == len(state)
    return found


def test_the_file_is_as_documented(raw: bytes) -> None:
    """Layout and contents, against the oracle of the arithmetic."""
    tokens = draw(150)
    oracle = Oracle(read_image(raw), 100, "int8", length=150)
    oracle.forward(tokens)
    for kv in ("static", "paged"):
        model = engine.Model(raw, context=100, kv=kv)
        model.eval(tokens[:90])
        whole = chunks(saved(model), 90, 6, 4)
        assert [chunk[:3] for chunk in whole] == [(0, 64, 1), (64, 26, 1)]
        model.eval(tokens[90:])
        slid = chunks(saved(model), 100, 6, 4)
        assert [chunk[:3] for chunk in slid] == [(0, 4, 1), (54, 10, 1), (64, 64, 1), (128, 22, 1)]
        for pos, n, _, contents in whole + slid:
            size = n * 8
            for part in range(4):
                layer, head = divmod(part, 2)
                for i, (rows, scales) in enumerate(
                    [(oracle.keys, oracle.key_scales), (oracle.values, oracle.value_scales)]
                ):
                    got = contents[(2 * part + i) * size :][:size]
                    want = rows[layer, head, pos : pos + n].astype(np.int8).tobytes()
                    bits = scales[layer, head, pos : pos + n].view(np.uint32) >> 16
                    assert got == want + bits.astype("<u2").tobytes()
    model = engine.Model(raw, context=100, cache="int4")
    model.eval(tokens)
    kinds = [chunk[:3] for chunk in chunks(saved(model), 100, 6, 4)]
    assert kinds == [(0, 64, 2), (0, 64, 2), (64, 64, 2), (128, 22, 1)]


def test_it_fits_any_context_that_holds_it(raw: bytes) -> None:
    model = engine.Model(raw, context=64)
    model.eval(draw(60))
    state = saved(model)
    larger = engine.Model(raw, context=1000)
    larger.load_state(io.BytesIO(state))
    fresh = engine.Model(raw, context=1000)
    fresh.eval(draw(60))
    goes_on_alike(larger, fresh, draw(100, 2))
    with pytest.raises(ValueError, match="its 60 tokens do not fit into a context of 59"):
        engine.Model(raw, context=59).load_state(io.BytesIO(state))
    model.eval(draw(10))
    state = saved(model)
    with pytest.raises(ValueError, match="its window slid in a context of 64, this one is 100"):
        engine.Model(raw, context=100).load_state(io.BytesIO(state))
    with pytest.raises(ValueError, match="its 70 tokens do not fit"):
        engine.Model(raw, context=64, policy="error").load_state(io.BytesIO(state))


def test_after_rewinds_and_pressure(raw: bytes) -> None:
    model = engine.Model(raw, context=300, cache="int4")
    model.eval(draw(250))
    model.rewind(70)  # in a page that was compressed
    other = engine.Model(raw, context=300, cache="int4")
    other.load_state(io.BytesIO(saved(model)))
    goes_on_alike(model, other, draw(90, 1))

    whole = engine.Model(raw, context=1000).memory()
    ram = whole["ram"] - whole["object"] - whole["kv"] // 3
    model = engine.Model(raw, context=1000, ram=ram)
    model.eval(draw(990))
    other = engine.Model(raw, context=1000, ram=ram)
    other.load_state(io.BytesIO(saved(model)))
    goes_on_alike(model, other, draw(20, 1))
    with pytest.raises(ValueError, match="has compressed pages, this cache has none"):
        engine.Model(raw, context=1000, kv="static").load_state(io.BytesIO(saved(model)))


def test_through_a_spill_region_and_sequences(raw: bytes) -> None:
    whole = engine.Model(raw, context=1000).memory()
    ram = whole["ram"] - whole["object"] - 3 * whole["kv"] // 4
    model = engine.Model(raw, context=1000, ram=ram, spill=io.BytesIO())
    model.eval(draw(1100))
    plain = engine.Model(raw, context=1000, sequences=1)
    with plain.sequence() as sequence:
        sequence.load_state(io.BytesIO(saved(model)))
        file = io.BytesIO()
        sequence.save_state(file)
        assert file.getvalue() == saved(model)
    other = engine.Model(raw, context=1000, ram=ram, spill=io.BytesIO())
    other.load_state(io.BytesIO(saved(model)))
    goes_on_alike(model, other, draw(70, 1))


@pytest.mark.parametrize("cache", ["int8", "int4"])
def test_every_damage_is_found(raw: bytes, cache: str) -> None:
    """Each byte changed, each length cut: ValueError, and the model can be used."""
    model = engine.Model(raw, context=80, cache=cache)
    model.eval(draw(100 if cache == "int8" else 70))
    state = saved(model)
    other = engine.Model(raw, context=80, cache=cache)
    rng = random.Random(0)
    step = 1 if len(state) < 4000 else 7
    places = {*range(400), *range(400, len(state), step), *range(len(state) - 40, len(state))}
    for at in places:
        damaged = bytearray(state)
        damaged[at] ^= 1 << rng.randrange(8)
        with pytest.raises(ValueError, match="state: "):
            other.load_state(io.BytesIO(damaged))
        with pytest.raises(ValueError, match="state: "):
            other.load_state(io.BytesIO(state[:at]))
        assert other.n_tokens == 0 and other.memory()["kv_used"] == 0
    other.load_state(io.BytesIO(state + b"more"))  # a state may be followed by something else
    goes_on_alike(model, other, draw(30, 1))


FIELDS = ("version", "size", "cache", "n_tokens", "n_valid", "first", "context")
OFFSETS = dict(zip(FIELDS, (8, 12, 48, 52, 56, 60, 64), strict=True))


def resealed(state: bytearray) -> bytes:
    """With right checksums, as who wants to do harm would make them."""
    struct.pack_into("<I", state, 68, crc32c(bytes(state[:68])))
    struct.pack_into("<I", state, len(state) - 4, crc32c(bytes(state[:-4])))
    return bytes(state)


@pytest.mark.parametrize("cache", ["int8", "f32", "int4"])
def test_hostile_states_do_no_harm(raw: bytes, cache: str) -> None:
    """Any fields, ids and chunks under right checksums: an error, or a state that can be used."""
    rng = np.random.default_rng(0)
    models = [
        engine.Model(raw, context=80, cache=cache),
        engine.Model(raw, context=80, cache=cache, kv="paged"),
    ]
    states = []
    for n in (30, 70, 100, 300):
        models[0].rewind(0)
        models[0].eval(draw(n))
        states.append(saved(models[0]))
    interesting = [0, 1, 3, 4, 5, 63, 64, 65, 76, 79, 80, 81, 99, 100, 2**31, 2**32 - 1]
    loaded = 0
    for i in range(1500):
        state = bytearray(states[i % len(states)])
        n_ids = (struct.unpack_from("<I", state, 52)[0],)[0]
        body = 72 + 4 * min(n_ids, 80)
        for _ in range(rng.integers(1, 4)):
            kind = rng.integers(3)
            if kind == 0:
                at = OFFSETS[rng.choice(FIELDS)]
                struct.pack_into("<I", state, at, int(rng.choice(interesting)))
            elif kind == 1:
                state[rng.integers(72, len(state) - 4)] = rng.integers(256)
            else:
                at = body + int(rng.integers(0, 3)) * 4
                struct.pack_into("<H", state, at, int(rng.choice([0, 1, 2, 3, 16, 64, 65535])))
        for model in models:
            try:
                model.load_state(io.BytesIO(resealed(state)))
            except ValueError:
                assert model.n_tokens == 0
            else:
                loaded += 1
            if i % 10 == 0:
                model.eval(draw(100))
    assert loaded > 100


def test_of_another_model_or_cache(raw: bytes, tmp_path: Path) -> None:
    state = saved(engine.Model(raw, context=64))
    config = Config(VOCAB, 24, 40, 2, 4, 2, 6, 1100)
    other = make_image(tmp_path / "other.llm", config, Dtype.INT4, random_planes(8))
    with pytest.raises(ValueError, match="state: is of another model"):
        engine.Model(other).load_state(io.BytesIO(state))
    with pytest.raises(ValueError, match="state: its cache is of kind 1, this one of kind 3"):
        engine.Model(raw, cache="int4").load_state(io.BytesIO(state))
    newer = bytearray(state)
    newer[8] = 2
    with pytest.raises(ValueError, match="state: version 2 is not 1"):
        engine.Model(raw).load_state(io.BytesIO(newer))
    with pytest.raises(ValueError, match="state: this is none"):
        engine.Model(raw).load_state(io.BytesIO(raw))


def test_files_that_fail(raw: bytes) -> None:
    class Failing(io.BytesIO):
        left = 1000

        def _count(self, n: int) -> None:
            Failing.left -= n
            if Failing.left < 0:
                raise OSError(28, "no space left")

        def write(self, data: Any, /) -> int:
            self._count(len(data))
            return super().write(data)

        def read(self, size: int | None = -1, /) -> bytes:
            self._count(size or 0)
            return super().read(size)

    model = engine.Model(raw, context=64)
    model.eval(draw(50))
    state = saved(model)
    with pytest.raises(OSError, match="no space left"):
        model.save_state(Failing())
    assert saved(model) == state
    Failing.left = 1000
    with pytest.raises(OSError, match="no space left"):
        model.load_state(Failing(state))
    assert model.n_tokens == 0 and model.tokens() == []
    model.eval(draw(50))
    assert saved(model) == state
    Failing.left = 1 << 20

    class Slow(Failing):
        """Takes and gives a few bytes at a time."""

        def write(self, data: Any, /) -> int:
            return super().write(data[:7])

        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(min(size or 0, 5))

    file = Slow()
    model.save_state(file)
    assert file.getvalue() == state
    model.load_state(Slow(state))
    assert saved(model) == state
