"""tokenizer.json: what `tokenizers` writes is read and gives the same ids, or is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from edge_llm import engine
from edge_llm.importers.tokenizer_json import read_tokenizer
from edge_llm.tokenizer import Normalizer, Split
from oracle_bpe import Vocabulary, generated_texts, oracle, train
from test_tokenizer_bpe import model_of
from tokenizers import AddedToken, processors
from tokenizers import Tokenizer as Oracle

TEXTS = generated_texts(1000, seed=7)
CONTROL = ["<|begin|>", "<|end|>"]


@pytest.fixture(scope="module")
def trained() -> dict[Split, Vocabulary]:
    texts = generated_texts(1000, seed=8)
    return {split: train(texts, split, 700) for split in Split}


def made(trained: dict[Split, Vocabulary], split: Split, **options: Any) -> Oracle:
    """As a model of that family has it: special tokens, one of them before every text."""
    theirs = oracle(*trained[split], split, CONTROL, **options)
    theirs.add_tokens([AddedToken("<tool>", normalized=False)])
    begin = ("<|begin|>", theirs.token_to_id("<|begin|>"))
    template = processors.TemplateProcessing(single="<|begin|> $A", special_tokens=[begin])
    theirs.post_processor = processors.Sequence([processors.ByteLevel(), template])
    return theirs


@pytest.mark.parametrize("split", Split)
@pytest.mark.parametrize("nfc", [False, True])
def test_what_tokenizers_writes(
    tmp_path: Path, trained: dict[Split, Vocabulary], split: Split, nfc: bool
) -> None:
    theirs = made(trained, split, nfc=nfc, ignore_merges=split == Split.LLAMA3)
    theirs.save(str(tmp_path / "tokenizer.json"))
    ours = read_tokenizer(tmp_path / "tokenizer.json", eos_id=701, vocab_size=720)
    assert (ours.split, ours.normalizer == Normalizer.NFC) == (split, nfc)
    assert ours.ignore_merges == (split == Split.LLAMA3)
    assert (ours.bos_id, ours.eos_id, ours.unk_id, ours.add_bos) == (700, 701, -1, True)
    assert len(ours.pieces) == 720 and ours.pieces[703:] == [b""] * 17
    model = model_of(tmp_path / "model.llm", ours)
    for text in TEXTS:
        text = f"<|end|>{text}<tool>{text[:5]}<|end|>"
        assert model.encode(text, special=True) == theirs.encode(text).ids, repr(text)
    decoder = engine.Decoder(model, ansi="raw")
    assert "".join(map(decoder.feed, model.encode("<tool>é<|end|>", special=True))) == "<tool>é"


def test_without_anything_around(tmp_path: Path, trained: dict[Split, Vocabulary]) -> None:
    theirs = oracle(*trained[Split.GPT2], Split.GPT2)
    theirs.save(str(tmp_path / "tokenizer.json"))
    ours = read_tokenizer(tmp_path / "tokenizer.json")
    assert (len(ours.pieces), ours.bos_id, ours.add_bos) == (700, -1, False)
    assert ours.split == Split.GPT2 and ours.normalizer == Normalizer.NONE


def test_merges_as_they_used_to_be_written(
    tmp_path: Path, trained: dict[Split, Vocabulary]
) -> None:
    """In one string, with a space between the two."""
    content = json.loads(made(trained, Split.QWEN2).to_str())
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(content))
    now = read_tokenizer(path)
    content["model"]["merges"] = [" ".join(pair) for pair in content["model"]["merges"]]
    path.write_text(json.dumps(content))
    assert read_tokenizer(path).to_bytes() == now.to_bytes()


def put(*path: str | int, value: Any) -> Callable[[dict], None]:
    """A change of one place."""

    def change(content: Any) -> None:
        for name in path[:-1]:
            content = content[name]
        content[path[-1]] = value

    return change


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
WRONG = {
    "no model": (lambda c: c.pop("model"), "is not a tokenizer.json: it has no model"),
    "kind": (put("model", "type", value="Unigram"), "model.type: is Unigram"),
    "vocabulary": (put("model", "vocab", value=[]), "model.vocab: is missing or damaged"),
    "id": (put("model", "vocab", "!", value=-1), "model.vocab: the id of '!' is -1"),
    "large id": (put("model", "vocab", "!", value=1 << 40), "model.vocab: the id of '!'"),
    "merges": (put("model", "merges", value=None), "model.merges: is missing or damaged"),
    "merge": (put("model", "merges", 3, value="a b c"), "model: merge 3: 'a b c' is no pair"),
    "unknown merge": (put("model", "merges", 3, value="zq qz"), "there is no token 'zq'"),
    "dropout": (put("model", "dropout", value=0.1), "model.dropout: is 0.1"),
    "prefix": (
        put("model", "continuing_subword_prefix", value="##"),
        "model.continuing_subword_prefix: is '##'",
    ),
    "suffix": (put("model", "end_of_word_suffix", value="</w>"), "model.end_of_word_suffix"),
    "byte fallback": (put("model", "byte_fallback", value=True), "model.byte_fallback: is True"),
    "no byte": (put("model", "vocab", "a b", value=9), "token 9: 'a b' is no text of byte-level"),
    "normalizer": (put("normalizer", value={"type": "NFKC"}), "normalizer: is NFKC"),
    "normalizers": (
        put(
            "normalizer",
            value={
                "type": "Sequence",
                "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}],
            },
        ),
        "normalizer: is NFC, Lowercase",
    ),
    "no split": (put("pre_tokenizer", value=None), "pre_tokenizer: is none"),
    "split": (put("pre_tokenizer", value={"type": "Metaspace"}), "pre_tokenizer: is Metaspace"),
    "space": (
        put("pre_tokenizer", value={**BYTE_LEVEL, "add_prefix_space": True}),
        "pre_tokenizer.add_prefix_space: is true",
    ),
    "pattern": (
        put("pre_tokenizer", "pretokenizers", 0, "pattern", value={"Regex": r"\w+|\W+"}),
        r"pre_tokenizer.pattern: images do not know the split pattern '\\w+|\\W+'",
    ),
    "string": (
        put("pre_tokenizer", "pretokenizers", 0, "pattern", value={"String": " "}),
        "pre_tokenizer.pattern: images do not know the split pattern None",
    ),
    "behavior": (
        put("pre_tokenizer", "pretokenizers", 0, "behavior", value="MergedWithNext"),
        "pre_tokenizer.behavior: 'MergedWithNext' is not Isolated",
    ),
    "twice": (
        put("pre_tokenizer", "pretokenizers", 1, "use_regex", value=True),
        "pre_tokenizer: images do not know Split, ByteLevel in a row",
    ),
    "groups of digits": (
        put(
            "pre_tokenizer",
            value={
                "type": "Sequence",
                "pretokenizers": [{"type": "Digits", "individual_digits": False}, BYTE_LEVEL],
            },
        ),
        "pre_tokenizer.individual_digits: is false",
    ),
    "strip": (put("added_tokens", 1, "lstrip", value=True), "'<|end|>' has lstrip"),
    "added": (put("added_tokens", 1, value={}), "added_tokens.id: is missing or damaged"),
    "after": (
        put("post_processor", "processors", 1, "single", 1, value={"SpecialToken": {"id": "x"}}),
        "post_processor: its template is missing or damaged",
    ),
    "before": (
        put("post_processor", "processors", 1, "single", 0, "SpecialToken", "id", value="nope"),
        "post_processor: names 'nope', which is no token",
    ),
    "eos": (
        lambda c: c["post_processor"]["processors"][1]["single"].append(
            {"SpecialToken": {"id": "<|end|>", "type_id": 0}}
        ),
        "post_processor: puts a token after a text",
    ),
    "two": (
        lambda c: c["post_processor"]["processors"][1]["single"].insert(
            0, {"SpecialToken": {"id": "<|end|>", "type_id": 0}}
        ),
        "post_processor: images put at most one token before",
    ),
    "roberta": (put("post_processor", value={"type": "RobertaProcessing"}), "RobertaProcessing"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_an_image_does_not_have(
    name: str, tmp_path: Path, trained: dict[Split, Vocabulary]
) -> None:
    change, message = WRONG[name]
    content = json.loads(made(trained, Split.LLAMA3).to_str())
    change(content)
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError) as caught:
        read_tokenizer(path)
    assert str(caught.value).startswith(f"{path}: ") and message in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"model": 3}', b"\xff", b"[" * 100_000])
def test_files_that_are_none(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="tokenizer.json: "):
        read_tokenizer(path)


def test_more_tokens_than_the_embedding_has(
    tmp_path: Path, trained: dict[Split, Vocabulary]
) -> None:
    path = tmp_path / "tokenizer.json"
    made(trained, Split.GPT2).save(str(path))
    with pytest.raises(ValueError, match="has 703 tokens, but the embedding has 702 rows"):
        read_tokenizer(path, vocab_size=702)
