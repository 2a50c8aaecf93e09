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


path = "/rom/" + [name for name in os.listdir("/rom") if name.endswith(".llm")][0]
result = {"load": {}, "eval": {}, "sample": {}}
for verify in (False, True):
    result["load"][f"verify={verify}"] = count(llm.load, path, verify=verify)

gc.collect()
before = gc.mem_alloc()
model = llm.load(path)
gc.collect()
result["heap"] = gc.mem_alloc() - before
result["memory"] = model.memory()

samplers = {
    "greedy": _llm.Sampler(temperature=0),
    "temperature 0.8, top_p 0.9": _llm.Sampler(temperature=0.8, top_p=0.9),
}
for name, sampler in samplers.items():
    model.eval(model.bos_id)
    result["sample"][name] = count(model.sample, sampler)
    model.rewind(0)

token = model.bos_id
for position in range(256):
    taken = count(model.eval, token)
    if position in (0, 32, 128, 255):
        result["eval"][position] = taken
    token = model.sample(samplers["greedy"])

prompt = model.tokens()[:64]
model.rewind(0)
result["prompt of 64"] = count(model.eval, prompt)
text = "Once upon a time, there was a little girl named Lily."
result[f"encode {len(text)} characters"] = count(model.encode, text)
print(json.dumps(result))
