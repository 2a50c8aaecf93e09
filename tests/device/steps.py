# Evaluating in steps gives what evaluating at once gives, whatever is done between two of them.
# VECTORS: the folder of the images.
# ruff: noqa: F821 (the runner defines the names in capitals)
import llm

engine = llm.hal.engine
TOKENS = [1] + [(i * 37 + 5) % 285 for i in range(40)]


def steps(model, tokens, between=None, ms=0):
    # How many steps it takes; `between` is called after each.
    n = 0
    while tokens:
        tokens = tokens[model.eval_step(tokens, ms) :]
        n += 1
        if between:
            between(n)
    return n


print("the same bits")
for name in ("tiny-f32", "tiny-int8", "tiny-int4"):
    for options in (
        {},
        {"block": 1},
        {"kv": "paged", "context": 64},
        {"block": 5, "context": 20},
        {"stream": True},
    ):
        whole = llm.load(VECTORS + name + ".llm", **options)
        whole.eval(TOKENS)
        parts = llm.load(VECTORS + name + ".llm", **options)
        n = steps(parts, TOKENS)
        assert bytes(parts.logits()) == bytes(whole.logits())
        assert parts.tokens() == whole.tokens() and parts.n_tokens == 41
        print(name, n)
        # One token, as an int.
        whole.eval(7)
        n = 1
        while not parts.eval_step(7, 0):
            n += 1
        assert bytes(parts.logits()) == bytes(whole.logits())
        print(n)

print("nothing is a token before the block is through")
model = llm.load(VECTORS + "tiny-int4.llm", sequences=2)
seen = []
steps(model, TOKENS[:9], lambda n: seen.append(model.n_tokens))
print(seen)
try:
    model.logits()
    model.eval_step([5], 0)
    model.logits()
except ValueError as error:
    print(error)

print("in between")
want = llm.load(VECTORS + "tiny-int4.llm")
want.eval(TOKENS)
sampler = engine.Sampler()
tok = llm.Tokenizer(model)
other = model.sequence()
other.eval([1, 2, 3])


def with_other(n):
    if n in (3, 9, 10):
        other.eval(9)


def sample(n):
    if n == 1:
        other.eval([4, 5])
    if n == 2:
        other.sample(sampler)


def batch(n):
    if n == 7:
        model.eval_batch([other], [7])


def rewind(n):
    if n == 7:
        model.rewind(model.n_tokens)
        other.rewind(2)


def reuse(n):
    if n == 7:
        model.reuse(model.tokens() + [1])


def fork(n):
    if n == 7:
        other.fork().close()


def encode(n):
    if n < 9:
        tok.encode("then the hen")


for between in (with_other, sample, batch, rewind, reuse, fork, encode):
    model.rewind(0)
    n = steps(model, TOKENS, between)
    assert bytes(model.logits()) == bytes(want.logits()), between
    if between is not encode:  # a board encodes in the memory of the block
        print(n)
# Other tokens, at once or in steps, in place of those under way.
model.rewind(0)
model.eval_step(TOKENS, 0)
steps(model, [3, 4])
model.rewind(0)
for _ in range(3):
    model.eval_step(TOKENS, 0)
model.eval(TOKENS)
assert bytes(model.logits()) == bytes(want.logits())

print("time")
model.rewind(0)
print(model.eval_step(TOKENS, 60000), model.eval_step([], 0), model.eval_step((), 5))
for tokens, ms in ((TOKENS, -1), (TOKENS, 1 << 16), (TOKENS, 1.0), ([1.5], 0), ([285, 999], 0)):
    try:
        model.eval_step(tokens, ms)
        print("nothing was raised by", tokens, ms)
    except (ValueError, TypeError) as error:
        print(type(error).__name__)
model.eval_step(TOKENS, 0)
model.close()
try:
    model.eval_step(TOKENS, 0)
except ValueError as error:
    print(error)
