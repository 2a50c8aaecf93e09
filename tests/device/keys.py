# Keys at the other end of a real stream. The runner types them after each "ready".
# MODEL: path of an image, of a model as slow as can be had. STREAM: path of a stream, "" for the
# terminal. UNBUFFERED: arguments of open for one.
# ruff: noqa: F821 (the runner defines the names in capitals)
import llm

model = llm.load(MODEL, block=1)
gen = llm.Generator(model, temperature=0)
whole = list(gen.generate("the hen", max_tokens=20))
stream = open(STREAM, "r+b", **UNBUFFERED) if STREAM else None
reason = ""
while reason != "interrupted":
    print("ready")
    reason = ""
    try:
        while reason not in ("stopped", "interrupted"):
            reason = gen.stream("the hen", stream, max_tokens=60)["stop_reason"]
    except KeyboardInterrupt:
        reason = gen.stop_reason
    print("\n" + reason)
    # What is in the cache is what was said.
    said = model.encode("the hen") + gen.ids
    tokens = model.tokens()
    assert tokens == said[: len(tokens)] and len(tokens) >= len(said) - 1
    assert list(gen.generate("the hen", max_tokens=20)) == whole
print("done")
