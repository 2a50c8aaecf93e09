"""`digitalio`: pins that are inputs at first."""

from . import microcontroller

_taken = set()


def claim(pin):
    """Takes a pin, as every user of one does."""
    if not isinstance(pin, microcontroller.Pin):
        raise TypeError("pin must be of type Pin")
    if pin in _taken:
        raise ValueError("Pin in use")
    _taken.add(pin)


def release(pin):
    """Gives it back."""
    _taken.discard(pin)


class Direction:
    INPUT = object()
    OUTPUT = object()


class Pull:
    UP = object()
    DOWN = object()


class DriveMode:
    PUSH_PULL = object()
    OPEN_DRAIN = object()


class DigitalInOut:
    def __init__(self, pin):
        claim(pin)
        self._pin = pin
        self._output = False
        self._value = False
        self._pull = None

    def deinit(self):
        if self._pin is not None:
            release(self._pin)
        self._pin = None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.deinit()

    def _check(self):
        if self._pin is None:
            raise ValueError("Object has been deinitialized and can no longer be used.")

    def switch_to_output(self, value=False, drive_mode=DriveMode.PUSH_PULL):
        self._check()
        self._output = True
        self._value = bool(value)

    def switch_to_input(self, pull=None):
        self._check()
        self._output = False
        self._pull = pull

    @property
    def direction(self):
        self._check()
        return Direction.OUTPUT if self._output else Direction.INPUT

    @direction.setter
    def direction(self, direction):
        if direction is Direction.OUTPUT:
            self.switch_to_output()
        elif direction is Direction.INPUT:
            self.switch_to_input()
        else:
            raise ValueError("Invalid direction")

    @property
    def value(self):
        self._check()
        return self._value

    @value.setter
    def value(self, value):
        self._check()
        if not self._output:
            raise AttributeError("Cannot set value when direction is input.")
        self._value = bool(value)

    @property
    def pull(self):
        self._check()
        if self._output:
            raise AttributeError("Pull not used when direction is output.")
        return self._pull
