# Byte-level BPE: every split pattern, special tokens, what is not text.
# VECTORS: the folder of the images.
# ruff: noqa: F821 (the runner defines the names in capitals)
import struct

import llm

SPLITS = "gpt2", "llama3", "qwen2", "smollm"
TEXTS = (
    "the hen in the inn",
    "THE'S they're he'll '\u017f",
    "1234567 12 x1",
    "  a \n\n  \n b\t\tc  ",
    "!!\r\n\r\n (ab)abab_",
    "é€語😀 日本語の ١٢ Ⅷ½ e\u0301 \u3000\u2009.",
    "\U00011de1\U00011de2 \U000f0000\U0010ffff\0",
    "<|end|><|end|<|endless|> <tab>the",
    "ab" * 300,
)

with open(VECTORS + "tiny-bpe.llm", "rb") as file:
    data = bytearray(file.read())
(section,) = [
    struct.unpack_from("<I", data, at + 4)[0]
    for at in range(64, 160, 16)
    if data[at : at + 4] == b"TOKN"
]
for i, name in enumerate(SPLITS):
    print(name)
    data[section + 64] = i + 1
    with llm.load(data, verify=False) as model:
        tok = llm.Tokenizer(model)
        for text in TEXTS:
            ids = tok.encode(text)
            assert tok.decode(ids) == text
            print(len(ids), ids[:24])

print("normalization form C")
data[section + 80] = 1
with llm.load(data, verify=False) as model:
    tok = llm.Tokenizer(model)
    for text in (
        "cafe\u0301 a\u0323\u0302b",
        "\u1100\u1161\u11a8 \u212b",
        "\u0958 \U0001d160" + "\u0301\u0323" * 9,
    ):
        ids = tok.encode(text)
        print(len(ids), ids[:24], [hex(ord(c)) for c in tok.decode(ids)][:9])

model = llm.load(VECTORS + "tiny-bpe.llm")
tok = llm.Tokenizer(model)
print(tok, model.memory()["tokenizer"])
print(tok.encode("the<|end|>", special=True), tok.encode(b"<|end|>", True, True))
print(repr(tok.decode(tok.encode(" the<|end|>\n", special=True))))
for bad in (b"the\xff", b"\xe2\x82", b"\xed\xa0\x80"):
    try:
        tok.encode(bad)
    except UnicodeError as error:
        print(error)
gen = llm.Generator(model, temperature=0)
print(len("".join(gen.generate("the", max_tokens=9))), gen.ids)
