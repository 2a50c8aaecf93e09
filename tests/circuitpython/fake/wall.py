"""Time in the fakes: real, or as a test sets it."""

import time

_STARTED = time.monotonic_ns()
ahead_ns = 0
"""What a test adds to the time."""


def now_ns():
    """Nanoseconds since the board has started."""
    return time.monotonic_ns() - _STARTED + ahead_ns
