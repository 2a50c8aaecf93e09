# WordPiece with BERT's normalization: lower case, accents, ideographs, punctuation, unknown words.
# VECTORS: the folder of the images.
# ruff: noqa: F821 (the runner defines the names in capitals)
import llm

TEXTS = (
    "The hens, in an INN!",
    "Caf\u00e9 CAFE\u0301 unhens untheable unthexable",
    "a\u8a9eb\u200b'12 121 112!!",
    "\t\u00c9 \u00df \u0130 \u0391\u03a3\n",
    "a" * 100,
    "a" * 101,
    "e\u0301\u0323" * 99 + "[CLS]the[SEP]",
)
model = llm.load(VECTORS + "tiny-wordpiece.llm")
tok = llm.Tokenizer(model)
print(tok, model.memory()["tokenizer"])
for text in TEXTS:
    for special in (False, True):
        ids = tok.encode(text, special=special)
        print(len(ids), ids[:24], tok.decode(ids[:12]).encode() if min(ids) > 1 else "")
try:
    tok.encode(b"the\xff")
except UnicodeError as error:
    print(error)
