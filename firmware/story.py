"""What `make run` runs on the board: tells a story, then says what it took.

`prompt` (str) and `tokens` (int) are set before it.
"""

import gc
import os
import sys
import time

import llm

path = "/rom/" + [name for name in os.listdir("/rom") if name.endswith(".llm")][0]
model = llm.load(path)
print(repr(model))
gen = llm.Generator(model, temperature=0)

peak = 0
instructions = 0
start = time.ticks_cpu()
for piece in gen.generate(prompt, max_tokens=tokens, echo=True):
    sys.stdout.write(piece)
    instructions += time.ticks_diff(time.ticks_cpu(), start)
    peak = max(peak, gc.mem_alloc())
    start = time.ticks_cpu()
stats = gen.stats()

print(
    "\n{} tokens, {:,} instructions per token (prompt of {} included), "
    "{:,} bytes of heap at the peak, digest {}".format(
        stats["tokens"],
        instructions // (stats["prompt_tokens"] + stats["tokens"]),
        stats["prompt_tokens"],
        peak,
        stats["digest"],
    )
)
