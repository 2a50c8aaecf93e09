# What `llm.hal` makes of CircuitPython's modules.
# CHIP: the chip that they play. wall: the fakes' time.
# ruff: noqa: F821 (the runner defines the names in capitals)
import board
import busio
import digitalio
import llm
import microcontroller
import supervisor

hal = llm.hal
assert hal.__name__ == "llm.hal" and hal.ticks_ms is supervisor.ticks_ms


def fails(kind, function, *args):
    try:
        function(*args)
    except kind as error:
        return str(error)
    raise AssertionError(function)


# Time goes on when the ticks wrap, 65 seconds after the start and then every 6 days.
before, us = hal.ticks_ms(), hal.ticks_us()
assert before > 1 << 28
wall.ahead_ns += 70_000_000_000
now = hal.ticks_ms()
assert now < before and 70_000 <= hal.ticks_diff(now, before) < 80_000
assert hal.ticks_diff(before, now) == -hal.ticks_diff(now, before)
assert 70_000_000 <= hal.ticks_diff(hal.ticks_us(), us) < 80_000_000
wall.ahead_ns += ((1 << 29) - 1000 - hal.ticks_us()) * 1000  # soon the microseconds wrap
us = hal.ticks_us()
wall.ahead_ns += 1_000_000_000
assert hal.ticks_us() < us and 1_000_000 <= hal.ticks_diff(hal.ticks_us(), us) < 2_000_000

# The terminal is text, a UART is bytes.
hal.write(hal.stdout(), "é\n")
uart = busio.UART(board.TX, None, baudrate=9600)
hal.write(uart, "é")
hal.drain(uart)
hal.set_baud(uart, 115200)
hal.write(uart, "x")
assert uart._sent == [(0xC3, 9600), (0xA9, 9600), (ord("x"), 115200)]
assert hal.waiting(uart) == hal.waiting() == 0
uart._received += b"ab"
supervisor.Runtime._waiting = b"abc"
assert (hal.waiting(uart), hal.waiting()) == (2, 3)
assert hal.read(uart) + hal.read(uart) == b"ab" and hal.read(uart) == b""
assert hal.has_keys() and hal.unbuffer()() is None
before = wall.now_ns()
hal.sleep_ms(3)
assert wall.now_ns() - before >= 3_000_000
uart.deinit()
fails(ValueError, hal.write, uart, "x")

# Pins.
with digitalio.DigitalInOut(board.D5) as pin:
    fails(AttributeError, hal.drive, pin, 1)
    pin.switch_to_output()
    hal.drive(pin, 1)
    assert pin.value is True
    hal.drive(pin, 0)
    assert pin.value is False

# The clock.
found = hal.clock()
assert hal.hertz(found) == microcontroller.cpu.frequency
if CHIP == "ESP32-S3":
    assert hal.levels() == (80_000_000, 160_000_000, 240_000_000)
    for hz in hal.levels():
        hal.set_clock(hz)
        assert hal.hertz(hal.clock()) == hz
    hal.set_clock(found)
    fails(ValueError, hal.set_clock, 80)
    assert (hal.temperature(), hal.voltage()) == (None, None)
else:
    assert hal.levels() == () and found == 64_000_000
    fails(ValueError, hal.set_clock, 32_000_000)
    assert (hal.temperature(), hal.voltage()) == (24.25, 3.3)

# The rest.
assert hal.mem_free() > hal.mem_used() > 0
assert hal.random_seed() != hal.random_seed()
assert hal.sha256(b"a").digest() == hal.sha256(b"a").digest() != hal.sha256().digest()
fails(OSError, llm.load, 0x60000000)
print("done")
