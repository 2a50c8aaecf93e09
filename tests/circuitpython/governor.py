# The governor and the metrics with CircuitPython's own clock, pins, UART and time.
# CHIP: the chip that is played. IMAGE: of a model. wall: the fakes' time.
# ruff: noqa: F821 (the runner defines the names in capitals)
import json

import board
import busio
import digitalio
import llm
import microcontroller

cpu = microcontroller.cpu
found = cpu.frequency
MHZ = 1_000_000
low = {"ESP32-S3": 80 * MHZ, "nRF52840": 64 * MHZ}[CHIP]
high = {"ESP32-S3": 240 * MHZ, "nRF52840": 64 * MHZ}[CHIP]


class Model(llm.Model):
    # A token takes 20 million cycles.
    def eval(self, tokens):
        n = 1 if isinstance(tokens, int) else len(tokens)
        wall.ahead_ns += n * 20_000_000 * 1000 // (cpu.frequency // MHZ)
        super().eval(tokens)


pin = digitalio.DigitalInOut(board.D5)
pin.switch_to_output()
uart = busio.UART(board.TX, board.RX, baudrate=115200)
try:
    llm.Governor(peripherals=[uart])  # it has deinit(), but nothing brings it back
    raise AssertionError
except TypeError:
    pass
volts = cpu.voltage
with open(IMAGE, "rb") as file:
    model = Model(file.read())
log = []
governor = llm.Governor(
    "battery",
    bypass=pin,
    uarts=[(uart, 115200)],
    battery=llm.hal.voltage,
    peripherals=[log.append],
)
gen = llm.Generator(model, temperature=0, governor=governor)
metrics = llm.metrics(gen, power={64: 10, 80: 116, 160: 180, 240: 239})
clocks = set()
for _ in gen.generate("the", max_tokens=30):
    clocks.add((cpu.frequency, pin.value))
assert clocks == {(low, False)}, clocks
assert cpu.frequency == found and pin.value is (found > low)
assert log == [False, True] and governor.limits.error is None
try:
    for _ in gen.generate("the"):
        raise KeyboardInterrupt
except KeyboardInterrupt:
    pass
gen.stream("the", uart, max_tokens=4)
assert cpu.frequency == found and uart.baudrate == 115200
sent = bytes([byte for byte, rate in uart._sent if rate == 115200])
assert sent.decode() == "".join(gen.generate("the", max_tokens=4))

figures = metrics.as_dict()
assert figures["mhz"] == found // MHZ
assert figures["temperature"] == cpu.temperature
assert list(figures["residency_ms"]) == [str(hz // MHZ) for hz in governor.levels]
assert figures["energy_mj"] > 0 and figures["token_ms_p50"] >= 20_000 / (low // MHZ)
assert figures["heap_peak"] == 100_000
uart._sent.clear()
metrics.emit(uart)
assert json.loads(bytes([byte for byte, _ in uart._sent]))["texts"] == figures["texts"]
assert "llm_tokens_total" in metrics.prometheus()

governor = llm.Governor("performance")
gen = llm.Generator(model, temperature=0, governor=governor)
assert {cpu.frequency for _ in gen.generate("the", max_tokens=10)} == {high}
print("done")
