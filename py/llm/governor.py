"""Which clock the processor runs at, from token to token. docs/power.md says how it decides."""

from . import hal
from .limits import Limits
from .power import milliwatts, read

_POLICIES = "performance", "deadline", "battery"
_BATCH = 4  # tokens that are judged together: as many as take 0.1 s, fewer if they take a second
_HOLD = 3  # times in a row that a lower level must promise to do before it is taken
_MARGIN = 10  # percent by which it must do


class Governor:
    """Sets the processor's clock while text is made. See `__init__.pyi`."""

    def __init__(
        self,
        policy="deadline",
        *,
        levels=None,
        min_tps=1.1,
        power=None,
        queue=None,
        battery=None,
        min_volts=2.9,
        temperature=None,
        max_temperature=80,
        peripherals=(),
        uarts=(),
        bypass=None,
    ):
        if policy not in _POLICIES:
            raise ValueError(f"policy: must be one of {', '.join(_POLICIES)}, not {policy!r}")
        if not 0.001 <= min_tps <= 1000:
            raise ValueError("min_tps: must be 0.001 to 1000")
        self.policy = policy
        self.power = power and read(power)
        self.hz = hal.hertz(hal.clock())
        if levels is None:
            levels = hal.levels() or (self.hz,)
        self.levels = sorted(set(levels))
        if not self.levels or not all([isinstance(hz, int) and hz >= 0 for hz in self.levels]):
            raise ValueError("levels: must be rates in hertz")
        self._us = [0] * len(self.levels)  # a token takes, by level; 0: not known
        self._ms = [0] * len(self.levels)  # spent there
        self._period = int(1_000_000 / min_tps)
        self._queue = queue
        self._peripherals = [_switch(thing) for thing in peripherals]
        self._uarts = tuple(uarts)
        self._bypass = bypass if bypass is None or callable(bypass) else _pin(bypass)
        self._top = len(self.levels) - 1  # the highest level that may be taken
        self._tops = []  # what it was before each step down
        self._held = False  # the battery is low
        self._found = None  # the clock to come back to; None: not at work
        self._depth = 0  # `with` blocks
        self._text = None  # the generator whose text is being made
        self._i = 0  # the level of now
        self._since = 0
        self._last = 0
        self._clear()
        self.limits = Limits()
        if battery:
            self.limits.add(
                "battery",
                battery,
                below=min_volts,
                back=min_volts + 0.1,
                act=self._hold,
                undo=self._release,
            )
        if temperature:
            self.limits.add(
                "temperature",
                temperature,
                above=max_temperature,
                back=max_temperature - 5,
                act=self.step_down,
                undo=self.step_up,
            )

    # ------------------------------------------------------------------------ begin and end

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        self._depth += 1
        return self

    def __exit__(self, *exception):
        self._depth -= 1
        if not self._depth:
            self._stop()

    def _start(self):
        if self._found is not None:
            return
        self._found = hal.clock() or 0
        self.hz = hal.hertz(self._found)
        self._i = max([i for i, hz in enumerate(self.levels) if hz <= self.hz] + [0])
        self._since = hal.ticks_ms()
        for switch in self._peripherals:
            switch(False)

    def _stop(self):
        found = self._found
        if found is None:
            return
        try:
            self._count()
            if found and hal.clock() != found:
                self._change(found)
        except BaseException:  # Ctrl-C once more, or what the user gave has failed
            if found:
                hal.set_clock(found)
            raise
        finally:
            self._found = self._text = None
            self._on(0)

    def _on(self, i):
        # Each peripheral is switched on again, whatever becomes of the others.
        if i < len(self._peripherals):
            try:
                self._peripherals[i](True)
            finally:
                self._on(i + 1)

    # ------------------------------------------------------------------------ from the generator

    def _begin(self, gen):
        """A text begins, with its prompt: that is done at the highest level unless power is
        short, since there is much of it and it gains the most."""
        self._text = gen
        self._start()
        self.limits.check()
        self._set(self._least_energy() if self.policy == "battery" else self._allowed())

    def _first(self, now, took):
        """The first token is there, `took` microseconds after the start, at `now`."""
        self._last = now
        self._clear()
        if self.policy == "deadline" and self._us[self._i]:
            self._set(self._slowest(self._budget(0)))

    def _token(self, now, took):
        """Another token is there, for which the model has worked `took` microseconds."""
        self._n += 1
        self._sum += took
        if self._sum < 100_000 or self._n < _BATCH and self._sum < 1_000_000:
            return
        if self._found is None:  # another text has ended since
            self._start()
        n = self._n
        took = self._sum // n
        # What else goes by between two tokens is the reader's.
        gap = max(0, hal.ticks_diff(now, self._last) // n - took)
        self._last = now
        self._n = self._sum = 0
        self._learn(took)
        self.limits.check()
        if self.policy == "performance":
            self._set(self._allowed())
        elif self.policy == "battery":
            self._set(self._least_energy())
        else:
            budget = self._budget(gap)
            if took > budget:
                self._low = 0
                self._set(self._slowest(budget))
                return
            budget = budget * 100 // (100 + _MARGIN)
            i = self._slowest(budget)
            if i == self._i > 0 and took <= budget and self._us.count(0) == len(self._us) - 1:
                i -= 1  # only trying tells what share is memory, to which the clock is nothing
            self._low = self._low + 1 if i < self._i else 0
            if self._low >= _HOLD:
                self._low = 0
                self._set(i)

    def _end(self, gen):
        """The text has ended, in whatever way. It is no matter if another has begun since."""
        if self._text is None or gen is self._text:
            self._text = None
            if self._depth:
                self.idle()
            else:
                self._stop()

    def idle(self):
        """Nothing is to be done: to the lowest level, until the next text."""
        if self._found is not None:
            self._set(0)

    # ------------------------------------------------------------------------ limits

    def step_down(self):
        """Takes the highest level that may be taken down to 80 % of itself, or to the next if
        there is none between. False if it is the lowest."""
        top = self._top
        if not top:
            return False
        want = self.levels[top] * 4 // 5
        self._tops.append(top)
        self._top = max([i for i in range(top) if self.levels[i] <= want] + [0])
        self._set(min(self._i, self._allowed()))
        return True

    def step_up(self):
        """Takes back the last step down."""
        if self._tops:
            self._top = self._tops.pop()

    def _hold(self):
        if self._held:
            return False
        self._held = True
        self._set(0)

    def _release(self):
        self._held = False

    def _allowed(self):
        return 0 if self._held else self._top

    # ------------------------------------------------------------------------ choosing

    def _clear(self):
        self._n = self._sum = self._low = 0

    def _learn(self, took):
        us = self._us
        i = self._i
        old = us[i]
        if not old:
            us[i] = took
            return
        us[i] = new = max(1, old + (took - old) // 2)
        # What makes a token slower at one level (a longer context) does at all of them.
        for j in range(len(us)):
            if j != i and us[j]:
                us[j] = max(1, us[j] + us[j] * (new - old) // old)

    def _budget(self, gap):
        """Microseconds that a token may take."""
        queue = self._queue
        period = self._period // (max(1, queue()) if queue else 1)
        # A reader that is slower than the rate makes it impossible to keep, at any clock.
        return period - gap if gap < period else period

    def _guess(self, j):
        """Microseconds that a token takes at a level: as measured, else from two that were (its
        memory takes the same at each, its computing goes by 1 / clock), else as if it were
        computing all the time. 0 if nothing is known."""
        us = self._us
        if us[j]:
            return us[j]
        a = b = -1  # the lowest and the highest that were measured
        for i in range(len(us)):
            if us[i]:
                a, b = (i if a < 0 else a), i
        if a < 0:
            return 0
        at_j, at_a, at_b = self._cycle(j), self._cycle(a), self._cycle(b)
        all_compute = us[b] * at_j // at_b
        if at_a <= at_b:
            return all_compute
        line = us[b] + max(0, us[a] - us[b]) * (at_j - at_b) // (at_a - at_b)
        return max(line, all_compute) if j > b else line

    def _cycle(self, i):
        return 100_000 // max(1, self.levels[i] // 1_000_000) or 1

    def _slowest(self, budget):
        """The lowest level at which a token takes no more; the highest allowed if there is
        none."""
        top = self._allowed()
        for i in range(top):
            if self._guess(i) <= budget:
                return i
        return top

    def _least_energy(self):
        """The level at which a token takes the least energy; the lowest if that is not known."""
        if not self.power or not self._guess(0):
            return 0
        top = self._allowed()
        best = min(self._i, top)
        for i in range(top + 1):
            if self._energy(i) * 100 < self._energy(best) * (100 - _MARGIN):
                best = i
        return best

    def _energy(self, i):
        return self._guess(i) * (milliwatts(self.power, self.levels[i]) or 1_000_000)

    # ------------------------------------------------------------------------ changing

    def _set(self, i):
        if self._found is None:
            return
        if i == self._i and (self.hz == self.levels[i] or i == len(self.levels) - 1):
            return  # (found above the highest level: as high as can be)
        self._count()
        hz = self.levels[i]
        try:
            self._change(hz)
        except ValueError:  # the chip does not take it: the next one then
            if len(self.levels) > 1:
                self._forget(i)
                self._set(min(i, self._allowed()))
            return
        self._i = i
        if self.hz != hz:  # it took the next lower one
            if self.hz in self.levels:
                self._forget(i)  # which finds its place
            else:
                self.levels[i] = self.hz
        self._clear()

    def _change(self, clock):
        uarts = self._uarts
        for uart, _ in uarts:
            try:
                hal.drain(uart)
            except OSError:  # it does not drain, someone holds it up
                pass
        if self._bypass and hal.hertz(clock) > self.levels[0]:
            self._bypass(True)
        try:
            hal.set_clock(clock)
        finally:
            self.hz = hal.hertz(hal.clock())
            for uart, baud in uarts:
                hal.set_baud(uart, baud)
            if self._bypass and self.hz <= self.levels[0]:
                self._bypass(False)

    def _forget(self, i):
        for column in (self.levels, self._us, self._ms):
            del column[i]
        self._top = max(0, self._top - (i <= self._top))
        self._tops = [max(0, top - (i <= top)) for top in self._tops]
        self._i = max([j for j, hz in enumerate(self.levels) if hz <= self.hz] + [0])

    # ------------------------------------------------------------------------ figures

    def _count(self):
        now = hal.ticks_ms()
        self._ms[self._i] += max(0, hal.ticks_diff(now, self._since))
        self._since = now

    def residency(self):
        """Milliseconds at each level in hertz, while at work."""
        if self._found is not None:
            self._count()
        return dict(zip(self.levels, self._ms))

    def times(self):
        """Microseconds that a token takes at each level in hertz: as measured, else expected; 0
        as long as nothing is known."""
        return dict(zip(self.levels, [self._guess(i) for i in range(len(self.levels))]))


def _pin(pin):
    return lambda on: hal.drive(pin, on)


def _switch(thing):
    """A function that switches a peripheral on and off."""
    if hasattr(thing, "active"):  # Wi-Fi, Bluetooth
        return thing.active
    if hasattr(thing, "init") and hasattr(thing, "deinit"):
        return lambda on: thing.init() if on else thing.deinit()
    if callable(thing):
        return thing
    raise TypeError("peripherals: each must have active(), or init() and deinit(), or be callable")
