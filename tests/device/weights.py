# Weights that are read piece by piece, from files and block devices good and bad.
# VECTORS: the folder of the images.
# ruff: noqa: F821 (the runner defines the names in capitals)
import random

import llm


def logits(model):
    # Of a prompt of several blocks, and of tokens one by one.
    sha256 = llm.hal.sha256()
    model.rewind(0)
    for part in [list(range(1, 20))] + list(range(5)):
        model.eval(part)
        sha256.update(bytes(model.logits()))
    return sha256.digest()


class File:
    # Gives as little as it likes, and fails when it is told to.
    def __init__(self, data):
        self.data = data
        self.at = 0
        self.left = 0

    def seek(self, offset, whence=0):
        self.at = offset + (0, self.at, len(self.data))[whence]
        return self.at

    def readinto(self, buf):
        if self.left:
            self.left -= 1
            if not self.left:
                raise OSError(5, "no card")
        n = min(random.randrange(1, len(buf) + 1), max(len(self.data) - self.at, 0))
        buf[:n] = self.data[self.at : self.at + n]
        self.at += n
        return n


class Card:
    # A block device that knows whole blocks only, like an SD card.
    size = 512

    def __init__(self, data):
        self.data = data
        self.result = None

    def ioctl(self, op, arg):
        if op == 4:
            return -(-len(self.data) // self.size)
        return self.size if op == 5 else None

    def readblocks(self, block, buf):
        assert len(buf) % self.size == 0
        at = block * self.size
        content = self.data[at : at + len(buf)]
        buf[: len(content)] = content
        return self.result


class Flash(Card):
    # One that can begin anywhere.
    size = 4096

    def readblocks(self, block, buf, offset):
        at = block * self.size + offset
        content = self.data[at : at + len(buf)]
        buf[: len(content)] = content
        return self.result


def fails(kind, function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except kind as error:
        text = str(error.args[-1]).replace(VECTORS, "")
        for digit in "123456789":  # where it was depends on how much is read at once
            text = text.replace(digit, "0")
        while "00" in text:
            text = text.replace("00", "0")
        if (
            kind is OSError and " at 0" in text
        ):  # the rest is the words of the Python that runs this
            text = text[: text.find(" at 0") + 5]
        print(type(error).__name__ + ":", text)
    else:
        print("nothing was raised")


random.seed(1)
for name in ("tiny-f32", "tiny-int8", "tiny-int4"):
    path = VECTORS + name + ".llm"
    with open(path, "rb") as file:
        image = file.read()
    with llm.load(image) as model:
        want = logits(model)
    good = 0
    with open(path, "rb") as file:
        for source in (path, file, File(image), Card(image), Flash(image)):
            for stream in (True, 1, 700, 131072):
                with llm.load(source, stream=stream) as model:
                    assert logits(model) == want, (name, source, stream)
                    model.verify()
                    stats = model.stream_stats()
                    assert stats["range"] > 0 and stats["bytes"] > 100000
                    assert 0 <= stats["waiting"] <= 1
                    good += 1
    print(name, good, want.hex()[:16])

print("a story")
with llm.load(path) as model:
    want = list(llm.Generator(model, seed=3).generate("the hen", max_tokens=40))
with llm.load(path, stream=True) as model:
    print(list(llm.Generator(model, seed=3).generate("the hen", max_tokens=40)) == want)

print("a file that fails")
file = File(image)
model = llm.load(file, stream=700)
want = logits(model)
for n in range(1, 200, 7):
    model.rewind(0)
    file.left = n
    try:
        model.eval([1, 2, 3])
        print("nothing was raised")
    except OSError as error:
        assert error.errno == 5 and model.n_tokens == 0
print(logits(model) == want)
file.left = 3
fails(OSError, model.eval, 1)
file.data = image[: len(image) // 2]
fails(OSError, model.eval, 1)
with open(VECTORS + "tiny-int8.llm", "rb") as other:
    file.data = other.read()
fails(OSError, model.eval, 1)
fails(ValueError, model.verify)
file.data = image
print(logits(model) == want)
model.close()
fails(ValueError, model.stream_stats)

print("a card that fails")
card = Card(image)
model = llm.load(card, stream=True)
card.result = False
fails(OSError, model.eval, 1)
card.result = True
model.eval(1)
card = Flash(image)
model = llm.load(card, stream=True)
card.result = -19
fails(OSError, model.eval, 1)

print("what cannot be")
try:
    llm.load(VECTORS + "absent.llm", stream=True)
except OSError as error:
    print("OSError:", error.errno)
fails(TypeError, llm.load, 5, stream=True)
fails(TypeError, llm.load, image, stream=True)
fails(ValueError, llm.load, File(b""), stream=True)
fails(ValueError, llm.load, File(image[:-64]), stream=True)
fails(ValueError, llm.load, File(image), stream=131073)
fails(TypeError, llm.load, File(image), stream=0.5)
with llm.load(image) as model:
    print(model.memory()["stream"])
    fails(ValueError, model.stream_stats)
