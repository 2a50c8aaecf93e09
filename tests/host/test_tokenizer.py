"""Encoding and decoding against SentencePiece, on its own vocabulary and on made-up ones."""

from __future__ import annotations

import codecs
import json
import random
import re
from pathlib import Path

import numpy as np
import pytest
from edge_llm import engine
from edge_llm.image import Config, Dtype
from edge_llm.importers.llama2c import read_tokenizer
from edge_llm.tokenizer import Tokenizer, TokenType
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle_float import Vocabulary, bpe
from oracle_models import make_image, random_planes
from sentencepiece import SentencePieceProcessor

SHARED = Path(__file__).resolve().parents[3] / "shared"
LLAMA = SHARED / "models" / "llama32k-tokenizer"
STORIES = SHARED / "models" / "stories260K"
VECTORS = SHARED / "vocab-vectors" / "ggml-vocab-llama-spm.gguf"
STORY_TEXTS = SHARED / "data" / "tinystories" / "tinystories_800.json"
needs_llama = pytest.mark.skipif(
    not LLAMA.exists(), reason="../shared/models/llama32k-tokenizer is absent"
)


def model_of(path: Path, tokenizer: Tokenizer) -> engine.Model:
    """The smallest model that has this tokenizer."""
    config = Config(len(tokenizer.pieces), 2, 2, 1, 1, 1, 2, 8)
    return engine.Model(make_image(path, config, Dtype.INT4, random_planes(0), tokenizer))


def decode(model: engine.Model, ids: list[int]) -> str:
    """Text of `ids` from the streaming decoder."""
    decoder = engine.Decoder(model, ansi="raw")
    return "".join([*map(decoder.feed, ids), decoder.finish()])


# The vocabulary of Llama 2


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> engine.Model:
    path = tmp_path_factory.mktemp("llama") / "llama.llm"
    return model_of(path, read_tokenizer(LLAMA / "tokenizer.bin"))


@pytest.fixture(scope="module")
def spm() -> SentencePieceProcessor:
    return SentencePieceProcessor(model_file=str(LLAMA / "tokenizer.model"))


@needs_llama
@pytest.mark.skipif(not VECTORS.parent.exists(), reason="../shared/vocab-vectors is absent")
def test_published_vectors(llama: engine.Model, spm: SentencePieceProcessor) -> None:
    # newline="": the inputs hold line breaks of every kind.
    with open(f"{VECTORS}.inp", encoding="utf-8", newline="") as file:
        texts = file.read().split("\n__ggml_vocab_test__\n")
    expected = Path(f"{VECTORS}.out").read_text().split("\n")
    assert texts[-1] == "" and expected[-1] == "" and len(texts) == len(expected) > 40
    for text, line in zip(texts, expected, strict=True):
        ids = llama.encode(text, bos=False)
        assert ids == [int(word) for word in line.split()], repr(text)
        assert ids == spm.encode(text), repr(text)
        assert decode(llama, ids) == spm.decode(ids) == text


def same_as_sentencepiece(llama: engine.Model, spm: SentencePieceProcessor, text: str) -> None:
    """Ids, and the way back."""
    ids = llama.encode(text, bos=False)
    assert ids == spm.encode(text)
    assert decode(llama, ids) == spm.decode(ids) == text.replace("\u2581", " ")


EMOJI = "😀 😶\u200d🌫\ufe0f 👩\u200d👩\u200d👧 🇳🇿 ✅ 🦙 🚀 👍🏽".split(" ")
WORDS = [
    "the",
    " Hello",
    "world",
    "ing",
    "tion",
    "Łódź",
    "naïve",
    "日本語",
    "汉字",
    "한국어",
    "ไทย",
]
WORDS += ["<s>", "</s>", "<unk>", "<0x41>", "\r\n", "    ", "\t", "1234", "def f(x):", "https://"]

TEXTS = st.lists(
    st.one_of(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
        st.text("abcdefghijklmnopqrstuvwxyz ETAOIN,.'", max_size=24),
        st.text(" \u2581", max_size=9),
        st.text(st.characters(max_codepoint=0x1F), max_size=4),
        st.text(st.characters(min_codepoint=0xE000, max_codepoint=0xF8FF), max_size=3),
        st.text(st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF), max_size=6),
        st.text("0123456789", max_size=9),
        st.sampled_from(EMOJI),
        st.sampled_from(WORDS),
    ),
    max_size=8,
).map("".join)


@needs_llama
@settings(
    max_examples=10_000,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(text=TEXTS)
def test_generated_texts(llama: engine.Model, spm: SentencePieceProcessor, text: str) -> None:
    same_as_sentencepiece(llama, spm, text)


def adversarial(kind: str, n: int) -> str:
    """`n` characters that are hard on a tokenizer."""
    rng = random.Random(n)
    return {
        "one letter": "a" * n,
        "two letters": ("ab" * n)[:n],
        "spaces": " " * n,
        "marks": "\u2581" * n,
        "line breaks": "\n" * n,
        "digits": ("0123456789" * n)[:n],
        "emoji": "🦙" * n,
        "one long word": "".join(rng.choices("etaoinshrdlu", k=n)),
        "anything": "".join(chr(rng.choice([rng.randrange(1, 0xD800), 32])) for _ in range(n)),
    }[kind]


@needs_llama
@pytest.mark.parametrize("n", [1000, 16000])
@pytest.mark.parametrize(
    "kind",
    [
        "one letter", "two letters", "spaces", "marks", "line breaks", "digits", "emoji",
        "one long word", "anything",
    ],
)  # fmt: skip
def test_long_texts(llama: engine.Model, spm: SentencePieceProcessor, kind: str, n: int) -> None:
    same_as_sentencepiece(llama, spm, adversarial(kind, n))


@needs_llama
def test_bos_and_kinds_of_text(llama: engine.Model) -> None:
    assert llama.add_bos and llama.bos_id == 1 and llama.eos_id == 2
    ids = llama.encode("Hello", bos=False)
    assert llama.encode("Hello") == llama.encode("Hello", bos=True) == [1, *ids]
    for raw in (b"Hello", bytearray(b"Hello"), memoryview(b"Hello")):
        assert llama.encode(raw, bos=False) == ids
    assert llama.encode("", bos=False) == [] and llama.encode("") == [1]


@needs_llama
@pytest.mark.parametrize(
    "raw", [b"\xff", b"ok\x80", b"\xc3", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"]
)
def test_text_that_is_not_utf8(llama: engine.Model, raw: bytes) -> None:
    with pytest.raises(UnicodeError):
        llama.encode(raw)


# The vocabulary of stories260K


@pytest.mark.skipif(not STORIES.exists(), reason="../shared/models/stories260K is absent")
@pytest.mark.skipif(not STORY_TEXTS.exists(), reason="../shared/data/tinystories is absent")
def test_stories(tmp_path: Path) -> None:
    vocabulary = Vocabulary(STORIES / "tok512.bin")
    model = model_of(tmp_path / "stories.llm", read_tokenizer(STORIES / "tok512.bin"))
    for text in json.loads(STORY_TEXTS.read_text())[:20]:
        ids = model.encode(text)
        assert ids == vocabulary.encode(text)
        assert decode(model, ids) == vocabulary.decode(ids) == text


# Made-up vocabularies


@st.composite
def vocabularies(draw: st.DrawFn) -> Tokenizer:
    """Pieces of a tiny alphabet, so that ties, repetitions and inner spaces are common."""
    texts = draw(st.lists(st.text("ab é", min_size=1, max_size=4), min_size=1, max_size=25))
    letters = draw(st.lists(st.sampled_from("abé "), unique=True))
    pieces = [b"<unk>", b"<s>", b"</s>", *(t.encode() for t in texts + letters)]
    types = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL]
    types += [TokenType.NORMAL] * (len(pieces) - 3)
    fallback = draw(st.booleans())
    if fallback:
        pieces += [bytes([byte]) for byte in range(256)]
        types += [TokenType.BYTE] * 256
    ranks = draw(st.lists(st.integers(0, 6), min_size=len(texts), max_size=len(texts)))
    ranks = [0, 0, 0, *ranks] + [9] * (len(pieces) - 3 - len(texts))
    return Tokenizer(
        pieces,
        np.array(ranks, np.uint32),
        np.array(types, np.uint8),
        bos_id=draw(st.sampled_from([1, -1])),
        eos_id=2,
        unk_id=draw(st.sampled_from([0, -1])) if fallback else 0,
        add_bos=draw(st.booleans()),
        add_space_prefix=draw(st.booleans()),
        byte_fallback=fallback,
    )


def oracle_encode(tokenizer: Tokenizer, text: str) -> list[int]:
    """Ids as docs/image-format.md defines them, without BOS."""
    normal = [i for i, kind in enumerate(tokenizer.types) if kind == TokenType.NORMAL]
    ids = {tokenizer.pieces[i]: i for i in reversed(normal)}
    text = text.replace("\u2581", " ")
    if text and tokenizer.add_space_prefix:
        text = " " + text
    out: list[int] = []
    for part in bpe(text, {piece: int(tokenizer.ranks[i]) for piece, i in ids.items()}):
        if part in ids:
            out.append(ids[part])
        elif tokenizer.byte_fallback:
            first = len(tokenizer.pieces) - 256
            out += [first + byte for byte in part]
        else:
            out.append(tokenizer.unk_id)
    return out


@settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(
    tokenizer=vocabularies(),
    texts=st.lists(st.text("ab é\u2581", max_size=30), min_size=1, max_size=10),
)
def test_made_up_vocabularies(tmp_path: Path, tokenizer: Tokenizer, texts: list[str]) -> None:
    model = model_of(tmp_path / "made-up.llm", tokenizer)
    bos = [tokenizer.bos_id] if tokenizer.bos_id >= 0 else []
    for text in texts:
        expected = oracle_encode(tokenizer, text)
        assert model.encode(text, bos=False) == expected
        assert model.encode(text, bos=True) == bos + expected
        assert model.encode(text) == (bos if tokenizer.add_bos else []) + expected
        if tokenizer.byte_fallback:
            assert decode(model, bos + expected) == text.replace("\u2581", " ")


# Text as it streams


def stream_model(path: Path, pieces: list[bytes], add_space_prefix: bool = False) -> engine.Model:
    """A model whose tokens from 2 on are `pieces`, any bytes; 0 is a control token, 1 unknown."""
    types = [TokenType.CONTROL, TokenType.UNKNOWN] + [TokenType.NORMAL] * len(pieces)
    tokenizer = Tokenizer(
        [b"<s>", b"<unk>", *pieces],
        np.arange(len(types), dtype=np.uint32),
        np.array(types, np.uint8),
        bos_id=0,
        unk_id=1,
        add_space_prefix=add_space_prefix,
        byte_fallback=False,
    )
    return model_of(path, tokenizer)


def assert_streams_alike(model: engine.Model, tokens: list[int], pieces: list[bytes]) -> None:
    """Every piece of text comes when Python's own incremental decoder gives it.

    Of a surrogate's three bytes (ED A0 80 to ED BF BF) that one holds back two, although they are
    wrong already; there, text may come sooner. Ours holds back escape sequences; they may come
    later.
    """
    ours = engine.Decoder(model, start=False, ansi="raw")
    python = codecs.getincrementaldecoder("utf-8")("replace")
    got = [*map(ours.feed, tokens), ours.finish()]
    expected = [*map(python.decode, pieces), python.decode(b"", True)]
    assert "".join(got) == "".join(expected) == b"".join(pieces).decode("utf-8", "replace")
    if re.search("[\x1b\x80-\x9f]", "".join(expected)):
        return
    for i in range(len(got)):
        sooner = len("".join(got[:i])) - len("".join(expected[:i]))
        assert sooner == 0 or (sooner > 0 and b"\xed" in b"".join(pieces)), (pieces, i)


CUT = [
    b"plain ASCII",
    "naïve é ÿ ÿ".encode(),
    "汉字 日本語 한국어".encode(),
    "🦙😶\u200d🌫\ufe0f 🇳🇿 end".encode(),
    "\x00\x7f\u0080\u07ff\u0800\uffff\U00010000\U0010ffff".encode(),
    b"\x80\xbf ok \xc3( \xe2\x82( \xf0\x9f\xa6( \xc3",
    b"\xc0\xaf \xc1\xbf \xe0\x80\xaf \xf0\x80\x80\xaf \xf5\x80 \xff\xfe",
    b"\xed\xa0\x80\xed\xb0\x80 \xed\x9f\xbf \xf4\x8f\xbf\xbf \xf4\x90\x80\x80",
    b"\xe2\x82\xe2\x82\xac\xf0\x9f\xf0\x9f\xa6\x99\xe2",
]


@pytest.mark.parametrize("raw", CUT)
def test_stream_cut_anywhere(tmp_path: Path, raw: bytes) -> None:
    """Cut in two, in three, and into single bytes."""
    pieces = sorted({raw[a:b] for a in range(len(raw)) for b in range(a + 1, len(raw) + 1)})
    model = stream_model(tmp_path / "cut.llm", pieces)
    token = {piece: i + 2 for i, piece in enumerate(pieces)}
    n = len(raw)
    cuts = [[0, a, b, n] for a in range(n + 1) for b in range(a, n + 1)] + [list(range(n + 1))]
    for cut in cuts:
        parts = [raw[a:b] for a, b in zip(cut, cut[1:], strict=False) if b > a]
        assert_streams_alike(model, [token[part] for part in parts], parts)


def test_stream_of_random_bytes(tmp_path: Path) -> None:
    model = stream_model(tmp_path / "bytes.llm", [bytes([byte]) for byte in range(256)])
    rng = random.Random(8)
    likely = [0x41, 0x80, 0xBF, 0xC2, 0xE0, 0xA0, 0xE2, 0x82, 0xED, 0x9F, 0xF0, 0x90, 0xF4, 0x8F]
    for _ in range(2000):
        raw = bytes(rng.choice([*likely, rng.randrange(256)]) for _ in range(rng.randrange(12)))
        assert_streams_alike(model, [2 + byte for byte in raw], [bytes([b]) for b in raw])


def test_stream_drops_the_space_of_the_tokenizer_only(tmp_path: Path) -> None:
    model = stream_model(tmp_path / "space.llm", [b" a", b" ", b"b", b""], add_space_prefix=True)
    bos, a, space, b, empty = 0, 2, 3, 4, 5

    def text(tokens: list[int], start: bool = True) -> list[str]:
        decoder = engine.Decoder(model, start=start)
        return [*map(decoder.feed, tokens), decoder.finish()]

    assert text([a, a]) == ["a", " a", ""]
    assert text([bos, a, a]) == ["", "a", " a", ""]
    assert text([empty, a, a]) == ["", "a", " a", ""]
    assert text([space, a]) == ["", " a", ""]
    assert text([space, space, b]) == ["", " ", "b", ""]
    assert text([b, a]) == ["b", " a", ""]
    assert text([a, a], start=False) == [" a", " a", ""]
    decoder = engine.Decoder(model)
    for _ in range(2):  # finish() begins anew
        assert [decoder.feed(a), decoder.feed(a), decoder.finish()] == ["a", " a", ""]


def test_pieces(tmp_path: Path) -> None:
    model = stream_model(tmp_path / "pieces.llm", [b" a", b"\xff\x00"])
    assert [model.piece(i) for i in (0, 2, 3)] == [b"", b" a", b"\xff\x00"]
    for token in (-1, 4, 2**31):
        with pytest.raises(ValueError):
            model.piece(token)
