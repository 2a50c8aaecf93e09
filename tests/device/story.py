# A story of a real model at its whole context: the same everywhere.
# MODEL: path of the image.
# ruff: noqa: F821 (the runner defines the names in capitals)
import llm

model = llm.load(MODEL, context=512)
print(repr(model).split(":")[0], model.context, model.cache)
for settings in (
    {"temperature": 0},
    {"temperature": 0.8, "top_p": 0.9, "seed": 1},
    {"temperature": 1.1, "top_k": 50, "min_p": 0.02, "repetition_penalty": 1.1, "seed": 2},
):
    gen = llm.Generator(model, **settings)
    stats = gen.stream("Once upon a time", max_tokens=100, echo=True)
    print()
    print([stats[name] for name in ("prompt_tokens", "tokens", "stop_reason", "digest")])
gen = llm.Generator(model, temperature=1.3, seed=1)
while gen.stop_reason != "context":
    list(gen.generate("Once upon a time"))
print(len(gen.ids), llm.digest(gen.ids))
