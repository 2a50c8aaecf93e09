"""Tells a story on a board, then what it cost. `make run` sets `image`, `prompt` and `tokens`.

Instructions are counted where time.ticks_cpu() counts them: on QEMU_M7 under `icount`.
"""
# ruff: noqa: F821

import gc
from time import ticks_cpu, ticks_diff

import llm

model = llm.load(image)
generator = llm.Generator(model, temperature=0)
gc.collect()
heap = gc.mem_alloc()
total = 0
start = ticks_cpu()
for piece in generator.generate(prompt, max_tokens=int(tokens), echo=True):
    print(piece, end="")
    heap = max(heap, gc.mem_alloc())
    now = ticks_cpu()
    total += ticks_diff(now, start)
    start = now
stats = generator.stats()
print(
    "\n[{} tokens, {:,} instructions a token, prompt included, {:,} bytes of heap at most, "
    "digest {}]".format(stats["tokens"], total // max(1, stats["tokens"]), heap, stats["digest"])
)
