"""Figures that must not cross a limit, and what is done when they do."""

from . import hal


class Limits:
    """Figures that are looked at, each with a limit. See `__init__.pyi`."""

    def __init__(self):
        self.error = None
        self.fired = 0
        self._limits = []
        self._callbacks = []
        self._busy = False
        self._checked = None

    def add(self, name, read, *, above=None, below=None, back=None, act=None, undo=None, again=10):
        if (above is None) == (below is None):
            raise ValueError(f"{name}: give either above or below")
        limit = below if above is None else above
        sign = -1 if above is None else 1
        if back is None:
            back = limit
        if (back - limit) * sign > 0:
            raise ValueError(f"{name}: back is {back}, beyond the limit {limit}")
        # The last two change: how often it has fired and not been undone, and when it last did.
        self._limits.append([name, read, sign, limit, back, act, undo, int(again * 1000), 0, 0])

    def on_event(self, callback):
        self._callbacks.append(callback)
        return callback

    def check(self):
        """Looks at all of them, at most once a second."""
        now = hal.ticks_ms()
        if self._busy:  # an action or a callback makes text itself
            return
        if self._checked is not None and 0 <= hal.ticks_diff(now, self._checked) < 1000:
            return
        self._checked = now
        self._busy = True
        try:
            for limit in self._limits:
                self._check(limit, now)
        finally:
            self._busy = False

    def _check(self, limit, now):
        name, read, sign, border, back, act, undo, again, n, since = limit
        value = self._call(read)
        if value is None:
            return
        over = (value - border) * sign > 0
        if not over and (not n or (value - back) * sign > 0):
            return
        if n and 0 <= hal.ticks_diff(now, since) < again:
            return
        limit[9] = now
        if over:
            if act and self._call(act) is False:
                return  # it could do no more
            limit[8] = n + 1
        else:
            if undo:
                self._call(undo)
            # What cannot be undone step by step is over at once.
            limit[8] = n - 1 if undo else 0
        self.fired += 1
        for callback in self._callbacks:
            self._call(
                callback,
                {"event": name, "value": value, "limit": border, "over": over, "steps": limit[8]},
            )

    def _call(self, function, *args):
        # What the user gave may fail; the text goes on.
        try:
            return function(*args)
        except Exception as error:
            self.error = error
            return None
