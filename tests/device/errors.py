# Every exception that is documented, with its message where the project writes it.
# VECTORS: the folder of the images.
# ruff: noqa: F821 (the runner defines the names in capitals)
import llm

engine = llm.hal.engine


def fails(kind, function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except kind as error:
        print(type(error).__name__ + ":", error.args[0])
    else:
        print("nothing was raised by", function, args, kwargs)


def wrong_type(function, *args, **kwargs):
    # The words are those of the Python that runs this; CPython may only miss an attribute.
    try:
        function(*args, **kwargs)
    except (TypeError, AttributeError):
        return
    print("nothing was raised by", function, args, kwargs)


path = VECTORS + "tiny-int4.llm"
with open(path, "rb") as file:
    image = bytearray(file.read())


def damaged(at, value):
    copy = bytearray(image)
    copy[at] ^= value
    return copy


print("sources")
fails(OSError, llm.load, "partition:llm")
try:
    llm.load(VECTORS + "absent.llm")
except OSError as error:
    print("OSError:", error.errno)
wrong_type(llm.load, None)
wrong_type(llm.load, 1.5)
wrong_type(llm.load, [1, 2])
wrong_type(llm.load)
fails(ValueError, llm.load, bytes(1000))
fails(ValueError, llm.load, damaged(0, 1))
fails(ValueError, llm.load, damaged(70, 1))
fails(ValueError, llm.load, damaged(20000, 1))
fails(ValueError, llm.load, image[:1000])
fails(ValueError, llm.load, memoryview(bytes(4) + image)[4:])
model = llm.load(damaged(20000, 1), verify=False)
fails(ValueError, model.verify)
model = llm.load(damaged(len(image) - 40, 1))
fails(ValueError, model.verify)

print("options")
fails(ValueError, llm.load, image, context=65)
fails(ValueError, llm.load, image, context=-1)
fails(ValueError, llm.load, image, context=1 << 70)
wrong_type(llm.load, image, context=1.0)
wrong_type(llm.load, image, context="1")
fails(ValueError, llm.load, image, block=17)
fails(ValueError, llm.load, image, block=-(1 << 70))
fails(ValueError, llm.load, image, cache="int2")
wrong_type(llm.load, image, cache=8)
fails(ValueError, llm.load, image, kernels="abacus")
wrong_type(llm.load, image, kernels=8)
fails(ValueError, llm.load, image, kv="heap")
wrong_type(llm.load, image, kv=None)
fails(ValueError, llm.load, image, kv="static", cache="int4")
fails(ValueError, llm.load, image, kv="static", policy="compress")
fails(ValueError, llm.load, image, cache="f32", policy="compress")
fails(ValueError, llm.load, image, policy="panic")
wrong_type(llm.load, image, policy=None)
fails(ValueError, llm.load, image, sequences=256)
fails(ValueError, llm.load, image, sequences=-1)
fails(ValueError, llm.load, image, sequences=10, block=8)
wrong_type(llm.load, image, colour="red")

print("eval")
model = llm.load(image, context=16, policy="error")
for tokens in (288, -1, 1 << 70, [1, 2, 288], [1] * 17):
    fails(ValueError, model.eval, tokens)
for tokens in (1.0, "abc", None, [1, 2.0], [1, None]):
    wrong_type(model.eval, tokens)
assert model.n_tokens == 0
model.eval([])
model.eval(())
fails(ValueError, model.logits)
fails(ValueError, model.sample, engine.Sampler())
model.eval((1, 2, 3))
wrong_type(model.sample, None)
wrong_type(model.sample)
wrong_type(model.logits, b"read-only")
fails(ValueError, model.logits, bytearray(5))
fails(ValueError, model.rewind, 4)
fails(ValueError, model.rewind, -1)
wrong_type(model.rewind, 1.0)
model.rewind(2)
fails(ValueError, model.logits)
model.eval([4] * 14)
fails(ValueError, model.eval, 5)
assert model.tokens() == [1, 2] + [4] * 14

print("settings")
nan = float("nan")
for name, values in (
    ("temperature", (-0.5, 100.5, nan, float("inf"))),
    ("top_k", (-1, 1 << 32)),
    ("top_p", (0, 1.5, nan)),
    ("min_p", (-0.5, 1.5, nan)),
    ("repetition_penalty", (0, -1, 101, nan)),
    ("repeat_last_n", (-1, 1 << 32)),
    ("seed", (-1, 1 << 64, 1 << 100)),
):
    for value in values:
        fails(ValueError, llm.Generator, model, **{name: value})
    wrong_type(llm.Generator, model, **{name: "1"})
for name in ("top_k", "repeat_last_n", "seed"):
    wrong_type(llm.Generator, model, **{name: 1.0})
llm.Generator(model, seed=(1 << 64) - 1, top_k=(1 << 32) - 1)

print("text")
gen = llm.Generator(model, temperature=0)
fails(ValueError, gen.generate, "then the hen and the hen on the t")
fails(ValueError, gen.stream, "then the hen and the hen on the t")
fails(UnicodeError, gen.generate, b"abc\xff")
wrong_type(gen.generate, 5)
wrong_type(gen.generate, None)
fails(ValueError, gen.generate, "the", max_tokens=-1)
wrong_type(gen.generate, "the", max_tokens="1")
fails(ValueError, gen.generate, "the", stop="")
fails(ValueError, gen.generate, "the", stop=("a", ""))
wrong_type(gen.generate, "the", stop=5)
wrong_type(gen.generate, "the", stop=[5])
tok = llm.Tokenizer(model)
fails(UnicodeError, tok.encode, b"\xc3")
fails(UnicodeError, tok.encode, b"ab\xed\xa0\x80")
wrong_type(tok.encode, 5)
fails(ValueError, tok.decode, [1, 288])
fails(ValueError, tok.decode, [-1])
wrong_type(tok.decode, [1.0])
fails(ValueError, model.piece, 288)
wrong_type(engine.Decoder, None)
wrong_type(engine.Decoder)

print("two texts at once, and one that was left")
one = gen.generate("the", max_tokens=5)
next(one)
two = llm.Generator(model, temperature=0).generate("on", max_tokens=5)
pieces = [next(two)]
fails(RuntimeError, next, one)
pieces += list(two)
assert pieces == list(gen.generate("on", max_tokens=5))
one = gen.generate("the", max_tokens=5)
next(one)
model.rewind(0)
fails(RuntimeError, next, one)

print("closed")
one = gen.generate("the", max_tokens=5)
decoder = engine.Decoder(model)
model.close()
model.close()
print(model)
fails(ValueError, next, one)
fails(ValueError, decoder.feed, 5)
fails(ValueError, gen.generate, "the")
for call in (model.logits, model.tokens, model.config, model.memory, model.card, model.hash):
    fails(ValueError, call)
fails(ValueError, model.eval, 1)
fails(ValueError, model.rewind, 0)
fails(ValueError, model.encode, "a")
fails(ValueError, model.piece, 1)
fails(ValueError, model.verify)
fails(ValueError, lambda: model.n_tokens)
fails(ValueError, llm.Tokenizer, model)
fails(ValueError, engine.Decoder, model)
