# A cache in little RAM, pages that spill, states in files.
# VECTORS: the folder of the images. SCRATCH: a folder for files.
# ruff: noqa: F821 (the runner defines the names in capitals)
import io
import os
from array import array

import llm

path = VECTORS + "tiny-int8.llm"
name = SCRATCH + "state.bin"
TOKENS = [1] + [(i * 37 + 5) % 285 for i in range(199)]


def fails(kind, function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except kind as error:
        print(type(error).__name__ + ":", error.args[0])
    else:
        print("nothing was raised by", function, args, kwargs)


print("states")
for cache, kv in (("int8", "static"), ("int8", "paged"), ("f32", "auto"), ("int4", "auto")):
    for n in (0, 50, 150):
        model = llm.load(path, context=64, cache=cache, kv=kv)
        model.eval(TOKENS[:n])
        with open(name, "wb") as file:
            model.save_state(file)
        size = os.stat(name)[6]
        other = llm.load(path, context=64, cache=cache, kernels="ref")
        other.eval([9] * 30)
        with open(name, "rb") as file:
            other.load_state(file)
        print(cache, kv, n, size, other.n_tokens)
        assert other.tokens() == model.tokens()
        for token in (7, 8, 9):
            model.eval(token)
            other.eval(token)
            assert bytes(model.logits()) == bytes(other.logits())
        model.close()
        other.close()

# A system prompt that is paid for once.
model = llm.load(path)
text = "then the hen and the hen"
ids = model.encode(text)
model.eval(ids)
with open(name, "wb") as file:
    model.save_state(file)
want = list(llm.Generator(model, temperature=0).generate(text, max_tokens=9))
model.rewind(0)
with open(name, "rb") as file:
    model.load_state(file)
print(model.reuse(ids + [3]) == len(ids))
assert list(llm.Generator(model, temperature=0).generate(text, max_tokens=9)) == want

print("damage")
with open(name, "rb") as file:
    state = bytearray(file.read())


def load(data, model=model):
    file = io.BytesIO(data)
    model.eval(1)
    try:
        model.load_state(file)
    except ValueError as error:
        assert model.n_tokens == 0
        return error.args[0]


for at in (0, 8, 20, 70, 80, 100, len(state) - 1):
    state[at] ^= 1
    print(load(state))
    state[at] ^= 1
for n in (0, 71, 72, 100, len(state) - 1):
    print(load(state[:n]))
print(load(state), model.n_tokens == len(ids))
print(load(state, llm.load(VECTORS + "tiny-int4.llm")))
print(load(state, llm.load(path, cache="f32")))
print(load(state, llm.load(path, context=8)))


class Failing(getattr(io, "IOBase", object)):  # which only MicroPython's streams must be
    # A file in memory that fails once so many bytes have passed, after doing something.
    def __init__(self, left, act=None):
        self.left = left
        self.act = act
        self.data = bytearray(60000)
        self.at = 0

    def seek(self, offset, whence=0):
        self.at = offset
        return offset

    def ioctl(self, request, argument):
        return 0

    def _count(self, n):
        self.left -= n
        if self.left < 0:
            if self.act:
                self.act()
            raise OSError(5, "gone")

    def readinto(self, buffer):
        self._count(len(buffer))
        buffer[:] = self.data[self.at : self.at + len(buffer)]
        self.at += len(buffer)
        return len(buffer)

    def read(self, n=-1):
        buffer = bytearray(n)
        self.readinto(buffer)
        return buffer

    def write(self, data):
        self._count(len(data))
        self.data[self.at : self.at + len(data)] = data
        self.at += len(data)
        return len(data)


def os_error(function, *args):
    try:
        function(*args)
    except OSError as error:
        print("OSError", error.errno)
    except RuntimeError as error:
        print("RuntimeError", error.args[0])


model.eval(ids)
os_error(model.save_state, Failing(300))
os_error(model.load_state, Failing(30))
print(model.n_tokens)
model.eval(ids)
os_error(model.save_state, Failing(300, lambda: model.eval(1)))
os_error(model.save_state, Failing(300, model.close))
print(model.n_tokens)

print("ram")
plenty = llm.load(path).memory()
need = plenty["ram"] - plenty["object"]
model = llm.load(path, ram=need)
print(model.memory() == plenty, model.kv)
model = llm.load(path, policy="error", ram=need + 1000)
print(model.memory()["ram"] <= need + 1000 + plenty["object"])
try:
    llm.load(path, ram=need // 2)
except MemoryError as error:
    print(error.args[0].split(" bytes")[0].split(":")[0], str(need // 2) in error.args[0])


def run(**options):
    # A digest of the logits of 200 tokens, and what happened.
    model = llm.load(path, context=64, kv="paged", **options)
    logits = array("f", [0.0] * model.vocab_size)
    sha256 = llm.hal.sha256()
    for token in TOKENS:
        model.eval(token)
        sha256.update(model.logits(logits))
    events = []
    while True:
        event = model.event()
        if not event:
            break
        events.append(event)
    memory = model.memory()
    model.close()
    return sha256.digest(), events, memory


plain, events, memory = run()
unit = memory["kv"] // 6
need = memory["ram"] - memory["object"]
print(events, memory["kv_used"] // unit)
print("pressure")
logits, events, memory = run(ram=need - unit)
print(logits == plain, events, memory["kv"] // unit, memory["kv_used"] // unit)
print("spill")
for kind in ("buffer", "file"):
    # Buffers of MicroPython begin at a multiple of 16; those of CPython may not.
    spill = open(name, "w+b") if kind == "file" else array("d", [0.0] * (6 * unit // 8))
    logits, events, memory = run(ram=need - 2 * unit, spill=spill)
    print(kind, logits == plain, events, memory["kv"] // unit, memory["spill_used"] // unit)
    if kind == "file":
        spill.close()
fails(MemoryError, run, ram=need - 2 * unit, spill=bytearray(unit))
os_error(lambda: run(ram=need - 2 * unit, spill=Failing(20000)))
os.remove(name)
