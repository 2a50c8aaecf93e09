"""Writes the inputs from which the fuzz targets start.

    python tests/fuzz/seeds.py FOLDER

Small models of every kind of weight and cache, vocabularies with all that encoding has rules for,
and text with all that UTF-8 has.
"""

from __future__ import annotations

import struct
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from edge_llm.image import Config, Dtype
from edge_llm.tokenizer import (
    Normalizer,
    Split,
    Tokenizer,
    TokenType,
    alphabet,
    from_bpe,
    from_wordpiece,
)

sys.path.insert(0, str(Path(__file__).parents[1] / "host"))
from oracle_models import DtypeOf, make_image, random_planes  # noqa: E402

TEXTS = [
    "",
    " ",
    "Once upon a time, there was a little girl named Lily.",
    "aaaa bbbb abab baba  aab   b",
    "the then  the\u2581the\u2581\u2581 a",
    "é€語😀\0\x7f",
    "ab" * 150,
    "a" * 300,
    "<s>the<|end|> THE'S they'll 1234 \r\n\n  (<|é语) \u0661\u2167 \t",
    "e\u0323\u0301 \u0301e\u0301\u0323 \u1100\u1161\u11a8 \u0958\U0001d160 \u212b\u0344",
    "\U0002f800 \uac00\u11a8 >\u0338",
]
BROKEN = [
    b"\x80",
    b"\xc0\xaf",
    b"\xe0\x80\xaf",
    b"\xed\xa0\x80",
    b"\xf0\x80\x80\xaf",
    b"\xf4\x90\x80\x80",
    b"\xf0\x9f\x98",
    b"a\xe2\x96b\xf0\x9fc",
]
# Escape sequences of every kind, whole, odd and broken off.
SEQUENCES = [
    "\x1b[31mred\x1b[0m \x1b[1;38:2::9:9:9mx\x1b[m",
    "\x1b[2J\x1b[?25l\x1b[ q\x1b[>4;1m\x1b[6n\x9b1;2H",
    "\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b\x9d2;é\x9cc",
    "\x1bPq#1~\x1b\\\x1bXs\x1b\\\x1b^p\x07\x1b_a\x90d\x98s\x9ep\x9fa\x9c",
    "\x1bc\x1b7\x1b#8\x1b(B\x1b $<\x1bM\x84\x85\x1bN.\x1b\x1b[A",
    "\x1b[3\n1\tm\x1b\x00[4\x7fm\x1b[1\x18m\x1b]t\x1a\x1b[5é6\x1b[7\x1b[8mx\x9b\x9bm",
    "\x1b]" + "t" * 253 + "\x07a\x1b]" + "t" * 254 + "\x07b",
    "\x1b]" + "é" * 127 + "abc\x1b]" + "é" * 120 + "\n" * 20 + "d",
    "\x1b[" + "1;" * 31 + "mx\x1b[" + "1;" * 30 + "1m\x1b[" + "9" * 300 + "m",
    "a\rb\r\n\x07\b\x0b\x0c\x0e\x0f\x05\x00\x7f\x1b",
]
# Two vocabularies: every pair of a few letters and spaces, and words that grow letter by letter.
LETTERS = [a + b for a in "ab " for b in "ab "]
WORDS = ["th", "he", "the", " t", " the", " th", "e ", "aa", "aaaa", "aaaaaaaa", "é€", "語😀"]


def vocabulary(pieces: list[str], bytes_too: bool, **options: int) -> Tokenizer:
    """Unknown, begin, end, bytes if wanted, single characters, then `pieces` in merge order."""
    characters = sorted(set("".join(pieces)))
    pieces = characters + sorted(set(pieces) - set(characters), key=pieces.index)
    byte_pieces = [bytes([value]) for value in range(256)] if bytes_too else []
    kinds = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL]
    kinds += [TokenType.BYTE] * len(byte_pieces) + [TokenType.NORMAL] * len(pieces)
    texts = [b"<unk>", b"<s>", b"</s>", *byte_pieces, *(piece.encode() for piece in pieces)]
    ranks = np.arange(len(texts), dtype=np.uint32) // 2  # some are equal
    return Tokenizer(
        texts, ranks, np.array(kinds, np.uint8), 1, 2, 0, byte_fallback=bytes_too, **options
    )


# Byte-level BPE: the same, in GPT-2's alphabet.
MERGES = ["t h", "th e", "Ġ the", "a a", "aa aa", "aaaa aaaa", "a b", "b a", "ab ab", "Ġ Ġ"]
MERGES += ["Ġ a", "' s", "1 2", "12 3", "Ċ Ċ", "Ã ©", "e Ġ", "ĠĠ ĠĠ"]
SPECIALS = ["<s>", "<|end|>", "<|", "é"]  # the last is always found


def bpe(split: Split, **options: Any) -> Tokenizer:
    """Bytes, what merges make, special tokens."""
    tokens = [*alphabet(), *(merge.replace(" ", "") for merge in MERGES), *SPECIALS]
    types = [TokenType.NORMAL] * (len(tokens) - 4) + [TokenType.CONTROL] * 3 + [TokenType.USER]
    bos = len(tokens) - 4
    return from_bpe(tokens, MERGES, types, split, bos_id=bos, **options)


def wordpiece(**options: bool) -> Tokenizer:
    """Words, what they go on with, special tokens."""
    tokens = ["[UNK]", "[CLS]", "[SEP]", "the", "##the", "t", "##h", "##e", "a", "##a", "##aa"]
    tokens += [
        "##b",
        "b",
        "e\u0301",
        "e",
        ".",
        "'",
        "語",
        "##é",
        "é",
        "ab",
        "1",
        "##2",
        "##\u0301",
    ]
    types = [TokenType.UNKNOWN, *[TokenType.CONTROL] * 2, *[TokenType.NORMAL] * (len(tokens) - 3)]
    return from_wordpiece(tokens, types, unk_id=0, bos_id=1, eos_id=2, **options)


VOCABULARIES = {
    "letters": vocabulary(LETTERS, True),
    "words": vocabulary(WORDS[:6] + WORDS[7:], True),
    "words-across-spaces": vocabulary(WORDS, True, add_space_prefix=False),
    "no-bytes": vocabulary(LETTERS[:4], False),
    "gpt2": bpe(Split.GPT2),
    "llama3": bpe(Split.LLAMA3, ignore_merges=True),
    "qwen2": bpe(Split.QWEN2, normalizer=Normalizer.NFC),
    "smollm": bpe(Split.SMOLLM),
    "uncased": wordpiece(lowercase=True, strip_accents=True),
    "cased": wordpiece(lowercase=False, strip_accents=False),
}


def mixed(name: str, layer: int | None) -> Dtype:
    """Any type for any matrix: those that share an input differ."""
    return (Dtype.INT8, Dtype.INT4, Dtype.F32)[sum(name.encode()) % 3]


def image(config: Config, dtype: Dtype | DtypeOf, tokenizer: Tokenizer | None = None) -> bytes:
    """A model with random weights; norms are f32 whatever `dtype` is."""
    with tempfile.TemporaryDirectory() as folder:
        return make_image(
            Path(folder) / "seed.llm", config, dtype, random_planes(seed=1), tokenizer
        )


def choices(
    n_tokens: int, block: int = 0, cache: int = 0, context: int = 0, temperature: float = 0.0
) -> bytes:
    """`choices_t` of fuzz_image.c."""
    return struct.pack(
        "<BBBBHHffffHHI",
        *(1, 0, block, cache, context, n_tokens),
        *(temperature, 0.9, 0.05, 1.1, 5, 4, 1),
    )


def images() -> dict[str, bytes]:
    """Inputs of fuzz_image."""
    small = Config(9, 4, 6, 1, 2, 1, 2, 8)
    odd = Config(7, 34, 6, 2, 2, 1, 4, 24, rope=2, tied=True)
    wide = Config(6, 5, 3, 1, 4, 2, 6, 16)  # heads that are wider together than the model
    long = Config(5, 2, 2, 1, 1, 1, 2, 640)  # attention in more than one block of 512 positions
    models = {
        "f32": image(small, Dtype.F32),
        "int8": image(small, Dtype.INT8),
        "int4": image(small, Dtype.INT4),
        "odd-f32": image(odd, Dtype.F32),
        "odd-int8": image(odd, Dtype.INT8),
        "odd-int4": image(odd, Dtype.INT4),
        "wide-int8": image(wide, Dtype.INT8),
        "wide-mixed": image(wide, mixed),
    }
    seeds = {f"{name}-greedy": model + choices(5) for name, model in models.items()}
    seeds |= {
        f"{name}-sampled": model + choices(8, 3, 1 + i % 2, 8, 0.8)
        for i, (name, model) in enumerate(models.items())
    }
    long_model = image(long, Dtype.INT8)
    seeds |= {
        "long-int8": long_model + choices(514, 16, 1),
        "long-f32": long_model + choices(514, 16, 2),
    }
    return seeds


def tokenizers() -> dict[str, bytes]:
    """Inputs of fuzz_tokenizer."""
    seeds = {}
    for name, tokenizer in VOCABULARIES.items():
        model = image(Config(len(tokenizer.pieces), 1, 1, 1, 1, 1, 2, 1), Dtype.F32, tokenizer)
        for i, text in enumerate([*(text.encode() for text in TEXTS), *BROKEN[:2]]):
            seeds[f"{name}-{i}"] = model + bytes([i & 3]) + text
    return seeds


def texts() -> dict[str, bytes]:
    """Inputs of fuzz_text."""
    all_texts = [text.encode() for text in TEXTS + SEQUENCES] + [*BROKEN, b"".join(BROKEN)]
    return {f"text-{i}": bytes([i]) + text for i, text in enumerate(all_texts)}


def main(folder: Path) -> None:
    """Write the inputs of each target to a folder of its name."""
    targets = {"fuzz_image": images(), "fuzz_tokenizer": tokenizers(), "fuzz_text": texts()}
    for target, seeds in targets.items():
        (folder / target).mkdir(parents=True, exist_ok=True)
        for name, content in seeds.items():
            (folder / target / name).write_bytes(content)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
