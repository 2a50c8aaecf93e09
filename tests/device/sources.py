# Everything that a model can be loaded from.
# VECTORS: the folder of the images, with a slash at its end. SCRATCH: a folder to write to.
# ruff: noqa: F821 (the runner defines the names in capitals)
import os

import llm

path = VECTORS + "tiny-int4.llm"
with open(path, "rb") as file:
    image = file.read()


def story(source, **options):
    with llm.load(source, **options) as model:
        gen = llm.Generator(model, temperature=0)
        list(gen.generate("the", max_tokens=8))
        model.verify()
    return gen.ids


ids = story(image)
print(ids)

# Buffers: what follows the image does not count.
for data in (bytearray(image), memoryview(image), memoryview(image + bytes(100))):
    assert story(data) == ids
assert story(memoryview(bytes(16) + image)[16:]) == ids

# A file system that cannot show a file in place: the file is read into RAM, once.
copy = SCRATCH + "copy.llm"
with open(copy, "wb") as file:
    file.write(image)
assert story(copy) == ids
for data in (image[:5000], b""):
    with open(copy, "wb") as file:
        file.write(data)
    try:
        story(copy)
    except ValueError as error:
        print(str(error).replace(SCRATCH, ""))

# What cannot be read: each error names it.
os.mkdir(SCRATCH + "folder")
for name in ("absent.llm", "folder", "absent/m.llm", "copy.llm/m.llm", "n" * 300):
    try:
        story(SCRATCH + name)
    except OSError as error:
        print(name[:20], SCRATCH + name in str(error), error.errno is not None)
os.rmdir(SCRATCH + "folder")

print("done")
