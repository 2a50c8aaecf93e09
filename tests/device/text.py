# Whole characters, escape sequences, stop strings.
# VECTORS: the folder of the images.
# ruff: noqa: F821 (the runner defines the names in capitals)
import llm

engine = llm.hal.engine
model = llm.load(VECTORS + "tiny-int4.llm")
tok = llm.Tokenizer(model)


def feed(data, start=True, ansi=None):
    decoder = engine.Decoder(model, start=start, ansi=ansi)
    # Byte tokens are 3 to 258.
    return [decoder.feed(3 + byte) for byte in data] + [decoder.finish()]


print("characters, split over tokens")
for text in ("é", "語", "😀", "a€b"):
    pieces = feed(text.encode())
    assert "".join(pieces) == text
    print([len(piece.encode()) for piece in pieces])
BAD = b"a\xff", b"\xe2\x82", b"\xe2\x82a", b"\xc3\xc3\xa9", b"\xf0\x9f\x98", b"\xed\xa0\x80"
for data in BAD:
    pieces = feed(data)
    print([[ord(char) for char in piece] for piece in pieces])

print("escape sequences")
for text in (
    "a\x1b[31mred\x1b[0m\x1b[2Jb",
    "\x1b]0;title\x07\x1b]8;;http://x\x1b\\c\x1bP1$r\x1b\\d",
    "\x1bc\x1b(B\x1b#8\x9b1m\x84é\r\n\t\b\x7f",
    "e\x1b[1mf\x1b[3",
    "\x1b]" + "t" * 300,
):
    data = text.encode()
    for ansi in (None, "color", "raw"):
        pieces = [piece for piece in feed(data, ansi=ansi) if piece]
        print(
            [[ord(char) for char in piece] for piece in pieces] if len(data) < 50 else len(pieces)
        )
        assert ansi != "raw" or "".join(pieces) == text
assert tok.decode([3 + byte for byte in data]) == text
for ansi in ("colour", 1):
    for make in (engine.Decoder, llm.Generator):
        try:
            make(model, ansi=ansi)
        except (ValueError, TypeError) as error:
            print(error if ansi == "colour" else type(error).__name__)
gen = llm.Generator(model, temperature=0, ansi="color")
print("".join(gen.generate("the", max_tokens=8)), gen.ansi)

print("the space before text")
ids = tok.encode("the hen")
print(repr(tok.decode(ids)), repr(tok.decode([1] + ids)), repr(tok.decode(ids + ids)))
for start in (True, False):
    decoder = engine.Decoder(model, start=start)
    print([[decoder.feed(token) for token in ids] + [decoder.finish()] for _ in range(2)])
print(feed(b" a", True), feed(b" a", False))
print([ord(char) for char in tok.decode([0, 1, 2])], tok.decode([]) == "")

print("stop strings")
gen = llm.Generator(model, temperature=0)
whole = "".join(gen.generate("the", max_tokens=24))
print(whole)
assert "abab" in whole
for stop in ("ab", "ba", "D", ("x", "Dab"), ["bab", "DDa"], "DDDDDDDDD", "abab", "b" * 40, ()):
    pieces = list(gen.generate("the", max_tokens=24, stop=stop))
    text = "".join(pieces)
    stops = (stop,) if isinstance(stop, str) else stop
    ends = [whole.find(string) for string in stops if string in whole]
    assert text == whole[: min(ends)] if ends else whole, (stop, text)
    assert gen.stop_reason == ("stop" if ends else "max_tokens")
    assert "" not in pieces
    print(pieces, len(gen.ids), gen.stop_reason)
