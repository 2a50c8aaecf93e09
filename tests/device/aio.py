# Texts among other tasks. VECTORS: the folder of the images.
# ruff: noqa: F821 (the runner defines the names in capitals)
import asyncio
import io

import llm

model = llm.load(VECTORS + "tiny-int4.llm")
gen = llm.Generator(model, temperature=0)
want = list(gen.generate("then", max_tokens=24, stop="zz"))
whole = "".join(want)
ids = gen.ids
beats = 0


async def beat():
    # Another task: how often does it run?
    global beats
    while True:
        beats += 1
        await asyncio.sleep(0)


async def collect(text, limit=1000):
    pieces = []
    async for piece in text:
        pieces.append(piece)
        if len(pieces) == limit:
            break
    return pieces


class Plain:
    def __init__(self):
        self.data = b""

    def write(self, data):
        self.data += bytes(data)


class Slow(Plain):
    # Takes two bytes every third time.
    calls = 0

    def write(self, data):
        self.calls += 1
        if self.calls % 3:
            return 0
        super().write(data[:2])
        return min(2, len(data))


class Writer(Plain):
    # As a StreamWriter: takes everything, and is to be waited for.
    drained = 0

    async def drain(self):
        self.drained += 1
        await asyncio.sleep(0)


async def between_tokens():
    global beats
    for yield_ms, least in ((20, 24), (0, 24 * 4)):
        beats = 0
        assert await collect(gen.agenerate("then", max_tokens=24, yield_ms=yield_ms)) == want
        assert gen.ids == ids and gen.stop_reason == "max_tokens"
        # Between layers too if it takes long enough, as 0 ms are.
        print(yield_ms, beats >= least)
    assert "".join(await collect(gen.agenerate("then", max_tokens=24, stop="zz"))) == whole
    print("".join(await collect(gen.agenerate("the", echo=True, max_tokens=0))), gen.stop_reason)


async def streams():
    global beats
    for stream in (Plain(), Slow(), Writer(), io.BytesIO()):
        beats = 0
        stats = await gen.astream("then", stream, max_tokens=24, buffer=8)
        data = stream.getvalue() if hasattr(stream, "getvalue") else stream.data
        assert data == whole.encode() and stats == gen.stats() and gen.ids == ids
        print(stats["stop_reason"], beats >= 24, getattr(stream, "drained", 0) >= 24)
    toggles = []
    await gen.astream("then", Plain(), max_tokens=5, token_pin=lambda: toggles.append(1))
    print(len(toggles))


async def stops():
    task = asyncio.create_task(collect(gen.agenerate("then")))
    await asyncio.sleep(0)
    for _ in range(5):
        await asyncio.sleep(0)
    gen.stop()
    pieces = await task
    print(len(pieces) < 24, pieces == want[: len(pieces)], gen.stop_reason)
    # In the middle of a token, and of a prompt.
    for yields in (9, 2):
        gen.stop()
        task = asyncio.create_task(collect(gen.agenerate("then the hen", yield_ms=0)))
        for _ in range(yields):
            await asyncio.sleep(0)
        gen.stop()
        await task
        print(gen.stop_reason, len(gen.ids) < 3)
    assert await collect(gen.agenerate("then", max_tokens=24)) == want


async def cancels():
    plain = Plain()
    stuck = Slow()
    stuck.calls = -100000
    for stream in (plain, stuck):
        llm.terminal.STUCK_MS = 20
        task = asyncio.create_task(gen.astream("then", stream, buffer=4, max_tokens=60))
        for _ in range(12):
            await asyncio.sleep(0)
        task.cancel()
        try:
            await task
            print("it was not cancelled")
        except asyncio.CancelledError:
            print("cancelled", gen.stop_reason)
    assert plain.data and whole.encode().startswith(plain.data)
    try:
        await asyncio.wait_for(gen.astream("then", stuck), 0.05)
    except asyncio.TimeoutError:
        print("timed out")
    assert await collect(gen.agenerate("then", max_tokens=24)) == want


async def side_by_side():
    with llm.load(VECTORS + "tiny-int8.llm") as other:
        second = llm.Generator(other, temperature=0)
        alone = list(second.generate("then", max_tokens=24))
        pieces = await asyncio.gather(
            collect(gen.agenerate("then", max_tokens=24, yield_ms=0)),
            collect(second.agenerate("then", max_tokens=24, yield_ms=0)),
        )
        print([list(part) for part in pieces] == [want, alone])
    # One model writes one text at a time.
    second = llm.Generator(model, temperature=0)
    results = await asyncio.gather(
        collect(gen.agenerate("then", max_tokens=24)),
        collect(second.agenerate("then", max_tokens=24)),
        return_exceptions=True,
    )
    print([type(result).__name__ for result in results], results[1] == want)
    for text in (lambda: gen.agenerate("x" * 100), lambda: gen.agenerate("a", max_tokens=-1)):
        try:
            text()
        except ValueError as error:
            print(error)


async def main():
    task = asyncio.create_task(beat())
    for part in (between_tokens, streams, stops, cancels, side_by_side):
        print(part.__name__)
        await part()
    task.cancel()


asyncio.run(main())
