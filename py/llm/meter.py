"""What making text takes: time, memory, power. See `__init__.pyi` and docs/power.md."""

from array import array

from . import hal
from .limits import Limits
from .power import millijoules, read


class Metrics:
    """Measures the texts of a generator from now on."""

    def __init__(self, gen, *, window=256, temperature=None, power=None):
        if not 32 <= window <= 4096 or window % 32:
            raise ValueError("window: must be a multiple of 32, from 32 to 4096")
        self.gen = gen
        governor = gen.governor
        self.limits = governor.limits if governor else Limits()
        self.power = read(power) if power or not governor else governor.power
        self._took = array("i", [0] * window)  # microseconds of the last tokens, a ring
        self._size = window
        self._i = 0  # where in it the next goes
        self._full = False
        self._running = False
        self._texts = self._prompt = self._prefill_us = self._tokens = self._decode_ms = 0
        self._first_ms = None
        self._heap = 0
        self._read_temperature = temperature or hal.temperature
        self._celsius = None
        self._looked = None
        self._then = None  # (when it was so warm, degrees)
        self._per_minute = None
        self._residency = governor.residency() if governor else {}  # before
        gen._watchers.append(self)

    def detach(self):
        """Measures no more; what was measured stays."""
        if self in self.gen._watchers:
            self.gen._watchers.remove(self)

    # ------------------------------------------------------------------------ from the generator

    def _begin(self, gen):
        self._running = True
        self._texts += 1
        self._look()

    def _first(self, now, took):
        self._first_ms = took // 1000
        self._prefill_us += took
        self._prompt += self.gen._n_evaluated

    def _token(self, now, took):
        i = self._i
        self._took[i] = took
        i += 1
        if i == self._size:
            i = 0
            self._full = True
        self._i = i
        if took > 31_250 or not i & 31:  # about once a second, of 32 tokens if they are fast
            self._look()

    def _end(self, gen):
        if self._running:
            self._running = False
            self._tokens += len(gen.ids)
            self._decode_ms += self._now_ms()

    def _look(self):
        now = hal.ticks_ms()
        if self._looked is not None and 0 <= hal.ticks_diff(now, self._looked) < 1000:
            return
        self._looked = now
        self._celsius = celsius = self._read_temperature()
        if celsius is not None:
            if self._then is None:
                self._then = now, celsius
            ms = hal.ticks_diff(now, self._then[0])
            if ms >= 10_000:
                self._per_minute = (celsius - self._then[1]) * 60_000 / ms
                self._then = now, celsius
        self.limits.check()

    # ------------------------------------------------------------------------ limits

    def limit(self, name, *, above, back=None, act=None, undo=None, again=10):
        """Watches "temperature", "jitter_ms" or "kv_share". See `__init__.pyi`."""
        governor = self.gen.governor
        if name == "temperature":
            reader = lambda: self._celsius  # noqa: E731
        elif name == "jitter_ms":
            reader = self._jitter
        elif name == "kv_share":
            reader = self._kv_share
        else:
            raise ValueError(f"name: there is no limit for {name!r}")
        if act is None:
            if name == "kv_share":
                act = getattr(self.gen.model, "compress", None)
            elif governor:
                act, undo = governor.step_down, governor.step_up
        self.limits.add(name, reader, above=above, back=back, act=act, undo=undo, again=again)

    def _kv_share(self):
        memory = self.gen.model.memory()
        return memory["kv_used"] / memory["kv"]

    def _jitter(self):
        times = self._sorted()
        return (_rank(times, 99) - _rank(times, 50)) / 1000 if times else None

    # ------------------------------------------------------------------------ figures

    def _sorted(self):
        return sorted(self._took if self._full else self._took[: self._i])

    def _now_ms(self):
        _, first, last = self.gen._times
        return hal.ticks_diff(last, first)

    def residency(self):
        """Milliseconds by clock in hertz."""
        governor = self.gen.governor
        if governor:
            before = self._residency
            return {hz: ms - before.get(hz, 0) for hz, ms in governor.residency().items()}
        ms = self._prefill_us // 1000 + self._decode_ms
        return {hal.hertz(hal.clock()): ms + (self._now_ms() if self._running else 0)}

    def as_dict(self):
        """All figures. See `__init__.pyi`."""
        gen = self.gen
        model = gen.model
        tokens, decode_ms = self._tokens, self._decode_ms
        if self._running:
            tokens += len(gen.ids)
            decode_ms += self._now_ms()
        decoded = tokens - self._texts  # the first of each comes from its prompt
        times = self._sorted()
        ranks = [_rank(times, p) / 1000 if times else None for p in (50, 90, 99)]
        memory = model.memory()
        residency = self.residency()
        energy = millijoules(self.power, residency) if self.power else None
        self._heap = max(self._heap, hal.mem_used())
        return {
            "texts": self._texts,
            "prompt_tokens": self._prompt,
            "prefill_ms": self._prefill_us // 1000,
            "prefill_tokens_per_s": _rate(self._prompt, self._prefill_us // 1000),
            "first_token_ms": self._first_ms,
            "tokens": tokens,
            "decode_ms": decode_ms,
            "tokens_per_s": _rate(decoded, decode_ms),
            "token_ms_p50": ranks[0],
            "token_ms_p90": ranks[1],
            "token_ms_p99": ranks[2],
            "jitter_ms": round(ranks[2] - ranks[0], 3) if times else None,
            "model_ram": memory["ram"],
            "heap_peak": self._heap,
            "kv_used": memory["kv_used"],
            "kv_share": round(memory["kv_used"] / memory["kv"], 3),
            "mhz": hal.hertz(hal.clock()) // 1_000_000,
            "residency_ms": {str(hz // 1_000_000): ms for hz, ms in residency.items()},
            "temperature": self._celsius,
            "temperature_per_min": self._per_minute,
            "energy_mj": energy,
            "energy_mj_per_token": energy / tokens if energy is not None and tokens else None,
            "limits_fired": self.limits.fired,
        }

    def emit(self, stream=None):
        """Writes `as_dict()` as one line of JSON."""
        import json

        hal.write(hal.stdout() if stream is None else stream, json.dumps(self.as_dict()) + "\n")

    def prometheus(self):
        """The figures in Prometheus's text format."""
        from .exposition import text

        return text(self.as_dict())


def _rank(times, percent):
    """The nearest rank: the smallest that so many per cent do not exceed."""
    return times[(len(times) * percent + 99) // 100 - 1]


def _rate(n, ms):
    return n * 1000 / ms if ms > 0 and n > 0 else 0.0
