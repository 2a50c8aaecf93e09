"""What differs between MicroPython, CircuitPython and CPython, or by hardware. Only this package
knows. Each of the three modules has all of this:

engine: the module documented in `_llm.pyi`.
ticks_ms(), ticks_us(): time since some moment in the past; they wrap at a power of two, 2**29 at
  the least. ticks_diff(end, start): from `start` to `end`, if that is less than half as much.
mem_free(), mem_used(): bytes of the heap; 0 where they are not known. Both look at all of it.
random_seed(): differs from one start to the next, where there is a source of such numbers.
sha256(data=b""): an object with `update` and `digest`.
view(file): the contents of an open binary file in place, or None.
mapped(address, size): memory at an address, in place. OSError if this Python cannot do that.
with_path(error, path): an OSError that names the file that `error` is about.
stdout(): the terminal. is_text(stream): whether it takes str, not bytes.
waiting(stream=None): how many bytes, at least, can be read now; of the terminal if None.
read(stream=None): at least one of them, b"" if the other end is closed.
has_keys(): whether the terminal gives keys one by one, unless asked to. unbuffer(): asks it to;
  returns a function that undoes it.
sleep_ms(ms): waits.
drive(pin, on): puts an output high or low.
drain(uart): waits until all that was written has left. set_baud(uart, baud): sets its rate anew.
clock(): what `set_clock` takes to come back to the clock of now; None if that is not known.
set_clock(clock): sets it, to that or to so many hertz. ValueError if the chip does not take it.
hertz(clock): of the processor, by what `clock` returned; 0 for None.
levels(): the rates in hertz that make sense on this chip, ascending; empty if it has but one.
temperature(): of the chip in degrees Celsius, or None.
voltage(): of its supply in volts, or None.
"""

import sys

if sys.implementation.name == "micropython":
    from .micropython import *  # noqa: F403
elif sys.implementation.name == "circuitpython":
    from .circuitpython import *  # noqa: F403
else:
    from .cpython import *  # noqa: F403


def write(stream, text):
    """Writes all of `text`, as UTF-8 unless it is a text stream, however little is taken at a
    time.

    A stream that takes nothing (0 or None) is waited for if it can be polled. None from one that
    cannot is what a plain Python method returns, and means that it took everything.
    """
    if is_text(stream):  # noqa: F405
        stream.write(text)
        if hasattr(stream, "flush"):  # CircuitPython's have none
            stream.flush()
        return
    data = text.encode()
    n = stream.write(data)
    while n != len(data):
        if n:
            data = data[n:]
        elif not _wait(stream):
            return
        n = stream.write(data)


def _wait(stream):
    """Waits until a stream is ready for writing; False if that cannot be known."""
    try:
        import select

        poll = select.poll()
        poll.register(stream, select.POLLOUT)
    except (ImportError, OSError, AttributeError, TypeError, ValueError):
        return False
    poll.poll(1000)
    return True
