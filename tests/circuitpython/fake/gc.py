"""`gc`, of docs/library/gc.rst."""

import gc as _gc

enable = _gc.enable
disable = _gc.disable


def collect():
    _gc.collect()


def mem_alloc():
    return 100_000


def mem_free():
    return 200_000


def threshold(amount=-1):
    return -1
