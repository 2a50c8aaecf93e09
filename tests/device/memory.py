# What memory() says is what the heap gives; nothing grows; nothing is allocated between tokens;
# buffers, lists and callbacks that change under a model do no harm. MicroPython only.
# VECTORS: the folder of the images.
# ruff: noqa: F821 (the runner defines the names in capitals)
import gc

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
        model = None
        before = allocated()
        model = engine.Model(image, context=context, cache=cache)
        used = allocated() - before
        ram = model.memory()["ram"]
        assert 0 <= used - ram < 2 * block, (used, ram)
        before = gc.mem_alloc()
        model.close()
        assert before - gc.mem_alloc() >= ram - 2 * block - 700

print("nothing grows")
sampler = engine.Sampler(temperature=1)
for close in (True, False):
    for n in (3, 100):
        for _ in range(n):
            model = engine.Model(image, context=8)
            model.eval([1, 2, 3])
            model.sample(sampler)
            if close:
                model.close()
        model = None
        used = allocated()
        if n == 3:
            before = used
    assert used - before < 2 * block, used - before

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
