"""`sys`, of docs/library/sys.rst. Its standard streams are text and cannot be flushed."""

import sys as _sys
from types import SimpleNamespace

import fake

byteorder, exit, maxsize, modules, path = (
    getattr(_sys, name) for name in ("byteorder", "exit", "maxsize", "modules", "path")
)
argv = [""]
implementation = SimpleNamespace(
    name="circuitpython", version=(10, 3, 1), _machine=f"A board with {fake.chip}", _mpy=262
)
platform = {"ESP32-S3": "Espressif", "nRF52840": "nRF52840"}[fake.chip]
version = "3.4.0; Adafruit CircuitPython 10.3.1"
version_info = (3, 4, 0)


class TextIOWrapper:
    def __init__(self, stream):
        self._stream = stream

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError("a text stream takes str")
        return self._stream.write(text)

    def read(self, n=-1):
        return self._stream.read(n)

    def readline(self):
        return self._stream.readline()


stdin, stdout, stderr = map(TextIOWrapper, (_sys.stdin, _sys.stdout, _sys.stderr))
