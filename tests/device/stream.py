# Streams of every kind, slow ones and stuck ones; keys, stopping, pins.
# VECTORS: the folder of the images.
# ruff: noqa: F821 (the runner defines the names in capitals)
import io

import llm

model = llm.load(VECTORS + "tiny-int4.llm")
gen = llm.Generator(model, temperature=0)
terminal = llm.terminal


class Plain:
    # As people write them: no count is returned.
    def __init__(self):
        self.data = b""

    def write(self, data):
        self.data += bytes(data)


class Uart:
    # Takes `speed` bytes a call, and every third time none, as a UART with a full buffer. `typed`
    # are (calls of write, bytes): what is typed at the other end, when.
    def __init__(self, speed=1000, nothing=0, typed=()):
        self.data = b""
        self.speed = speed
        self.nothing = nothing
        self.typed = list(typed)
        self.calls = 0
        self.got = b""

    def write(self, data):
        self.calls += 1
        if self.typed and self.calls >= self.typed[0][0]:
            self.got += self.typed.pop(0)[1]
        n = min(self.speed, len(data))
        if self.calls % 3 == 0 or not n:
            return self.nothing
        self.data += bytes(data[:n])
        return n

    def any(self):  # MicroPython's
        return len(self.got)

    @property
    def in_waiting(self):  # pyserial's and CircuitPython's
        return len(self.got)

    def read(self, n):
        data = self.got[:n]
        self.got = self.got[n:]
        return data or None


print("kinds")
plain = Plain()
stats = gen.stream("é the ", plain, max_tokens=16, echo=True)
print(plain.data, stats["tokens"], stats["prompt_tokens"], stats["stop_reason"])
assert stats == gen.stats()
whole = plain.data
for stream in (io.BytesIO(), io.StringIO()):
    gen.stream("é the ", stream, max_tokens=16, echo=True)
    value = stream.getvalue()
    assert (value.encode() if isinstance(value, str) else value) == whole
gen.stream("then", max_tokens=8, echo=True)
print()

print("slow ones: nothing is lost, whatever the buffer")
for buffer in (1, 2, 3, 5, 16, 256):
    for speed in (1, 2, 3, 100):
        uart = Uart(speed)
        gen.stream("é the ", uart, max_tokens=16, echo=True, buffer=buffer)
        assert uart.data == whole, (buffer, speed, uart.data)
# One that says None when it takes nothing; it has to be one that can be polled.
poll = terminal._poll


class Ready:
    waits = 0

    def poll(self, ms):
        self.waits += 1


ready = Ready()
terminal._poll = lambda stream: ready
uart = Uart(3, None)
gen.stream("é the ", uart, max_tokens=16, echo=True, buffer=4)
terminal._poll = poll
assert uart.data == whole and ready.waits > 0
assert poll(plain) is None

print("computing goes on until the buffer is full")
counts = []


class Closed(Uart):
    # Takes nothing for a while: how many tokens have been computed then?
    def write(self, data):
        self.calls += 1
        if self.calls <= 30:
            counts.append(len(gen.ids))
            return 0
        self.data += bytes(data)
        return len(data)


for buffer in (1, 4, 12):
    counts.clear()
    uart = Closed()
    gen.stream("the", uart, max_tokens=20, buffer=buffer)
    print(buffer, counts[-1], len(uart.data))
for buffer in (0, -1):
    try:
        gen.stream("the", plain, buffer=buffer)
    except ValueError as error:
        print(error)

print("keys")
gen.stream("then", Plain(), max_tokens=30)
everything = gen.ids
for keys in (b"\x1b", b"x\x1b", b"\x03", b"\x1b\x1b", b"\x1b[A\x1b"):
    uart = Uart(typed=[(5, keys)])
    stats = gen.stream("then", uart, max_tokens=30)
    print(
        keys,
        stats["tokens"],
        stats["stop_reason"],
        uart.got,
        gen.ids == everything[: len(gen.ids)],
    )
for keys in (
    b"x",
    b"\x1b[A",
    b"\x1bOP",
    b"\x1b[1;5C\x1b[3~",
    b"\x1bx",
    b"\xc3\xa9",
    b"\xff",
    b"\x1b[\x00",
):
    uart = Uart(typed=[(5, keys)])
    stats = gen.stream("then", uart, max_tokens=30)
    assert (stats["tokens"], stats["stop_reason"], uart.got) == (30, "max_tokens", b""), keys
    assert gen.ids == everything
# In the middle of a prompt.
llm.generator.LISTEN_MS = 0
uart = Uart()
uart.got = b"\x1b"
print(gen.stream("then the hen", uart)["stop_reason"], gen.ids, model.n_tokens)
llm.generator.LISTEN_MS = 100
# A key that comes with the last token has stopped the text too: who waits for it will know.


class Last(Uart):
    def write(self, data):
        if len(gen.ids) == 30:
            self.got = b"\x1b"
        return super().write(data)


print(gen.stream("then", Last(), max_tokens=30)["stop_reason"], len(gen.ids))
# A sequence that arrives in two parts is no ESC, unless they are far apart.
slept = []
sleep_ms = llm.hal.sleep_ms
uart = Uart(typed=[(5, b"\x1b")])


def sleep(ms):
    slept.append(ms)
    if len(slept) == 3:
        uart.got += b"[A"
    sleep_ms(ms)


llm.hal.sleep_ms = sleep
print(gen.stream("then", uart, max_tokens=30)["stop_reason"], len(slept))
del slept[:]
uart = Uart(typed=[(5, b"\x1b")])
slept += [0] * 3
start = llm.hal.ticks_ms()
print(gen.stream("then", uart, max_tokens=30)["stop_reason"])
assert 30 <= llm.hal.ticks_diff(llm.hal.ticks_ms(), start) < 500
llm.hal.sleep_ms = sleep_ms

print("the model goes on as if nothing had been")
assert model.tokens() == model.encode("then") + gen.ids
gen.stream("then", Plain(), max_tokens=30)
assert gen.ids == everything

print("stop(), from anywhere")


class Stopper(Plain):
    def write(self, data):
        super().write(data)
        if len(gen.ids) == 4:
            gen.stop()


stopper = Stopper()
stats = gen.stream("then", stopper, max_tokens=30)
print(stats["tokens"], stats["stop_reason"], stopper.data)
pieces = []
for piece in gen.generate("then", max_tokens=30):
    pieces.append(piece)
    if len(pieces) == 3:
        gen.stop()
print(len(pieces), gen.stop_reason)
gen.stop()  # when there is nothing to stop, nothing is stopped
print(gen.stream("then", Plain(), max_tokens=5)["stop_reason"])
text = gen.generate("then", max_tokens=5)
gen.stop()
print(list(text), gen.stop_reason)
try:
    from micropython import schedule  # as an interrupt does
except ImportError:

    def schedule(function, argument):
        try:
            import threading
        except ImportError:  # CircuitPython
            return function(argument)
        threading.Thread(target=function, args=(argument,)).start()


class Scheduling(Plain):
    def write(self, data):
        super().write(data)
        if len(gen.ids) == 4:
            schedule(lambda _: gen.stop(), None)


print(gen.stream("then", Scheduling(), max_tokens=60)["stop_reason"])

print("a stream that is stuck holds a text up until it is stopped")
terminal.STUCK_MS = 40


class Stuck(Uart):
    def write(self, data):
        self.calls += 1
        if self.calls == 50:
            self.got = b"\x1b"
        return 0 if self.calls > 3 else super().write(data)


uart = Stuck()
stats = gen.stream("then", uart, buffer=8)
print(stats["stop_reason"], stats["tokens"], len(uart.data))
terminal.STUCK_MS = 1000

print("a stream that fails")


class Failing(Plain):
    def write(self, data):
        if self.data:
            raise OSError(5)
        super().write(data)


try:
    gen.stream("then", Failing(), max_tokens=5)
except OSError as error:
    print("OSError", error.args[0], gen.stop_reason)

print("colours are closed")


class Interrupting(Plain):
    def __init__(self, reply):
        super().__init__()
        self.reply = reply

    def write(self, data):
        super().write(data)
        if len(gen.ids) >= 5 and self.reply:
            reply, self.reply = self.reply, None
            if reply == "stop":
                gen.stop()
            else:
                raise KeyboardInterrupt


class Script(llm.Model):
    # A model that writes `text`, as byte tokens.
    def sample(self, sampler):
        super().sample(sampler)
        n = self.n_tokens - 3  # of the prompt
        return 3 + self.text[n] if n < len(self.text) else self.eos_id


with open(VECTORS + "tiny-int4.llm", "rb") as file:
    script = Script(file.read())
assert len(script.encode("then")) == 3
for ansi in (None, "color", "raw"):
    gen = llm.Generator(script, temperature=0, ansi=ansi)
    for text in (b"\x1b[1mabcd", b"\x1b[1m\x1b[mabcd", b"ab\x1b]0;title"):
        script.text = text
        for reply in (None, "stop", "interrupt"):
            stream = Interrupting(reply)
            try:
                gen.stream("then", stream)
            except KeyboardInterrupt:
                pass
            print(
                ansi, [chr(byte) if byte != 27 else "ESC" for byte in stream.data], gen.stop_reason
            )

print("pins")
gen = llm.Generator(model, temperature=0)
levels = []


class Pin:
    # MicroPython's; on a desk and in CircuitPython `value` is an attribute.
    def __setattr__(self, name, level):
        levels.append(level)

    def value(self, level):
        levels.append(bool(level))


class Led:
    def toggle(self):
        levels.append("toggle")


def call():
    levels.append(len(gen.ids))


for pin in (Pin(), Led(), call):
    del levels[:]
    # Tokens without text count as well.
    gen.stream("é the ", Plain(), max_tokens=7, echo=True, token_pin=pin)
    print(levels)
try:
    gen.stream("the", Plain(), token_pin=5)
except TypeError as error:
    print(error)
