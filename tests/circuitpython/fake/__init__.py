"""What CircuitPython 10 documents of the modules that `llm` may use, for tests on a desk.

Only what is documented is here, with the documented signatures (test_circuitpython.py compares
them with the package circuitpython-stubs) and the documented exceptions. Where the documentation
says "on some boards" a chip decides: `chip` names it.
"""

chip = "ESP32-S3"
"""What the modules play: "ESP32-S3" or "nRF52840". Set it before they are imported."""


def only_instance(what):
    """For a class of which the user cannot make instances."""

    def __init__(self):
        raise TypeError(f"cannot create '{what}' instances")

    return __init__
