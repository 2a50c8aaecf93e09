# How many cores compute is the caller's choice, and nothing that shows in a text.
# VECTORS: the folder of the images.
# ruff: noqa: F821 (the runner defines the names in capitals)
import llm


def attempt(cores):
    try:
        llm.load(VECTORS + "tiny-int4.llm", cores=cores).close()
        print("no error")
    except (ValueError, TypeError) as error:
        print(type(error).__name__, str(error).split(" to ")[0].replace(VECTORS, ""))


with llm.load(VECTORS + "tiny-int4.llm") as model:
    print(model.cores >= 1)

texts = []
for cores in (1, 2, 3, 16):
    try:
        model = llm.load(VECTORS + "tiny-int4.llm", cores=cores)
    except ValueError:
        continue  # this board has fewer
    with model:
        assert model.cores == cores
        texts.append(list(llm.Generator(model, seed=1).generate("the hen", max_tokens=30)))
print(len(texts) >= 1, all(text == texts[0] for text in texts))

attempt(-1)
attempt(17)
attempt(2**40)
attempt(1.0)
attempt("two")

model = llm.load(VECTORS + "tiny-int4.llm", cores=1)
model.close()
try:
    print(model.cores)
except ValueError as error:
    print(error)
