"""What MicroPython and CircuitPython do alike, for `hal`."""

import gc


def mem_free():
    gc.collect()
    return gc.mem_free()


def mem_used():
    return gc.mem_alloc()


def view(file):
    # Where files lie in mapped flash (ROMFS) a memoryview of one is its contents.
    try:
        return memoryview(file)
    except TypeError:
        return None


def with_path(error, path):
    if isinstance(error.errno, int):
        return OSError(error.errno, path)
    return OSError(f"{path}: {error}")
