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
total = counted = before = 0
start = ticks_cpu()
for piece in generator.generate(prompt, max_tokens=int(tokens), echo=True):
    taken = ticks_diff(ticks_cpu(), start)
    n_tokens = len(generator.ids)
    if before:  # the first token is left out: the prompt is evaluated for it
        total += taken
        counted += n_tokens - before
    before = n_tokens
    print(piece, end="")
    heap = max(heap, gc.mem_alloc())
    start = ticks_cpu()
stats = generator.stats()
print(
    "\n[{} tokens, {:,} instructions a token, {:,} bytes of heap at most, digest {}]".format(
        stats["tokens"], total // max(1, counted), heap, stats["digest"]
    )
)
