# What memory() says is what the heap gives; nothing grows; between tokens nothing is allocated but
# the text; buffers, lists and callbacks that change under a model do no harm. MicroPython only.
# VECTORS: the folder of the images.
# ruff: noqa: F821 (the runner defines the names in capitals)
import gc
import struct

import llm
import micropython

engine = llm.hal.engine
with open(VECTORS + "tiny-int4.llm", "rb") as file:
    image = file.read()
model = before = after = used = None
block = 32  # bytes, at most, that the heap rounds up to


def allocated():
    gc.collect()
    return gc.mem_alloc()


print("what memory() says")
for context in (1, 10, 64):
    for cache in ("int8", "f32"):
        before = allocated()
        gc.disable()  # what was garbage then, and only seemed to be in use, stays until the end
        model = engine.Model(image, context=context, cache=cache)
        used = gc.mem_alloc() - before
        gc.enable()
        memory = model.memory()
        ram = memory["ram"]
        assert 0 <= used - ram < 2 * block, (used, ram)
        before = gc.mem_alloc()
        model.close()
        assert before - gc.mem_alloc() >= ram - memory["object"] - 2 * block  # which stays

print("nothing grows")
sampler = engine.Sampler(temperature=1)
for close in (True, False):
    for n in (3, 1000):
        for _ in range(n):
            model = engine.Model(image, context=8, verify=False)
            model.eval([1, 2, 3])
            model.sample(sampler)
            if close:
                model.close()
        model = None
        used = allocated()
        if n == 3:
            before = used
    # Less than one block for each model, though one more of them than before, of which a pointer
    # is left somewhere on the stack, may seem to be in use.
    assert used - before < 10000, used - before

print("nothing is allocated between tokens")
model = engine.Model(image)
decoder = engine.Decoder(model)


def locked():
    pieces = "a", "b"  # strings that exist already need no RAM
    token = 1
    micropython.heap_lock()
    try:
        for i in range(60):
            model.eval(token)
            token = model.sample(sampler)
            assert decoder.feed(100 + i % 2) == pieces[i % 2]
    finally:
        micropython.heap_unlock()


locked()
print(model.n_tokens)

print("nor by a generator")


class Script(llm.Model):
    # A model that writes "abab...".
    def sample(self, sampler):
        super().sample(sampler)
        return 100 + self.n_tokens % 2


def lock_while_generating():
    gen = llm.Generator(Script(image))
    pieces = gen.generate("then", max_tokens=50)
    n = len(next(pieces))
    micropython.heap_lock()
    try:
        for piece in pieces:
            n += len(piece)
    finally:
        micropython.heap_unlock()
    return n, gen.ids == [100 + (gen.ids[0] + i) % 2 for i in range(50)], gen.stop_reason


print(*lock_while_generating())

print("but for the piece of text")


def growth(pieces):
    # Of each piece but the first: the bytes of its text, and those by which the heap has grown.
    sizes, grown, n = bytearray(64), bytearray(64), 0
    next(pieces)
    gc.collect()
    gc.disable()
    before = gc.mem_alloc()
    for piece in pieces:
        grown[n] = gc.mem_alloc() - before
        sizes[n] = len(piece.encode())
        n += 1
        before = gc.mem_alloc()
    gc.enable()
    return sizes[:n], grown[:n]


gen = llm.Generator(llm.load(image), temperature=1, seed=5)
sizes, grown = growth(gen.generate("then the hen"))
print(len(gen.ids), len(sizes), sum(sizes))
unit = 4 * struct.calcsize("P")  # the heap's, and the size of a str without its text
for size, n in zip(sizes, grown):
    assert n <= unit + (size // unit + 1) * unit, (size, n)  # the text ends with a zero
assert sum(grown) > 0

print("and its bytes, for a stream")


class Measured:
    # Of each piece: the bytes of its text, and those by which the heap has grown since the last.
    def __init__(self):
        self.sizes, self.grown, self.n, self.before = bytearray(64), bytearray(64), 0, 0

    def write(self, data):
        if self.n:
            self.grown[self.n] = gc.mem_alloc() - self.before
        self.sizes[self.n] = len(data)
        self.n += 1
        self.before = gc.mem_alloc()
        return len(data)

    def any(self):
        return 0


measured = Measured()
gc.collect()
gc.disable()
gen.stream("then the hen", measured)
gc.enable()
for size, n in zip(measured.sizes[1:], measured.grown[1:]):
    assert n <= 2 * (unit + (size // unit + 1) * unit), (size, n)
print(measured.n, len(gen.ids))

print("collecting all the time")
with llm.load(image) as other:
    gen = llm.Generator(other, temperature=1, seed=5)
    list(gen.generate("then the hen", max_tokens=40))
    ids = gen.ids
    gc.threshold(200)
    gen = llm.Generator(other, temperature=1, seed=5)
    for _ in gen.generate("then the hen", max_tokens=40):
        gc.collect()
    gc.threshold(-1)
    assert gen.ids == ids

print("a buffer that is resized, and one that nothing else holds")
data = bytearray(image)
model = engine.Model(data)
model.eval(1)
data.extend(bytes(1000))
for call in (lambda: model.eval(1), model.logits, model.tokens, model.memory):
    try:
        call()
    except ValueError as error:
        print(error)
model.close()
model = engine.Model(bytearray(image))
data = None
gc.collect()
junk = [bytearray(b"x" * 5000) for _ in range(10)]
model.verify()
junk = None

print("a list that changes, a model that is used or closed, while it evaluates")


def change_while_evaluating(change):
    global model
    tokens = [1, 2, 3] * 10
    model = engine.Model(image, block=4)
    try:
        micropython.schedule(change, tokens)
        model.eval(tokens)
        print(model.tokens() == [1, 2, 3] * 10, len(tokens))
    except (ValueError, RuntimeError) as error:
        print(type(error).__name__, error)


change_while_evaluating(lambda tokens: tokens.clear())
change_while_evaluating(lambda tokens: model.eval(5))
change_while_evaluating(lambda tokens: model.close())


class Odd:
    # Says that it has tokens, and closes the model when asked for them.
    def __len__(self):
        return 40

    def __getitem__(self, i):
        model.close()
        return 1


model = engine.Model(image)
try:
    model.eval(Odd())
except ValueError as error:
    print(error)
