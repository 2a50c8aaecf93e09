# The cache: both layouts give the same bits, also past the context; 4-bit pages; what prompts have
# in common; sequences alone and together.
# VECTORS: the folder of the images.
# ruff: noqa: F821 (the runner defines the names in capitals)
from array import array

import llm

path = VECTORS + "tiny-int4.llm"
engine = llm.hal.engine
TOKENS = [1] + [(i * 37 + 5) % 285 for i in range(199)]


def digest(model, tokens):
    logits = array("f", [0.0] * model.vocab_size)
    sha256 = llm.hal.sha256()
    for token in tokens:
        model.eval(token)
        sha256.update(model.logits(logits))
    return sha256.digest()[:8].hex()


print("layouts")
for cache in ("int8", "f32", "int4"):
    for kv in ("static", "paged"):
        if (cache, kv) != ("int4", "static"):
            model = llm.load(path, context=64, cache=cache, kv=kv)
            print(cache, kv, digest(model, TOKENS), model.n_tokens, len(model.tokens()))
            print(model.event(), model.event())
            last = bytes(model.logits())
            model.rewind(0)
            model.eval(TOKENS)
            assert bytes(model.logits()) == last
            assert model.tokens() == TOKENS[:4] + TOKENS[140:]
            model.close()

print("going back")
model = llm.load(path, context=64)
model.eval(TOKENS[:150])
for n in (3, 90, 100):
    try:
        model.rewind(n)
        print(n, model.n_tokens, len(model.tokens()))
    except ValueError as error:
        print(error)
    model.rewind(0)
    model.eval(TOKENS[:150])
assert model.reuse(TOKENS) == 4
model.eval(TOKENS[4:50])
want = bytes(model.logits())
for n in (0, 1, 30, 50, 60):
    same = model.reuse(TOKENS[:n] + [7, 8])
    print(n, same, model.n_tokens)
    model.eval((TOKENS[:n] + [7, 8])[same:])
    print(model.reuse(TOKENS[:50]))
    model.eval(TOKENS[model.n_tokens : 50])
    assert bytes(model.logits()) == want
print(model.reuse([]), model.n_tokens, model.reuse([1]))

print("4-bit pages, going back into one")
model = llm.load(path, cache="int4", policy="error")
context = model.context
model.eval(TOKENS[:context])
model.rewind(20)
model.eval(TOKENS[20:30])
want = bytes(model.logits())
other = llm.load(path, cache="int4")
other.eval(TOKENS[:30])
assert bytes(other.logits()) == want
memory = model.memory()
print(0 < memory["kv_used"] <= memory["kv"], memory["spill"], memory["spill_used"])

print("sequences")
model = llm.load(path, sequences=3)
alone = []
starts = ([5, 6, 7], [8], [9] * 20)
greedy = engine.Sampler(temperature=0)
for start in starts:
    model.rewind(0)
    model.eval(start)
    ids = []
    for _ in range(10):
        ids.append(model.sample(greedy))
        model.eval(ids[-1])
    alone.append(ids)
model.rewind(0)
sequences = [model.sequence() for _ in starts]
together = [[] for _ in starts]
tokens = []
for sequence, start in zip(sequences, starts):
    sequence.eval(start)
    tokens.append(sequence.sample(greedy))
for _ in range(10):
    for ids, token in zip(together, tokens):
        ids.append(token)
    model.eval_batch(sequences, tokens)
    tokens = [sequence.sample(greedy) for sequence in sequences]
print(together == alone, [sequence.n_tokens for sequence in sequences], model.n_tokens)


def fails(function, *args):
    try:
        function(*args)
    except ValueError as error:
        print(error)


fails(model.sequence)
fails(model.fork)
fails(model.eval_batch, sequences, [1, 2])
fails(model.eval_batch, sequences + [model], [1, 2, 3, 4])
fails(model.eval_batch, [sequences[0], sequences[0]], [1, 2])
fails(model.eval_batch, [sequences[0], llm.load(path)], [1, 2])
fails(model.eval_batch, sequences, [1, 2, 1000])
fails(sequences[0].logits)
model.eval_batch([], [])
sequences[0].close()
sequences[0].close()
fails(sequences[0].eval, 1)
fails(lambda: sequences[0].n_tokens)
with model.sequence() as one:
    one.eval(TOKENS[:9])
    sequences[1].close()
    two = one.fork()
    print(two.tokens() == TOKENS[:9])
    fails(two.sample, greedy)
    two.eval(TOKENS[9:20])
    one.eval(TOKENS[50:60])
    one.rewind(9)
    one.eval(TOKENS[9:20])
    last = bytes(one.logits())
    fails(two.logits)
    two.rewind(19)
    two.eval(TOKENS[19])
    assert bytes(two.logits()) == last
    two.close()
model.eval(TOKENS[:15])
model.eval_batch([model, sequences[2]], [TOKENS[15], 1])
want = bytes(model.logits())
with model.fork() as other:
    other.rewind(15)
    other.eval(TOKENS[15])
    assert bytes(other.logits()) == want
model.close()
fails(sequences[2].eval, 1)
sequences[2].close()

print("texts")


class Counting(llm.Model):
    # Counts the tokens that it evaluates.
    n = 0

    def eval(self, tokens):
        self.n += 1 if isinstance(tokens, int) else len(tokens)
        super().eval(tokens)


with open(path, "rb") as file:
    model = Counting(file.read())
gen = llm.Generator(model, temperature=1, seed=4)
text = "".join(gen.generate("then the hen", max_tokens=30))
first = model.n
ids = gen.ids
again = "".join(
    llm.Generator(model, temperature=1, seed=4).generate("then the hen", max_tokens=30)
)
print(again == text, model.n - first)
# The next turn of a chat costs its own tokens, and begins with what was written.
prompt = model.encode("then the hen") + ids
model.n = 0
same = model.reuse(prompt + [5, 6, 7])
model.eval((prompt + [5, 6, 7])[same:])
print(len(prompt), same, model.n)
# Past the context, as far as is asked for.
gen = llm.Generator(model, temperature=0)
text = "".join(gen.generate("then the hen", max_tokens=300))
print(len(gen.ids), gen.stop_reason, model.event(), llm.digest(gen.ids))
assert "".join(gen.generate("then the hen", max_tokens=300)) == text
list(gen.generate("then the hen"))
print(len(gen.ids), gen.stop_reason)
gen = llm.Generator(llm.load(path, policy="error"), temperature=0)
list(gen.generate("then the hen", max_tokens=300))
print(len(gen.ids), gen.stop_reason)
