"""What bench_board.py runs on the board: instructions of loading, single tokens and a prompt.

Prints one JSON object. Virtual time must count instructions (`-icount shift=0`), in steps of 40.
"""

import asyncio
import gc
import json
import os
import time

import _llm
import llm
from llm.aio import Pieces


def nothing(*args, **kwargs):
    """Costs what calling costs."""


def count(function, *args, **kwargs):
    """Instructions that a call takes, without the calling."""
    start = time.ticks_cpu()
    nothing(*args, **kwargs)
    middle = time.ticks_cpu()
    function(*args, **kwargs)
    end = time.ticks_cpu()
    return time.ticks_diff(end, middle) - time.ticks_diff(middle, start)


# `positions` and `context` are given by whoever runs this.
path = "/rom/" + [name for name in os.listdir("/rom") if name.endswith(".llm")][0]
result = {"load": {}, "eval": {}, "sample": {}, "stall": {}}
for verify in (False, True):
    gc.collect()
    result["load"][f"verify={verify}"] = count(llm.load, path, verify=verify, context=context)  # noqa: F821

gc.collect()
before = gc.mem_alloc()
model = llm.load(path, context=context, verify=False)  # noqa: F821
gc.collect()
result["heap"] = gc.mem_alloc() - before
result["memory"] = model.memory()

samplers = {
    "greedy": _llm.Sampler(temperature=0),
    "temperature 0.8, top_p 0.9": _llm.Sampler(temperature=0.8, top_p=0.9),
}
start = max(model.bos_id, 0)
for name, sampler in samplers.items():
    model.eval(start)
    result["sample"][name] = count(model.sample, sampler)
    model.rewind(0)

token = start
for position in range(max(positions) + 1):  # noqa: F821
    taken = count(model.eval, token)
    if position in positions:  # noqa: F821
        result["eval"][position] = taken
    token = model.sample(samplers["greedy"])

prompt = (model.tokens() * 64)[:64]
if model.context >= len(prompt):
    model.rewind(0)
    result["prompt of 64"] = count(model.eval, prompt)


async def longest_stall(yield_ms):
    """The most instructions between two turns of another task, while a block of a prompt is read
    and a few tokens are written."""
    gaps = [0]

    async def beat():
        last = time.ticks_cpu()
        while True:
            await asyncio.sleep(0)
            now = time.ticks_cpu()
            gaps[0] = max(gaps[0], time.ticks_diff(now, last))
            last = now

    model.rewind(0)
    gc.collect()  # so that none falls into the text
    generator = llm.Generator(model, temperature=0)
    task = asyncio.create_task(beat())
    pieces = generator._begin("", 8, None, False, True, prompt[:8], ms=yield_ms)
    async for _ in Pieces(pieces):
        pass
    task.cancel()
    return gaps[0]


for yield_ms in (0, 20):
    result["stall"][yield_ms] = asyncio.run(longest_stall(yield_ms))

text = "Once upon a time, there was a little girl named Lily."
gc.collect()  # so that none falls into the call
result[f"encode {len(text)} characters"] = count(model.encode, text)
print(json.dumps(result))
