# The governor, limits and metrics on a chip that is played here: the same on every Python.
# VECTORS: the folder of the images.
# ruff: noqa: F821 (the runner defines the names in capitals)
import json

import llm

hal = llm.hal
MHZ = 1_000_000


class Chip:
    def __init__(self):
        self.hz = 240 * MHZ
        self.us = 0
        self.log = []

    def clock(self):
        return self.hz

    def set_clock(self, hz):
        if hz == 40 * MHZ:
            raise ValueError("not on this chip")
        self.log.append(hz // MHZ)
        self.hz = hz

    def play(self):
        hal.clock, hal.set_clock = self.clock, self.set_clock
        hal.levels = lambda: (40 * MHZ, 80 * MHZ, 160 * MHZ, 240 * MHZ)
        hal.ticks_ms = lambda: self.us // 1000
        hal.ticks_us = lambda: self.us
        hal.ticks_diff = lambda end, start: end - start
        hal.temperature = lambda: 40 + self.us // 1_000_000
        hal.mem_used = lambda: 1000


class Model(llm.Model):
    # A token takes this many million cycles, and 20 ms of memory.
    cycles = 3

    def eval(self, tokens):
        n = 1 if isinstance(tokens, int) else len(tokens)
        super().eval(tokens)
        chip.us += n * (self.cycles * MHZ * MHZ // chip.hz + 20_000)


chip = Chip()
chip.play()
model = Model(llm.load(VECTORS + "tiny-int4.llm")._buffer)


def clocks(gen, n):
    # How many tokens were made at which clock, in order.
    runs = []
    for _ in gen.generate("the", max_tokens=n):
        if not runs or runs[-1][0] != chip.hz // MHZ:
            runs.append([chip.hz // MHZ, 0])
        runs[-1][1] = len(gen.ids) - sum([count for _, count in runs[:-1]])
    assert chip.hz == 240 * MHZ
    return runs


print("policies")
power = {80: 116, 160: 180, 240: 239}
for policy in ("performance", "battery", "deadline"):
    chip.log = []
    governor = llm.Governor(policy, min_tps=27, power=power)
    gen = llm.Generator(model, temperature=0, governor=governor)
    metrics = llm.metrics(gen)
    print(policy, clocks(gen, 60), clocks(gen, 10), chip.log, governor.levels)
    print("   ", [us for _, us in sorted(governor.times().items())])
    print("   ", sorted(governor.residency().items()))
    figures = metrics.as_dict()
    print("   ", figures["energy_mj"] == metrics.as_dict()["energy_mj"] > 0, figures["tokens"])

print("figures")
for name in ("texts", "prompt_tokens", "tokens", "first_token_ms", "token_ms_p50", "token_ms_p99"):
    print("   ", name, figures[name])


class Stream:
    data = b""

    def write(self, data):
        self.data += bytes(data)
        return len(data)


stream = Stream()
metrics.emit(stream)
sent = json.loads(stream.data)
assert set(sent) == set(figures) and sent["residency_ms"] == figures["residency_ms"]
for line in metrics.prometheus().split("\n"):
    if line.startswith("llm_t") and "temperature" not in line and "per_second" not in line:
        print("   ", line)

print("limits")
governor = llm.Governor("performance")
gen = llm.Generator(model, temperature=0, governor=governor)
metrics = llm.metrics(gen)
metrics.limit("temperature", above=chip.us // 1_000_000 + 41, back=0, again=1)
governor.limits.on_event(lambda event: print("   ", event["event"], event["over"], event["steps"]))
governor.limits.on_event(lambda event: event["nothing"])
print("   ", clocks(gen, 60))
print("   ", clocks(gen, 60), type(governor.limits.error).__name__, governor.limits.fired)

print("the way out")
governor = llm.Governor("battery")
gen = llm.Generator(model, temperature=0, governor=governor)


class Broken:
    def write(self, data):
        assert chip.hz == 80 * MHZ
        raise OSError(5)


try:
    gen.stream("the", Broken())
except OSError:
    print("   ", chip.hz)
with governor:
    for _ in gen.generate("the"):
        break
    print("   ", chip.hz)
print("   ", chip.hz)
