# Ctrl-C, at any time, leaves the model usable. The runner sends it after each "ready".
# MODEL: path of an image, of a model as slow as can be had.
# ruff: noqa: F821 (the runner defines the names in capitals)
import llm

model = llm.load(MODEL, block=1)
gen = llm.Generator(model, temperature=0)
prompt = "the hen " * 4
whole = list(gen.generate(prompt, max_tokens=20))
ids = model.encode(prompt)


def evaluate():
    while True:
        model.rewind(0)
        model.eval(ids)


def generate():
    while True:
        for _ in gen.generate(prompt, max_tokens=20):
            pass


def stream():
    while True:
        gen.stream(prompt, Nowhere(), max_tokens=20)


class Nowhere:
    def write(self, data):
        pass


for work in (evaluate, generate, stream):
    try:
        print("ready")
        work()
    except KeyboardInterrupt:
        print("stopped")
    # What is in the cache is what was evaluated.
    tokens = model.tokens()
    assert tokens[: len(ids)] == ids[: len(tokens)]
    if len(tokens) < model.context:
        model.eval(1)
    assert list(gen.generate(prompt, max_tokens=20)) == whole
    gen.stream(prompt, Nowhere(), max_tokens=20)
print("done")
