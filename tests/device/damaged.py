# Damaged images are refused with a message that names the field; one that is accepted without
# reading its checksums runs, if not well. Nothing is read outside the buffer.
# VECTORS: the folder of the images and of damaged.json.
# ruff: noqa: F821 (the runner defines the names in capitals)
import json

import llm

with open(VECTORS + "tiny-int4.llm", "rb") as file:
    good = file.read()
with open(VECTORS + "damaged.json") as file:
    damages = json.load(file)
data = bytearray(good)


def run():
    with llm.load(data, verify=False) as model:
        gen = llm.Generator(model, temperature=1, seed=1)
        for prompt in ("the", "é\nzoo"):
            list(gen.generate(prompt, max_tokens=3))
        llm.Tokenizer(model).decode(range(0, model.vocab_size, 7))
        repr(model), model.memory(), model.config()


for damage in damages:
    for at, value in damage["patches"]:
        data[at] = int(value, 16)
    try:
        llm.load(data)
        print("accepted:", damage["name"])
    except ValueError as error:
        if damage["field"] not in str(error):
            print(damage["name"], error)
    try:
        run()
    except ValueError:
        pass
    for at, _ in damage["patches"]:
        data[at] = good[at]
assert data == good
print(len(damages) > 100)

# Bytes changed at random, anywhere after the header, whose checksum would notice.
refused = 0
state = 1
for _ in range(400):
    places = []
    for _ in range(4):
        state = (state * 1103515245 + 12345) & 0x3FFFFFFF
        at = 192 + (state >> 8) % (len(good) - 192)
        if state & 0x4000000:
            at = 192 + at % 4900  # where the tables are
        places.append(at)
        data[at] ^= 1 << (state >> 5) % 8
    try:
        run()
    except ValueError:
        refused += 1
    for at in places:
        data[at] = good[at]
assert data == good
print(refused > 0)
