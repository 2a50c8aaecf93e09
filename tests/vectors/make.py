"""Makes the vectors of this folder: images that the Python and the C reader must read alike.

    python tests/vectors/make.py

Everything follows from names and seeds, so a second run writes the same bytes;
tests/host/test_image.py holds the files to that. `expected.json` says what the images hold,
`damaged.json` how to damage `tiny-int4.llm` and which field the error must name. The model is tiny
and random, and awkward on purpose: no width is a multiple of 32, the heads are wider together than
the model, rows do not fill tiles.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
import sys
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
from edge_llm.image import Config, Dtype, Image, Tensor, crc32c, directory, rope_phase, write_image
from edge_llm.quantize import rtn
from edge_llm.tiles import pack
from edge_llm.tokenizer import Kind, Tokenizer, TokenType, alphabet, from_bpe, from_wordpiece

HERE = Path(__file__).parent

# (name, matrices, embedding and head, tied, RoPE pairs, vocabulary)
IMAGES = (
    ("tiny-f32", Dtype.F32, Dtype.F32, True, 1, "sentencepiece"),
    ("tiny-int8", Dtype.INT8, Dtype.INT8, False, 2, "sentencepiece"),
    ("tiny-int4", Dtype.INT4, Dtype.INT8, True, 1, "sentencepiece"),
    ("tiny-bpe", Dtype.INT4, Dtype.INT8, True, 2, "bpe"),
    ("tiny-wordpiece", Dtype.INT4, Dtype.INT8, True, 2, "wordpiece"),
)

# Normal pieces and their ranks. "on" and "in" tie; "ab" is there twice; "the" needs two merges.
PIECES = ["e", "t", "a", "o", "h", "n", "i", "s", "r", "d", "b", "é", "€", "語", "ab", "ab"]
PIECES += ["th", "he", "in", "on", "an", "er", "re", " ", "  ", " t", " the", "the", "😀"]
RANKS = [9] * 14 + [3, 3, 0, 2, 4, 4, 5, 6, 7, 9, 9, 1, 8, 3, 9]
TEXTS = [
    "",
    "the",
    "then the hen",
    " the",
    "  a  b",
    "aab",
    "onin",
    "é€語😀",
    "zoo\n",
    "a\u2581the",
]

# Byte-level BPE. "Ġ" is a space, "Ċ" a line break, "Ã©" an é.
MERGES = ["t h", "th e", "Ġ the", "i n", "Ġ i", "a b", "ab ab", "1 2", "12 3", "' s", "Ċ Ċ", "Ã ©"]
MERGES += ["Ġi n", "Ġ Ġ", "! !", "e r", "h er"]
# Loose tokens: found in the text's place, or only when their names are looked for.
SPECIALS = [("<|end|>", TokenType.CONTROL), ("<|endless|>", TokenType.CONTROL)]
SPECIALS += [("<tab>", TokenType.USER)]
# What the pattern llama3 is where \p{L} is [^\W\d_] and \p{N} is \d.
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|(?:[^\w\r\n]|_)?[^\W\d_]+|\d{1,3}| ?(?:[^\s\w]|_)+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
BPE_TEXTS = [
    "",
    "the",
    " the hen in the inn",
    "THE'S they're he'll 'S",
    "1234567 12",
    "  a \n\n  \n b\t\tc  ",
    "!!\r\n\r\n (ab)abab",
    "é€語😀",
    "<|end|><|end|<|endless|> <tab>the",
]

# WordPiece, lower case without accents.
WORDS = "[PAD] [UNK] [CLS] [SEP] the hen hens in inn cafe un a b 1 12 ! ' 語 é ß i α".split(" ")
WORDS += "##n ##s ##the ##in ##able ##a ##b ##2 ##é ##ς ##σ ##1".split(" ")
WORDPIECE_TEXTS = [
    "",
    "The hens, in an INN!",
    "Café CAFE\u0301 unhens untheable unthexable",
    "a語b\u200b'12 121 112!!",
    "\tÉ ß İ ΑΣ\n",
    "a" * 100 + " " + "a" * 101,
    "[CLS]the[SEP]",
]


def tokenizer() -> Tokenizer:
    """288 tokens: three special ones, 256 bytes, 29 normal pieces."""
    pieces = [b"<unk>", b"<s>", b"</s>", *(bytes([byte]) for byte in range(256))]
    pieces += [piece.encode() for piece in PIECES]
    types = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL, *[TokenType.BYTE] * 256]
    types += [TokenType.NORMAL] * len(PIECES)
    ranks = [9] * 259 + RANKS
    return Tokenizer(pieces, np.array(ranks, np.uint32), np.array(types, np.uint8), 1, 2, 0)


def encode(tokenizer: Tokenizer, text: str) -> list[int]:
    """The ids of a text, by the rule of docs/image-format.md taken literally."""
    normal: dict[bytes, int] = {}
    for token, piece in enumerate(tokenizer.pieces):
        if tokenizer.types[token] == TokenType.NORMAL:
            normal.setdefault(piece, token)
    text = text.replace("\u2581", " ")
    symbols = [character.encode() for character in (" " + text if text else "")]
    while True:
        pairs = [a + b for a, b in zip(symbols, symbols[1:], strict=False)]
        known = [(tokenizer.ranks[normal[p]], i) for i, p in enumerate(pairs) if p in normal]
        if not known:
            break
        at = min(known)[1]
        symbols[at : at + 2] = [pairs[at]]
    ids = [tokenizer.bos_id]
    for symbol in symbols:
        ids += [normal[symbol]] if symbol in normal else [3 + byte for byte in symbol]
    return ids


def bpe_tokenizer() -> Tokenizer:
    """276 tokens: 256 bytes, 17 that merges make, three special ones."""
    tokens = [*alphabet(), *(merge.replace(" ", "") for merge in MERGES)]
    types = [TokenType.NORMAL] * len(tokens) + [kind for _, kind in SPECIALS]
    tokens += [name for name, _ in SPECIALS]
    return from_bpe(tokens, MERGES, types, "llama3", bos_id=273, eos_id=273)


def encode_bpe(tokenizer: Tokenizer, text: str, special: bool) -> list[int]:
    """The same for byte-level BPE: special tokens, then the split, then merges."""
    names = [name for name, kind in SPECIALS if special or kind == TokenType.USER]
    parts = re.split("(" + "|".join(sorted(map(re.escape, names), reverse=True)) + ")", text)
    ids: list[int] = []
    for i, part in enumerate(parts):
        if i % 2:
            ids.append(tokenizer.pieces.index(part.encode()))
            continue
        for word in re.findall(LLAMA3, part):
            ids += merged(tokenizer, [tokenizer.pieces.index(bytes([b])) for b in word.encode()])
    return ids


def merged(tokenizer: Tokenizer, ids: list[int]) -> list[int]:
    """Ids after each merge in turn, from left to right: none makes an earlier one possible."""
    for left, right, joined in tokenizer.merges.tolist():
        at = 0
        while at + 1 < len(ids):
            if ids[at : at + 2] == [left, right]:
                ids[at : at + 2] = [joined]
            at += 1
    return ids


def wordpiece_tokenizer() -> Tokenizer:
    """34 tokens, four of them special."""
    special = {"[PAD]": TokenType.CONTROL, "[UNK]": TokenType.UNKNOWN}
    special |= {"[CLS]": TokenType.CONTROL, "[SEP]": TokenType.CONTROL}
    types = [special.get(word, TokenType.NORMAL) for word in WORDS]
    return from_wordpiece(
        WORDS, types, lowercase=True, strip_accents=True, bos_id=2, eos_id=3, unk_id=1
    )


def encode_wordpiece(text: str, special: bool) -> list[int]:
    """The same for WordPiece, with what Python knows of Unicode."""
    ids: list[int] = []
    for part in re.split(r"(\[PAD\]|\[CLS\]|\[SEP\])", text) if special else [text]:
        if special and part in ("[PAD]", "[CLS]", "[SEP]"):
            ids.append(WORDS.index(part))
            continue
        part = "".join(c for c in part if c in "\t\n\r" or unicodedata.category(c)[0] != "C")
        part = re.sub(r"([\u4e00-\u9fff])", r" \1 ", part)
        part = "".join(
            c for c in unicodedata.normalize("NFD", part) if unicodedata.category(c) != "Mn"
        )
        part = "".join(c.lower() for c in part)
        for word in re.findall(r"[^\W_]+|[^\w\s]|_", part):
            ids += pieces_of(word)
    return ids


def pieces_of(word: str) -> list[int]:
    """The longest piece, then the longest of the rest."""
    ids, at = [], 0
    while at < len(word) <= 100:
        ends = range(len(word), at, -1)
        found = [end for end in ends if "##" * (at > 0) + word[at:end] in WORDS]
        if not found:
            break
        ids.append(WORDS.index("##" * (at > 0) + word[at : found[0]]))
        at = found[0]
    return ids if at == len(word) else [WORDS.index("[UNK]")]


VOCABULARIES = {
    "sentencepiece": tokenizer,
    "bpe": bpe_tokenizer,
    "wordpiece": wordpiece_tokenizer,
}


def weights(tensor: Tensor) -> np.ndarray:
    """float32 [rows, cols] that follow from the tensor's name: -1 to 1, in steps of 2^-15."""
    count = tensor.rows * tensor.cols
    digest = hashlib.shake_256(tensor.label.encode()).digest(2 * count)
    values = np.frombuffer(digest, "<i2").astype(np.float32) / np.float32(2**15)
    values = values.reshape(tensor.rows, tensor.cols)
    if tensor.name.endswith("norm"):
        return 1 + values / 8
    values[-1] = 0  # a row of zeros
    return values / 4


def planes(tensor: Tensor) -> tuple[np.ndarray, ...]:
    if tensor.dtype == Dtype.U32:
        return (rope_phase(2 * tensor.cols, 10_000.0),)
    if tensor.dtype == Dtype.F32:
        return (weights(tensor),)
    bits = tensor.dtype.bits
    return pack(rtn.quantize(tensor.label, weights(tensor), bits), bits)


def build(folder: Path) -> None:
    """Write all vectors to a folder."""
    expected = {}
    for name, matrix, head, tied, rope, vocabulary in IMAGES:
        made = VOCABULARIES[vocabulary]()
        config = Config(len(made.pieces), 16, 44, 2, 4, 2, 6, 64, rope=rope, tied=tied)

        def dtype(
            role: str, layer: int | None, head: Dtype = head, matrix: Dtype = matrix
        ) -> Dtype:
            return head if role in ("token_embd", "output") else matrix

        path = folder / f"{name}.llm"
        card = {"name": name, "licence": "MIT", "origin": "tests/vectors/make.py"}
        write_image(path, config, made, card, directory(config, dtype), planes)
        expected[name] = describe(path)
    _write_json(folder / "expected.json", expected)
    _write_json(folder / "damaged.json", damaged((folder / "tiny-int4.llm").read_bytes()))


def describe(path: Path) -> dict[str, Any]:
    """What a reader must find in an image. Floats are written in hexadecimal, exactly."""
    image = Image.open(path)
    vocabulary = image.tokenizer
    tensors = []
    for tensor in image.tensors:
        values = image.values(tensor)
        places = {(0, 0), (tensor.rows // 2, tensor.cols // 3), (tensor.rows - 1, tensor.cols - 1)}
        tensors.append(
            {
                "name": tensor.name,
                "layer": tensor.layer,
                "dtype": tensor.dtype.name.lower(),
                "rows": tensor.rows,
                "cols": tensor.cols,
                "values": [
                    [row, col, float(values[row, col]).hex()] for row, col in sorted(places)
                ],
            }
        )
    return {
        "size": path.stat().st_size,
        "sha256": image.section("HASH").tobytes().hex(),
        "config": {**vars(image.config), "norm_eps": float(np.float32(1e-5)).hex()},
        "tensors": tensors,
        "encode": encodings(vocabulary),
    }


def encodings(vocabulary: Tokenizer) -> list[list[Any]]:
    """Texts, whether names of control tokens count, and the ids."""
    if vocabulary.kind == Kind.SENTENCEPIECE:
        return [[text, False, encode(vocabulary, text)] for text in TEXTS]
    if vocabulary.kind == Kind.WORDPIECE:
        return [
            [text, special, encode_wordpiece(text, special)]
            for text in WORDPIECE_TEXTS
            for special in (False, True)
        ]
    return [
        [text, special, encode_bpe(vocabulary, text, special)]
        for text in BPE_TEXTS
        for special in (False, True)
    ]


def damaged(image: bytes) -> list[dict[str, Any]]:
    """Changes to an image that a reader must refuse, naming `field`.

    Each has a name, the field and `patches`: [offset, hexadecimal bytes] to write. The CRCs that
    cover a change are patched too, except where the CRC is what must be noticed.
    """
    sections = {}
    for at in range(64, 64 + 6 * 16, 16):
        kind, offset, size, _ = struct.unpack_from("<4sIII", image, at)
        sections[kind.decode()] = (at, offset, size)
    conf, tokn, tdir = (sections[name][1] for name in ("CONF", "TOKN", "TDIR"))
    end = sections["HASH"][1]
    cases: list[dict[str, Any]] = []

    def case(
        field: str, what: str, at: int, value: Any, form: str = "<I", fix: bool = True
    ) -> None:
        data = bytearray(image)
        struct.pack_into(form, data, at, value)
        for entry, offset, size in sections.values() if fix else ():
            if offset <= at < offset + size and entry != sections["HASH"][0]:
                struct.pack_into(
                    "<I", data, entry + 12, crc32c(bytes(data[offset : offset + size]))
                )
        if fix and at not in range(60, 64):
            n = min(struct.unpack_from("<I", data, 16)[0], 16)
            crc = crc32c(bytes(data[:60]) + bytes(data[64 : 64 + 16 * n]))
            struct.pack_into("<I", data, 60, crc)
        changed = [i for i in range(len(data)) if data[i] != image[i]]
        patches = [[i, f"{data[i]:02x}"] for i in changed]
        cases.append({"name": f"{field}: {what}", "field": field, "patches": patches})

    case("magic", "first byte", 0, 0x88, "<B")
    case("magic", "line end changed", 4, 0x0A, "<B")
    case("version", "of the future", 8, 2, "<H")
    case("version", "0", 8, 0, "<H")
    case("header_size", "128", 10, 128, "<H")
    case("total_size", "past the end", 12, len(image) + 64)
    case("total_size", "no multiple of 64", 12, len(image) - 1)
    case("total_size", "0", 12, 0)
    case("total_size", "2^32 - 64", 12, 2**32 - 64)
    case("n_sections", "5", 16, 5)
    case("n_sections", "2^31", 16, 2**31)
    case("section_table", "elsewhere", 20, 128)
    case("flags", "in the header", 24, 1)
    case("reserved", "in the header", 59, 1, "<B")
    case("header_crc", "of itself", 60, 0, fix=False)
    case("header_crc", "of a section's offset", 68, conf + 64, fix=False)
    for name, (entry, offset, size) in sections.items():
        case("type", f"{name} is unknown", entry, b"X" + name[1:].encode(), "4s")
        case(name, "offset no multiple of 64", entry + 4, offset + 4)
        case(name, "offset past the end", entry + 4, 2**32 - 64)
        case(name, "overlaps what is before", entry + 4, 64)
        case(name, "size past the end", entry + 8, 2**32 - 1)
        case(name, "crc", entry + 12, 0x12345678)
        if name not in ("DATA", "CARD"):
            case(name, "size changed", entry + 8, size - 1)
        if name not in ("HASH",):
            case(
                name,
                "a byte flipped",
                offset + size // 2,
                image[offset + size // 2] ^ 1,
                "<B",
                False,
            )
    for i, name in enumerate(
        "vocab_size dim hidden_dim n_layers n_heads n_kv_heads head_dim context".split()
    ):
        case(name, "0", conf + 4 * i, 0)
        case(name, "2^31", conf + 4 * i, 2**31)
    case("n_kv_heads", "does not divide", conf + 20, 3)
    case("head_dim", "odd", conf + 24, 5)
    case("norm_eps", "0", conf + 32, 0.0, "<f")
    case("norm_eps", "NaN", conf + 32, float("nan"), "<f")
    case("rope_theta", "infinite", conf + 36, float("inf"), "<f")
    case("rope_theta", "negative", conf + 36, -1.0, "<f")
    for i, name in enumerate(("norm", "activation", "ffn", "rope")):
        case(name, "unknown", conf + 40 + i, 9, "<B")
    case("flags", "in CONF", conf + 44, 3)
    case("reserved", "in CONF", conf + 127, 1, "<B")
    case("TDIR", "too small for the layers", conf + 12, 3)
    case("TDIR", "too small for a head of its own", conf + 44, 0)
    case("kind", "of tokenizer", tokn, 9)
    case("n_tokens", "another vocabulary", tokn + 4, 287)
    for i, name in enumerate(("bos_id", "eos_id", "unk_id")):
        case(name, "past the end", tokn + 8 + 4 * i, 288)
        case(name, "-2", tokn + 8 + 4 * i, -2, "<i")
    case("flags", "in TOKN", tokn + 20, 16)
    case("n_sorted", "above n_tokens", tokn + 48, 289)
    case("pieces", "past the end", tokn + 24, sections["TOKN"][2])
    case("pieces", "size past the end", tokn + 28, 2**32 - 1)
    for i, name in (
        (32, "piece_offsets"),
        (36, "ranks"),
        (44, "sorted"),
        (52, "byte_ids"),
        (56, "specials"),
    ):
        case(name, "misaligned", tokn + i, 66)
        case(name, "past the end", tokn + i, 2**32 - 4)
    case("types", "past the end", tokn + 40, 2**32 - 1)
    case("n_specials", "above n_tokens", tokn + 60, 289)
    norm, matrix = tdir, tdir + 32
    case("attn_norm", "dtype of a matrix", norm + 4, 2, "<B")
    case("attn_norm", "scales", norm + 20, 64)
    case("attn_norm", "group_size", norm + 6, 32, "<H")
    case("attn_norm", "past the end", norm + 16, 2**32 - 64)
    case("attn_q", "role", matrix, 18, "<H")
    case("attn_q", "layer", matrix + 2, 1, "<H")
    case("attn_q", "dtype", matrix + 4, 4, "<B")
    case("attn_q", "reserved", matrix + 5, 1, "<B")
    case("attn_q", "group_size", matrix + 6, 64, "<H")
    case("attn_q", "rows", matrix + 8, 2**31)
    case("attn_q", "cols", matrix + 12, 0)
    for i, name in ((16, "data"), (20, "scales"), (24, "row_scales")):
        case("attn_q", f"{name} misaligned", matrix + i, 32)
        case("attn_q", f"{name} past the end", matrix + i, end // 64 * 64)
    case("attn_q", "reserved at the end", matrix + 28, 1)
    return cases


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    build(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
