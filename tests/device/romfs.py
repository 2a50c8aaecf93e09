# A model in ROMFS is read in place; one elsewhere is read into RAM, if there is enough.
# MicroPython only.
# VECTORS: the folder of the images, with a slash at its end. ROMFS: a ROMFS image that holds them,
# to be mounted, or "" if VECTORS is in ROMFS. SCRATCH: a folder to write to.
# ruff: noqa: F821 (the runner defines the names in capitals)
import gc

import llm


def story(source):
    with llm.load(source) as model:
        gen = llm.Generator(model, temperature=0)
        list(gen.generate("the", max_tokens=8))
    return gen.ids


copy = SCRATCH + "copy.llm"
with open(VECTORS + "tiny-int4.llm", "rb") as file:
    image = file.read()
with open(copy, "wb") as file:
    file.write(image)
ids = story(copy)
print(ids)

print("in place")
rom = VECTORS
if ROMFS:
    import vfs

    with open(ROMFS, "rb") as file:
        romfs = file.read()
    vfs.mount(vfs.VfsRom(romfs), "/test_rom")
    rom = "/test_rom/"
assert story(rom + "tiny-int4.llm") == ids
before = 0
model = None
gc.collect()
before = gc.mem_alloc()
model = llm.load(rom + "tiny-int4.llm")
gc.collect()
used = gc.mem_alloc() - before - model.memory()["ram"]
assert 0 < used < 1000, used
model.close()

print("not enough RAM: for the file, then for the model")


def starved(sources):
    # A function, since a new global name may need RAM.
    hog = []
    step = 8000
    while step > 100:
        try:
            hog.append(bytearray(step))
        except MemoryError:
            step //= 2
    for i in range(0, 12, 2):
        hog[i] = None  # leave gaps of 8000 bytes
    messages = []
    for source in sources:
        try:
            story(source)
        except MemoryError as error:
            messages.append(error.args[0])
    return messages


size = len(image)
image = model = None
for message in starved((copy, rom + "tiny-int4.llm")):
    words = message.split()
    needed, free = [int(word) for word in words if word.isdigit()]
    assert needed == (size if copy in message else needed) and needed > 10000 and free > 0
    print(" ".join([word for word in words if not word.isdigit() and "/" not in word]))
assert story(copy) == ids
