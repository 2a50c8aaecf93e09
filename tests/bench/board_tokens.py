"""What bench_board.py runs on the board: instructions of loading, single tokens and a prompt.

Prints one JSON object. Virtual time must count instructions (`-icount shift=0`), in steps of 40.
"""

import gc
import json
import os
import time

import _llm
import llm


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
result = {"load": {}, "eval": {}, "sample": {}}
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
text = "Once upon a time, there was a little girl named Lily."
gc.collect()  # so that none falls into the call
result[f"encode {len(text)} characters"] = count(model.encode, text)
print(json.dumps(result))
