# Every function of the package on images of each kind of weights.
# VECTORS: the folder of the images, with a slash at its end.
# ruff: noqa: F821 (the runner defines the names in capitals)
import llm


def show(dictionary, *names):
    print("   ", [(name, dictionary[name]) for name in names])


print(llm.kernels()[-1], llm.version.count("."))
for name in ("tiny-f32", "tiny-int8", "tiny-int4"):
    model = llm.load(VECTORS + name + ".llm")
    print(repr(model).replace(f"{model.memory()['ram']:,}", "..."))
    config = model.config()
    config["norm_eps"] = round(config["norm_eps"] * 1e6)
    for key in sorted(config):
        print("   ", key, config[key])
    # What it adds up to; the object and the table of tensors depend on the width of a pointer.
    memory = model.memory()
    parts = ("object", "tensors", "sequences", "kv", "activations", "logits", "tokens")
    print(memory["ram"] == sum(memory[part] for part in parts))
    show(memory, "image", "weights", "tokenizer", "kv", "logits", "tokens")
    print(model.card()[:9], [int(byte) for byte in model.hash()[:4]])
    model.verify()

    tok = llm.Tokenizer(model)
    print(tok, len(tok), tok.bos, tok.eos, model.add_bos)
    for text in ("", "the", "then the hen", "  a  b", "é€語😀", b"on\xc3\xa9\n"):
        ids = tok.encode(text)
        back = tok.decode(ids)
        print(ids, tok.encode(text, bos=True) == [tok.bos] + ids)
        assert back == (text if isinstance(text, str) else text.decode()), back

    gen = llm.Generator(model, temperature=0)
    pieces = list(gen.generate("then", max_tokens=20))
    print([ord(char) for char in "".join(pieces)])
    print(gen.ids, gen.stop_reason)
    # What was generated but for the last token is in the cache, after the prompt.
    assert model.tokens() == model.encode("then") + gen.ids[:-1]
    assert model.n_tokens == len(model.tokens())
    show(gen.stats(), "prompt_tokens", "tokens", "stop_reason", "digest")
    assert llm.digest(gen.ids) == gen.stats()["digest"]

    # The random numbers follow the seed and go on from text to text.
    gen = llm.Generator(model, temperature=1.5, top_k=40, top_p=0.95, min_p=0.01, seed=7)
    first = list(gen.generate("the", max_tokens=12)) and gen.ids
    second = list(gen.generate("the", max_tokens=12)) and gen.ids
    print(first, second)
    gen = llm.Generator(model, temperature=1.5, top_k=40, top_p=0.95, min_p=0.01, seed=7)
    assert (list(gen.generate("the", max_tokens=12)) and gen.ids) == first != second
    gen = llm.Generator(model, temperature=0, repetition_penalty=100, repeat_last_n=1000)
    list(gen.generate("the", max_tokens=30))
    print(len(set(gen.ids)), gen.stop_reason)
    assert llm.Generator(model).seed != llm.Generator(model).seed

    # The context: what the prompt leaves of it, and one token that need not go in.
    gen = llm.Generator(model, temperature=0)
    list(gen.generate("the hen", echo=True))
    print(len(gen.ids) + len(model.encode("the hen")) - model.context, gen.stop_reason)
    print("".join(gen.generate("on", max_tokens=0, echo=True)), gen.stop_reason)
    first = list(gen.generate(max_tokens=4)) and gen.ids
    print(first, gen.stats()["prompt_tokens"])

    model.close()
    print(model)

with llm.load(VECTORS + "tiny-int4.llm", context=10, cache="f32", kernels="ref", block=3) as model:
    print(model.context, model.cache, model.kernels, model.block)
    list(llm.Generator(model, temperature=0).generate("then the hen", max_tokens=3))
    print(model.n_tokens)
print(model)
llm.help()
