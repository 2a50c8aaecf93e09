"""Storage of any speed, with a clock of its own, as the engine reads weights from it.

Nothing here takes time: a read costs what the device's latency and throughput say, a product what
`compute` says, and the clock goes on by that. So figures are exact and the same in every run.
"""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Sequence
from typing import Any

from edge_llm import engine
from edge_llm._engine import ffi
from edge_llm.stream import Piece, Source


class _File(io.BytesIO):
    """The contents; `fails` is called with the offset of each read."""

    fails: Callable[[int], None]

    def readinto(self, buffer: Any) -> int:
        self.fails(self.tell())
        return super().readinto(buffer)


class Storage(Source):
    """An image on a device that is read in the background, as by DMA.

    Attributes to change at any time:
        latency: microseconds before the first byte of a read.
        rate: bytes a microsecond, after that.
        jitter: each read takes up to so many times longer.
        compute: microseconds that a byte of weights keeps the processor busy.
    """

    def __init__(
        self,
        image: bytes,
        *,
        latency: float = 100.0,
        rate: float = 10.0,
        jitter: float = 0.0,
        compute: float = 0.0,
        background: bool = True,
        seed: int = 1,
    ) -> None:
        super().__init__(_File(image))
        self.latency = latency
        self.rate = rate
        self.jitter = jitter
        self.compute = compute
        self.time = 0.0  # us
        self.log: list[tuple[int, int]] = []  # offset and size of each read
        self._random = random.Random(seed)
        self._begun = self._done = 0.0
        self._arriving = self._computed = 0  # bytes
        self._parallel: Any = None
        self.fail()
        if not background:
            self.struct.start = self.struct.wait = ffi.NULL

    def fail(self, fails: Callable[[int], None] = lambda offset: None) -> None:
        """Have `fails`, called with the offset of each read, raise what that raises."""
        self._file.fails = fails

    def _cost(self, offset: int, buffer: memoryview) -> float:
        super().read(offset, buffer)
        self.log.append((offset, len(buffer)))
        cost = self.latency + len(buffer) / self.rate
        return cost * (1 + self.jitter * self._random.random())

    def read(self, offset: int, buffer: memoryview) -> None:
        self.time += self._cost(offset, buffer)
        self._computed = len(buffer)

    def start(self, pieces: Sequence[Piece]) -> None:
        self._begun = self.time
        self._done = self.time + sum(self._cost(*piece) for piece in pieces)
        self._arriving = sum(len(buffer) for _, buffer in pieces)

    def wait(self) -> int:
        self.time = max(self.time, self._done)
        self._computed = self._arriving
        return round(self._done - self._begun)

    def now(self) -> int:
        return round(self.time)

    def attach(self, model: engine.Model) -> None:
        """Have the products of `model` take their time."""

        def run(_: Any, work: Any, argument: Any) -> None:
            self.time += self.compute * self._computed
            work(argument, 0)
            work(argument, 1)

        self._run = ffi.callback(dict(ffi.typeof("llm_parallel_t").fields)["run"].type, run)
        self._parallel = model._model.parallel
        self._parallel.n_cores, self._parallel.min_macs = 2, 0
        self._parallel.run = self._run

    def close(self) -> None:
        super().close()
        if self._parallel is not None:
            self._parallel.n_cores = 1  # it has no cores of the port's to give back
