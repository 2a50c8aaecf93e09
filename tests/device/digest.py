# The logits of 64 positions, to the last bit, of each kind of weights.
# VECTORS: the folder of the images. MODELS: more of them, a tuple of paths. Any block must give
# the same.
# ruff: noqa: F821 (the runner defines the names in capitals)
from array import array

import llm

TOKENS = [1] + [(i * 37 + 5) % 285 for i in range(63)]

for path in tuple(VECTORS + "tiny-" + name + ".llm" for name in ("f32", "int8", "int4")) + MODELS:
    for cache in ("int8", "f32"):
        model = llm.load(path, cache=cache, context=64)
        logits = array("f", [0.0] * model.vocab_size)
        sha256 = llm.hal.sha256()
        for token in TOKENS:
            model.eval(token)
            sha256.update(model.logits(logits))
        print(path[len(VECTORS) :].split("/")[-1], cache, sha256.digest().hex())
        last = bytes(logits)
        for block in (1, 5, 16):
            model.close()
            model = llm.load(path, cache=cache, block=block, context=64)
            model.eval(TOKENS[:20])
            model.rewind(11)
            model.eval(array("H", TOKENS[11:64]))
            assert bytes(model.logits()) == last, (path, cache, block)
        model.close()
