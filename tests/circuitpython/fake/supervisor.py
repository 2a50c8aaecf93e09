"""`supervisor`: the clock that wraps, and what waits at the console."""

from . import only_instance, wall

_PERIOD = 1 << 29
_FIRST = _PERIOD - 65_536  # so that it wraps 65 seconds after power-on


def ticks_ms():
    return (_FIRST + wall.now_ns() // 1_000_000) % _PERIOD


class Runtime:
    __init__ = only_instance("Runtime")

    _waiting = b""

    @property
    def serial_connected(self):
        return True

    @property
    def serial_bytes_available(self):
        return len(self._waiting)

    @property
    def usb_connected(self):
        return True


runtime = object.__new__(Runtime)
