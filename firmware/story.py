"""Tells a story on a board and says what it cost. `make run` sets `image`, `prompt` and `tokens`."""

import gc
import time

import llm

model = llm.load(image)  # noqa: F821
generator = llm.Generator(model, temperature=0)
gc.collect()
ram = gc.mem_alloc()
counts = []
start = time.ticks_cpu()
for piece in generator.generate(prompt, max_tokens=tokens, echo=True):  # noqa: F821
    print(piece, end="")
    now = time.ticks_cpu()
    counts.append(time.ticks_diff(now, start))
    start = now
stats = generator.stats()
print()
print(stats, ram, counts[:3], counts[-3:])
