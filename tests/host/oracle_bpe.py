"""Byte-level BPE by Hugging Face's `tokenizers`, and texts that are hard on it."""

from __future__ import annotations

import json
import random
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from edge_llm.tokenizer import Split
from gguf import GGUFReader
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)
from tokenizers.pre_tokenizers import ByteLevel, Digits, PreTokenizer

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace("{1,3}", "")


class Vocabulary(NamedTuple):
    """What both tokenizers are made of."""

    tokens: list[str]  # by id
    merges: list[tuple[str, str]]  # by rank


def gguf_vocabulary(path: Path) -> tuple[Vocabulary, list[str]]:
    """The vocabulary of a GGUF file, and the names of its control tokens."""
    fields = GGUFReader(path).fields
    tokens, merges, types = (
        fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "merges", "token_type")
    )
    assert set(types) <= {1, 3}  # normal and control, as TokenType has them
    control = [token for token, kind in zip(tokens, types, strict=True) if kind == 3]
    return Vocabulary(tokens, [tuple(merge.split(" ")) for merge in merges]), control


def pre_tokenizer(split: Split) -> PreTokenizer:
    """As the tokenizer.json of the model of that name has it."""
    if split == Split.GPT2:
        return ByteLevel(add_prefix_space=False)
    if split == Split.SMOLLM:
        return pre_tokenizers.Sequence([Digits(True), ByteLevel(add_prefix_space=False)])
    pattern = Regex(LLAMA3 if split == Split.LLAMA3 else QWEN2)
    cut = pre_tokenizers.Split(pattern, "isolated")
    return pre_tokenizers.Sequence([cut, ByteLevel(add_prefix_space=False, use_regex=False)])


def oracle(
    tokens: Sequence[str],
    merges: Iterable[tuple[str, str]],
    split: Split,
    special: Sequence[str] = (),
    ignore_merges: bool = False,
    unknown: str | None = None,
    nfc: bool = False,
) -> Tokenizer:
    """The tokenizer of a vocabulary. `special` are names that are found in text."""
    vocabulary = {token: i for i, token in enumerate(tokens)}
    made = Tokenizer(
        models.BPE(vocabulary, list(merges), ignore_merges=ignore_merges, unk_token=unknown)
    )
    made.pre_tokenizer = pre_tokenizer(split)
    made.decoder = decoders.ByteLevel()
    if nfc:
        made.normalizer = normalizers.NFC()
    made.add_special_tokens([AddedToken(name, normalized=False) for name in special])
    return made


def train(
    texts: Iterable[str], split: Split, size: int
) -> tuple[list[str], list[tuple[str, str]]]:
    """Tokens by id and merges by rank of a vocabulary learnt from texts."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizer(split)
    trainer = trainers.BpeTrainer(
        vocab_size=size, show_progress=False, initial_alphabet=ByteLevel.alphabet()
    )
    made.train_from_iterator(texts, trainer)
    model = json_of(made)["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)
    return Vocabulary(tokens, [tuple(merge) for merge in model["merges"]])


def json_of(tokenizer: Tokenizer) -> dict:
    """The contents of its tokenizer.json."""
    return json.loads(tokenizer.to_str())


# ------------------------------------------------------------------------------------- texts

WORDS = (
    "the of and to in is you that it he was for on are as with his they I at be this have from "
    "or one had by word but not what all were we when your can said there use an each which she "
    "do how their if will up other about out many then them these so some her would make like "
    "Hello HELLO hElLo naïve café Straße Łódź Ελληνικά Привет שלום مرحبا हिन्दी ไทย 日本語 汉字 "
    "한국어"
).split(" ")
CODE = [
    "def f(x):\n    return x[0]\n",
    "for (int i = 0; i < 10; i++) {\n\tsum += a[i];\n}\r\n",
    "#include <stdio.h>",
    "https://example.org/a?b=c&d=%20",
    "`x` == 'y' != \"z\" -> {}();",
    "<html>\r\n\r\n  <br/>",
    "0xFF 1e-9 3.14159 1,000,000",
    "\\x00\\n$HOME ~/.. #!@%^&*",
]
CONTRACTIONS = [
    quote + end
    for quote in ("'", "\u2019", "''", " '")
    for end in "s t re ve m ll d S T RE VE M LL D Re vE lL \u017f \u017fa k x r v l".split(" ")
]
EMOJI = "😀 😶\u200d🌫\ufe0f 👩\u200d👩\u200d👧 🇳🇿 ✅ 🦙 🚀 👍🏽 1\ufe0f\u20e3 \u200d \ufe0f".split(
    " "
)
SPACES = (
    "\t\n\x0b\x0c\r \x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u2009\u200a\u200b\u2028\u2029\u202f\u205f"
    "\u2060\u3000\ufeff\u180e"
)
MARKS = "\u0300\u0301\u0308\u0323\u0327\u0345\u05b0\u064b\u093e\u0e31\u20dd\u302a\u3099\U0001d165"
NUMBERS = "0123456789٠٣०९๓〇½²Ⅷ①㊈௰፲\U0001d7d8\U00010107\U00011de3\U00016ff5\U00010d45"
ANY = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
BY_CATEGORY: dict[str, list[str]] = {}
for _c in ANY:
    BY_CATEGORY.setdefault(unicodedata.category(chr(_c)), []).append(chr(_c))
# Characters that are composed, and what composes: marks of every class, Hangul's letters.
COMPOSED = [c for c in map(chr, ANY) if unicodedata.decomposition(c)[:1].isalnum()]
COMBINING = [c for c in map(chr, ANY) if unicodedata.combining(c)]
COMBINING += ["\u09be", "\u0dcf", "\u1b35", "\U000114b0", "\u1161", "\u1175", "\u11a8", "\u11c2"]


def piece(rng: random.Random) -> str:
    """Some text of one kind."""
    kind = rng.randrange(17)
    n = rng.choice([1, 1, 1, 2, 2, 3, 4, 6, 9])
    if kind == 0:
        return " ".join(rng.choices(WORDS, k=n))
    if kind == 1:
        return rng.choice(CODE)
    if kind == 2:
        return rng.choice(WORDS) + rng.choice(CONTRACTIONS)
    if kind == 3:
        return "".join(rng.choices("0123456789", k=n))
    if kind == 4:
        return "".join(rng.choices(NUMBERS, k=n))
    if kind == 5:
        return "".join(rng.choices(SPACES, k=n))
    if kind == 6:
        return rng.choice([" ", "  ", "\n", "\t", " \n", "\r\n", "\u3000"]) * n
    if kind == 7:
        return "".join(chr(rng.randrange(0x4E00, 0xA000)) for _ in range(n))
    if kind == 8:
        return "".join(rng.choices(EMOJI, k=n))
    if kind == 9:
        return rng.choice("aeiouné日ー") + "".join(rng.choices(MARKS, k=n))
    if kind == 10:
        return "".join(chr(rng.choice(ANY)) for _ in range(n))
    if kind == 11:
        category = rng.choice(sorted(BY_CATEGORY.keys() - {"Cs"}))
        return "".join(rng.choices(BY_CATEGORY[category], k=n))
    if kind == 12:
        return "".join(chr(rng.randrange(0x80)) for _ in range(n))
    if kind == 13:
        return "".join(rng.choices("!\"#$%&'()*+,-./:;<=>?@[]^_`{|}~…—“”¿。、", k=n))
    if kind == 14:
        return unicodedata.normalize("NFD", "".join(rng.choices(COMPOSED, k=n)) + "각가")
    if kind == 15:
        base = rng.choice(
            ["e", " ", "<", "ᄀ", "가", "각", "ક", "か", "\U00011099", rng.choice(COMPOSED)]
        )
        return base + "".join(rng.choices(COMBINING, k=n))
    return rng.choice(WORDS).capitalize() + rng.choice(["", ".", ",", "!", "?", "'s ", " "])


def generated_texts(n: int, seed: int) -> list[str]:
    """`n` texts, the same for the same seed."""
    rng = random.Random(seed)
    return ["".join(piece(rng) for _ in range(rng.randrange(1, 9))) for _ in range(n)]
