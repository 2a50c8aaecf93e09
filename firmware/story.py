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
pieces = 0
total = 0
start = ticks_cpu()
for piece in generator.generate(prompt, max_tokens=int(tokens), echo=True):
    if pieces > 1:  # the first two are the prompt and the token that waits for it
        total += ticks_diff(ticks_cpu(), start)
    pieces += 1
    print(piece, end="")
    heap = max(heap, gc.mem_alloc())
    start = ticks_cpu()
stats = generator.stats()
print(
    "\n[{} tokens, {:,} instructions a token, {:,} bytes of heap at most, digest {}]".format(
        stats["tokens"], total // max(1, pieces - 2), heap, stats["digest"]
    )
)
