"""A chip that is simulated: its clock, its UART, a model that runs on it. Time is what it says.

A token takes compute / clock + memory. A UART divides the clock of the bus, which goes with the
processor's, by a number that is computed when it is set up: a change of the clock under it changes
its rate, and bytes that leave at another rate than the other end listens at arrive garbled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import edge_llm.llm as llm
import pytest

WRAP = 1 << 29  # of the ticks, as on CircuitPython: the soonest


class Chip:
    """Plays `llm.hal`. `us` is the time since the start; `log` is what happened, by name."""

    def __init__(
        self,
        levels: Sequence[int] = (80_000_000, 160_000_000, 240_000_000),
        found: int = 240_000_000,
        refused: Sequence[int] = (),
    ) -> None:
        self.levels = tuple(levels)
        self.hz = self.found = found
        self.refused = refused
        self.us = 0.0
        self.log: list[tuple[Any, ...]] = []
        self.interrupt_in = -1  # calls until Ctrl-C comes; below 0: never
        self.cools: Callable[[float], None] = lambda us: None

    def install(self, monkeypatch: pytest.MonkeyPatch) -> Chip:
        """Puts itself in the place of the hardware."""
        for name in ("clock", "set_clock", "drain", "set_baud", "ticks_ms", "ticks_us"):
            monkeypatch.setattr(llm.hal, name, self._call(getattr(self, name)))
        monkeypatch.setattr(llm.hal, "ticks_diff", self.ticks_diff)
        monkeypatch.setattr(llm.hal, "levels", lambda: self.levels)
        return self

    def _call(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any) -> Any:
            self.tick()
            result = function(*args)
            self.tick()
            return result

        return called

    def tick(self) -> None:
        """A moment at which Ctrl-C may come."""
        self.interrupt_in -= 1
        if self.interrupt_in == 0:
            raise KeyboardInterrupt

    def wait(self, us: float) -> None:
        """Time goes by."""
        self.us += us
        self.cools(us)

    def work(self, compute: float, memory_us: float) -> None:
        """Computes for so many cycles and waits for memory."""
        self.wait(compute / self.hz * 1e6 + memory_us)

    def clock(self) -> int:
        return self.hz

    def set_clock(self, hz: int) -> None:
        if hz in self.refused:
            raise ValueError("the chip does not take this clock")
        self.log.append(("clock", self.hz, hz))
        self.hz = hz
        self.wait(300)

    def changes(self) -> list[int]:
        """The clocks that were set, in order."""
        return [entry[2] for entry in self.log if entry[0] == "clock"]

    def drain(self, uart: Uart) -> None:
        uart.flush()

    def set_baud(self, uart: Uart, baud: int) -> None:
        uart.init(baud)

    def ticks_ms(self) -> int:
        return (WRAP - 1000 + int(self.us / 1000)) % WRAP

    def ticks_us(self) -> int:
        return (WRAP - 1000 + int(self.us)) % WRAP

    def ticks_diff(self, end: int, start: int) -> int:
        return (end - start + WRAP // 2) % WRAP - WRAP // 2


class Uart:
    """Writes into a queue that leaves bit by bit; `received` is what the other end reads."""

    def __init__(self, chip: Chip, baud: int) -> None:
        self.chip = chip
        self.listens = baud
        self.received = bytearray()
        self._queue: list[int] = []
        self._sent_until = 0.0
        self._divider = 1
        self.init(baud)

    def init(self, baud: int) -> None:
        self._send()
        self._divider = max(1, round(self.chip.hz / 2 / 16 / baud))

    def write(self, data: bytes) -> int:
        self._send()
        if not self._queue:
            self._sent_until = self.chip.us
        self._queue += data
        return len(data)

    def _byte_us(self) -> float:
        return 10 * 1e6 * 16 * self._divider / (self.chip.hz / 2)

    def _send(self) -> None:
        """What has left by now, at the clock of now. (The clock is changed with `_send` just
        before or, if nobody thought of it, not: then the rest leaves at the new rate.)"""
        took = self._byte_us()
        while self._queue and self._sent_until + took <= self.chip.us:
            self._sent_until += took
            self._arrive(self._queue.pop(0), took)

    def _arrive(self, byte: int, took: float) -> None:
        off = took * self.listens / 1e7 - 1
        # Half a bit is what ten may be off in all: 5 %, of which the other end takes some.
        self.received.append(byte if abs(off) < 0.04 else byte ^ 0xA5)

    def flush(self) -> None:
        while self._queue:
            self.chip.wait(self._byte_us())
            self._send()


class SlowModel:
    """A model whose tokens take the chip's time, a prompt as much for each token."""

    bos_id, eos_id, context, policy = 0, 1, 1 << 20, "slide"

    def __init__(self, chip: Chip, compute: float, memory_us: float, prompt: int = 8) -> None:
        self.chip, self.compute, self.memory_us, self.prompt = chip, compute, memory_us, prompt
        self.n_tokens = self._n_runs = 0
        self.noise: Callable[[], float] = lambda: 1.0

    def encode(self, text: str) -> list[int]:
        return [0] * self.prompt

    def reuse(self, tokens: list[int]) -> int:
        self.n_tokens = 0
        return 0

    def eval(self, tokens: int | list[int]) -> None:
        n = 1 if isinstance(tokens, int) else len(tokens)
        self.chip.tick()
        self.chip.work(n * self.compute * self.noise(), n * self.memory_us)
        self.n_tokens += n

    def eval_step(self, tokens: int | list[int], ms: int) -> int:
        self.eval(tokens)
        return 1 if isinstance(tokens, int) else len(tokens)

    def sample(self, sampler: object) -> int:
        return 2

    def memory(self) -> dict[str, int]:
        return {"ram": 1000, "kv": 4 * self.context, "kv_used": 4 * self.n_tokens}

    def token_us(self, hz: int) -> float:
        """What a token takes at a clock."""
        return self.compute / hz * 1e6 + self.memory_us


def generator(model: SlowModel, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> Any:
    """A real Generator over it."""
    decoder = SimpleNamespace(feed=lambda token: "a", finish=lambda: "")
    engine = SimpleNamespace(Sampler=lambda **s: None, Decoder=lambda *a, **s: decoder)
    monkeypatch.setattr(llm.hal, "engine", engine)
    return llm.Generator(model, seed=0, **settings)
