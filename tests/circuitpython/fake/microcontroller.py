"""`microcontroller`: the processor. Its clock can be set on some chips only."""

import fake

from . import only_instance


class Pin:
    __init__ = only_instance("Pin")


class ResetReason:
    POWER_ON = object()
    SOFTWARE = object()
    UNKNOWN = object()


class Processor:
    __init__ = only_instance("Processor")

    @property
    def frequency(self):
        return self._hz

    @property
    def temperature(self):
        return None if fake.chip == "ESP32-S3" else 24.25  # documented: not available there

    @property
    def voltage(self):
        return None if fake.chip == "ESP32-S3" else 3.3

    @property
    def uid(self):
        return bytearray(8)

    @property
    def reset_reason(self):
        return ResetReason.POWER_ON


if fake.chip == "ESP32-S3":

    def _set_frequency(self, hz):
        if not isinstance(hz, int):
            raise TypeError("can't convert to int")
        rates = [rate for rate in (20, 40, 80, 160, 240) if rate * 1_000_000 <= hz]
        if not rates:
            raise ValueError("Invalid frequency")
        self._hz = rates[-1] * 1_000_000

    Processor.frequency = Processor.frequency.setter(_set_frequency)
    Processor._hz = 240_000_000
else:
    Processor._hz = 64_000_000

cpu = object.__new__(Processor)
