# Two models at once do not disturb each other, nor do texts that were left half-way.
# VECTORS: the folder of the images.
# ruff: noqa: F821 (the runner defines the names in capitals)
import gc

import llm

names = ("tiny-int8", "tiny-int4")
alone = []
for name in names:
    with llm.load(VECTORS + name + ".llm") as model:
        gen = llm.Generator(model, temperature=1, seed=3)
        list(gen.generate("the hen", max_tokens=30))
        alone.append(gen.ids)

models = [llm.load(VECTORS + name + ".llm") for name in names]
gens = [llm.Generator(model, temperature=1, seed=3) for model in models]
texts = [gen.generate("the hen", max_tokens=30) for gen in gens]
while texts:
    for text in list(texts):
        if next(text, None) is None:
            texts.remove(text)
    gc.collect()
print([gen.ids for gen in gens] == alone)

# The same image twice, in one buffer.
with open(VECTORS + "tiny-int4.llm", "rb") as file:
    data = file.read()
one = llm.load(data)
two = llm.load(data, context=20)
one.eval([1, 2, 3])
two.eval([1, 2, 3, 4])
one.eval(4)
print(bytes(one.logits()) == bytes(two.logits()), one.n_tokens, two.n_tokens)
two.close()
one.eval(5)

gen = llm.Generator(one, temperature=0)
whole = list(gen.generate("the", max_tokens=9))
for n in range(9):
    text = gen.generate("the", max_tokens=9)
    for _ in range(n):
        next(text)
    del text
print(list(gen.generate("the", max_tokens=9)) == whole)
