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

# On to the last position, whatever the model says.
sampler = llm.hal.engine.Sampler(temperature=1.3, seed=1)
model.rewind(0)
token = model.bos_id
while model.n_tokens < model.context:
    model.eval(token)
    token = model.sample(sampler)
print(llm.digest(model.tokens()))
