"""`time`: shared-bindings/time. No sleep_ms, no ticks_ms, no perf_counter."""

import time as _time

from . import wall

struct_time = _time.struct_time


def monotonic():
    return wall.now_ns() // 1_000_000 / 1000


def monotonic_ns():
    return wall.now_ns()


def sleep(seconds):
    _time.sleep(seconds)


def time():
    return int(_time.time())


def localtime(secs=None):
    return _time.localtime(secs)


def mktime(t):
    return int(_time.mktime(t))
