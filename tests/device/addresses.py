# Models at addresses of memory: a buffer's here, mapped flash's on a board.
# VECTORS: the folder of the images, with a slash at its end.
# ruff: noqa: F821 (the runner defines the names in capitals)
import sys

import llm

with open(VECTORS + "tiny-int4.llm", "rb") as file:
    image = file.read()


def story(source):
    with llm.load(source) as model:
        gen = llm.Generator(model, temperature=0)
        list(gen.generate("the", max_tokens=8))
        model.verify()
    return gen.ids


if sys.implementation.name == "micropython":
    import uctypes

    address = uctypes.addressof(image)
else:
    import ctypes

    address = ctypes.addressof(ctypes.c_char.from_buffer(data := bytearray(image)))
print(story(address) == story((address, len(image))) == story(image))
for source in ((address, 500), address + 64, 12, 0, (address, 1, 2), (address, "1"), ("1", 1)):
    try:
        story(source)
    except (ValueError, TypeError) as error:
        message = error.args[0].replace(hex(address + 64), "...")
        print(type(error).__name__, message if isinstance(error, ValueError) else "")
