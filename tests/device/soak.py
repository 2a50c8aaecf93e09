# Much text, in turns of every kind, with stops, errors and states in between: the heap must not
# grow, and what is written at the end must be what a new model writes.
# MODEL: path of an image; SCRATCH: a folder, with a slash; TOKENS: how many tokens at least.
# ruff: noqa: F821 (the runner defines the names in capitals)
import gc

import llm

SETTINGS = {"context": 64, "sequences": 2, "cache": "int8"}


class Uart:
    # Takes 20 bytes a call at most, and has typed at it, once it has taken `after` bytes, `typed`.
    def __init__(self, after=0, typed=b"", breaks=False):
        self.left = after
        self.typed = typed
        self.breaks = breaks

    def write(self, data):
        n = min(20, len(data))
        self.left -= n
        if self.breaks and self.left < 0:
            raise OSError(5)
        return n

    def any(self):
        return len(self.typed) if self.left <= 0 else 0

    @property
    def in_waiting(self):
        return self.any()

    def read(self, n):
        data = self.typed[:n]
        self.typed = self.typed[n:]
        return data or None


class Person(Uart):
    # Types a line at each prompt.
    def __init__(self, lines):
        super().__init__()
        self.lines = lines
        self.end = b""

    def write(self, data):
        n = super().write(data)
        self.end = (self.end + bytes(data[:n]))[-6:]
        if self.end == b"\r> \x1b[K" and self.lines:
            self.typed = self.lines.pop(0)
        return n


def writes():
    # What a model that has done nothing else writes, going past its context.
    gen = llm.Generator(model, temperature=0.9, seed=42)
    for _ in gen.generate("Once upon a time", max_tokens=100):
        pass
    return llm.digest(gen.ids)


def plain(i):
    gen = llm.Generator(model, seed=i, summarize="extract" if i % 2 else None)
    for _ in gen.generate("The cat", max_tokens=90, stop="zzz"):
        pass
    return len(gen.ids)


def left_half_way(i):
    gen = llm.Generator(model, seed=i)
    n = 0
    for _ in gen.generate("One day", max_tokens=50):
        n += 1
        if n == 20:
            break
    return len(gen.ids)


def stopped(i):
    gen = llm.Generator(model, seed=i, ansi="color")
    return gen.stream("She", Uart(100, b"\x1b"), max_tokens=60)["tokens"]


def broken(i):
    gen = llm.Generator(model, seed=i)
    try:
        gen.stream("He", Uart(60, breaks=True), max_tokens=60)
    except OSError:
        return len(gen.ids)


def refused(i):
    gen = llm.Generator(model, seed=i)
    for prompt, options in (
        ("a " * 300, {}),
        (b"\xff", {}),
        ("a", {"max_tokens": -1}),
        ("a", {"stop": ""}),
    ):
        try:
            gen.generate(prompt, **options)
        except ValueError:
            continue
        raise AssertionError(prompt)
    return 0


def chat(i):
    lines = [b"Hello\r", b"/stats\r", b"and then\r", b"/nonsense\r", b"/reset\r", b"/quit\r"]
    llm.chat(model, Person(lines), max_tokens=30, seed=i, summarize="extract")
    assert not lines
    return 60


def together(i):
    with llm.Scheduler(model) as scheduler:
        generators = [llm.Generator(model, seed=i + j) for j in range(3)]
        jobs = [scheduler.submit(gen, "It was", max_tokens=30) for gen in generators]
        scheduler.run()
        return sum([len(job.ids) for job in jobs])


def state(i):
    gen = llm.Generator(model, seed=i)
    for _ in gen.generate("Tom and", max_tokens=20):
        pass
    path = SCRATCH + "soak.state"
    with open(path, "wb") as file:
        model.save_state(file)
    before = model.tokens()
    model.rewind(0)
    with open(path, "rb") as file:
        model.load_state(file)
    assert model.tokens() == before
    return len(gen.ids)


TURNS = (plain, left_half_way, stopped, broken, refused, chat, together, state)

model = llm.load(MODEL, **SETTINGS)
fresh = writes()
done = 0
i = 0
least = most = 0
while done < TOKENS:
    for turn in TURNS:
        done += turn(i)
    i += 1
    gc.collect()
    used = gc.mem_alloc() if hasattr(gc, "mem_alloc") else 0
    if i == 2:  # what is imported and cached once is there now
        least = most = used
    least = min(least, used)
    most = max(most, used)
assert done >= TOKENS
print("the heap has grown" if used > least + 512 else "the heap has not grown")
same = writes() == fresh
model.close()
model = llm.load(MODEL, **SETTINGS)
print("the same text:", same and writes() == fresh)
# For `make soak`, which shows it; tests look at the lines above.
print(f"{done} tokens in {i} rounds, {least} to {most} bytes of heap")
