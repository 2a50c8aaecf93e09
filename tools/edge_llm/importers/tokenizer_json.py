"""Vocabularies of Hugging Face's `tokenizers`: tokenizer.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

from ..tokenizer import NO_TOKEN, Normalizer, Split, Tokenizer, TokenType, from_bpe, from_wordpiece

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_PATTERNS = {
    _GPT2: Split.GPT2,
    _LLAMA3: Split.LLAMA3,
    _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}"): Split.QWEN2,
}
# What byte-level BPE has no use for; each is written in several ways.
_NOTHING = (None, False, 0, "")


class _FileError(ValueError):
    """An error that names the file."""


class _Reader:
    """A tokenizer.json that is being read; `fail` names the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self.content = json.loads(path.read_bytes())
        except (ValueError, RecursionError) as error:
            raise _FileError(f"{path}: is not JSON: {error}") from None
        if not isinstance(self.content, dict) or "model" not in self.content:
            self.fail("is not a tokenizer.json: it has no model")

    def fail(self, message: str) -> NoReturn:
        raise _FileError(f"{self._path}: {message}")

    def get(self, parent: Any, name: str, kind: type | tuple[type, ...], where: str) -> Any:
        """A field of an object, of the type it must have."""
        value = parent.get(name) if isinstance(parent, dict) else None
        if not isinstance(value, kind):
            self.fail(f"{where}.{name}: is missing or damaged")
        return value

    def steps(self, name: str) -> list[dict[str, Any]]:
        """The parts of a pre_tokenizer, normalizer or post_processor, sequences laid flat."""
        todo, found = [self.content.get(name)], []
        while todo:
            step = todo.pop(0)
            if step is None:
                continue
            kind = self.get(step, "type", str, name)
            if kind == "Sequence":
                inner = {"pre_tokenizer": "pretokenizers", "normalizer": "normalizers"}
                todo[:0] = self.get(step, inner.get(name, "processors"), list, name)
            else:
                found.append(step)
        return found


def read_tokenizer(
    path: Path, *, bos_id: int = -1, eos_id: int = -1, vocab_size: int | None = None
) -> Tokenizer:
    """Read a tokenizer.json of byte-level BPE or WordPiece.

    Args:
        path: of the file.
        bos_id, eos_id: which tokens begin and end a text, from config.json; -1 if there is none.
            What the file itself puts before a text, or around one of WordPiece, goes first.
        vocab_size: rows of the embedding, which may be more than the tokens: the rest are control
            tokens without a name. None: as many as there are tokens.

    Raises:
        ValueError: it is none, is damaged, or has what an image does not; in one sentence that
            names the field.
        OSError: the file cannot be read.
    """
    reader = _Reader(path)
    kind = reader.get(reader.content["model"], "type", str, "model")
    if kind not in ("BPE", "WordPiece"):
        reader.fail(f"model.type: is {kind}, edge-llm reads byte-level BPE and WordPiece")
    tokens, types = _tokens(reader, vocab_size)
    try:
        if kind == "BPE":
            made = _bpe(reader, tokens, types, bos_id, eos_id)
        else:
            made = _wordpiece(reader, tokens, types, bos_id, eos_id)
        made.check()
    except _FileError:
        raise
    except ValueError as error:
        reader.fail(f"model: {error}")
    return made


def _bpe(
    reader: _Reader, tokens: list[str], types: list[TokenType], bos_id: int, eos_id: int
) -> Tokenizer:
    model = reader.content["model"]
    for name in ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"):
        if model.get(name) not in _NOTHING:
            reader.fail(f"model.{name}: is {model[name]!r}, byte-level BPE of images has none")
    around = _around(reader)
    if around[0] is not None:
        bos_id = _token(reader, tokens, around[0], "post_processor")
    if around[1] is not None:
        reader.fail("post_processor: puts a token after a text, for BPE images put none there")
    unknown = model.get("unk_token")
    made = from_bpe(
        tokens,
        reader.get(model, "merges", list, "model"),
        types,
        _split(reader),
        bos_id=bos_id,
        eos_id=eos_id,
        unk_id=tokens.index(unknown) if unknown in tokens else -1,
        add_bos=around[0] is not None,
        ignore_merges=model.get("ignore_merges") is True,
        normalizer=_normalizer(reader),
    )
    # 13 bytes are in no UTF-8.
    if made.unk_id >= 0 and model.get("fuse_unk") and (made.byte_ids == NO_TOKEN).sum() > 13:
        reader.fail("model.fuse_unk: several unknown bytes become one token, in images each does")
    return made


def _wordpiece(
    reader: _Reader, tokens: list[str], types: list[TokenType], bos_id: int, eos_id: int
) -> Tokenizer:
    model = reader.content["model"]
    for name, known in (("continuing_subword_prefix", "##"), ("max_input_chars_per_word", 100)):
        if model.get(name, known) != known:
            reader.fail(f"model.{name}: is {model[name]!r}, for WordPiece images know {known!r}")
    normalizers, steps = reader.steps("normalizer"), reader.steps("pre_tokenizer")
    for field, found, known in (
        ("normalizer", normalizers, "BertNormalizer"),
        ("pre_tokenizer", steps, "BertPreTokenizer"),
    ):
        names = [step["type"] for step in found]
        if names != [known]:
            reader.fail(
                f"{field}: is {', '.join(names) or 'none'}, for WordPiece images know {known}"
            )
    (options,) = normalizers
    for name in ("clean_text", "handle_chinese_chars"):
        if not options.get(name, True):
            reader.fail(f"normalizer.{name}: is false, images know true")
    lowercase = bool(options.get("lowercase", True))
    strip = options.get("strip_accents")
    unknown = _token(
        reader, tokens, reader.get(model, "unk_token", str, "model"), "model.unk_token"
    )
    types[unknown] = TokenType.UNKNOWN
    before, after = _around(reader)
    return from_wordpiece(
        tokens,
        types,
        lowercase=lowercase,
        strip_accents=lowercase if strip is None else bool(strip),
        bos_id=bos_id if before is None else _token(reader, tokens, before, "post_processor"),
        eos_id=eos_id if after is None else _token(reader, tokens, after, "post_processor"),
        unk_id=unknown,
    )


def _token(reader: _Reader, tokens: list[str], text: str, where: str) -> int:
    """The id of a token that the file names."""
    if text not in tokens:
        reader.fail(f"{where}: names {text!r}, which is no token")
    return tokens.index(text)


def _tokens(reader: _Reader, vocab_size: int | None) -> tuple[list[str], list[TokenType]]:
    """Tokens by id and what each is."""
    vocabulary = reader.get(reader.content["model"], "vocab", dict, "model")
    ids: dict[int, tuple[str, TokenType]] = {}
    for text, token in vocabulary.items():
        if not isinstance(token, int) or not 0 <= token < 1 << 20:
            reader.fail(f"model.vocab: the id of {text!r} is {token!r}")
        ids[token] = text, TokenType.NORMAL
    for added in reader.content.get("added_tokens") or []:
        token = reader.get(added, "id", int, "added_tokens")
        text = reader.get(added, "content", str, "added_tokens")
        if not 0 <= token < 1 << 20:
            reader.fail(f"added_tokens: the id of {text!r} is {token}")
        for name in ("single_word", "lstrip", "rstrip"):
            if added.get(name):
                reader.fail(f"added_tokens: {text!r} has {name}, which images do not know")
        ids[token] = text, TokenType.CONTROL if added.get("special") else TokenType.USER
    n = max(ids, default=-1) + 1
    if vocab_size is not None and n > vocab_size:
        reader.fail(f"has {n} tokens, but the embedding has {vocab_size} rows")
    unused = "", TokenType.CONTROL
    found = [ids.get(token, unused) for token in range(vocab_size or n)]
    return [text for text, _ in found], [kind for _, kind in found]


def _split(reader: _Reader) -> Split:
    """The split pattern."""
    steps = reader.steps("pre_tokenizer")
    if not steps or steps[-1]["type"] != "ByteLevel":
        names = ", ".join(step["type"] for step in steps) or "none"
        reader.fail(f"pre_tokenizer: is {names}, images know those that end in ByteLevel")
    *before, last = steps
    if last.get("add_prefix_space", True):
        reader.fail("pre_tokenizer.add_prefix_space: is true, images put no space before BPE text")
    gpt2 = last.get("use_regex", True)
    if not before and gpt2:
        return Split.GPT2
    if len(before) == 1 and before[0]["type"] == "Digits" and gpt2:
        if before[0].get("individual_digits"):
            return Split.SMOLLM
        reader.fail("pre_tokenizer.individual_digits: is false, images know true")
    if len(before) == 1 and before[0]["type"] == "Split" and not gpt2:
        (step,) = before
        pattern = reader.get(step, "pattern", dict, "pre_tokenizer").get("Regex")
        # Every character fits the patterns: what does not is nothing, kept or removed.
        kept = [("Isolated", False), ("Removed", True)]
        if (step.get("behavior"), step.get("invert", False)) not in kept:
            reader.fail(f"pre_tokenizer.behavior: {step.get('behavior')!r} is not Isolated")
        if pattern in _PATTERNS:
            return _PATTERNS[pattern]
        reader.fail(f"pre_tokenizer.pattern: images do not know the split pattern {pattern!r}")
    names = ", ".join(step["type"] for step in steps)
    reader.fail(f"pre_tokenizer: images do not know {names} in a row")


def _normalizer(reader: _Reader) -> Normalizer:
    kinds = [step["type"] for step in reader.steps("normalizer")]
    if kinds not in ([], ["NFC"]):
        reader.fail(f"normalizer: is {', '.join(kinds)}, for BPE images know none and NFC")
    return Normalizer.NFC if kinds else Normalizer.NONE


def _around(reader: _Reader) -> tuple[str | None, str | None]:
    """The tokens that are put before and after every text."""
    before = after = None
    for step in reader.steps("post_processor"):
        if step["type"] == "ByteLevel":
            continue  # it only moves offsets
        if step["type"] == "BertProcessing":
            pair = [reader.get(step, name, list, "post_processor") for name in ("cls", "sep")]
            if not all(len(token) == 2 and isinstance(token[0], str) for token in pair):
                reader.fail("post_processor: cls or sep is damaged")
            before, after = pair[0][0], pair[1][0]
            continue
        if step["type"] != "TemplateProcessing":
            reader.fail(f"post_processor: images do not know {step['type']}")
        parts = reader.get(step, "single", list, "post_processor")
        kinds = [next(iter(part), "") if isinstance(part, dict) else "" for part in parts]
        if kinds.count("Sequence") != 1 or set(kinds) > {"Sequence", "SpecialToken"}:
            reader.fail("post_processor: its template is missing or damaged")
        names = [
            reader.get(part["SpecialToken"], "id", str, "post_processor")
            for part in parts
            if "SpecialToken" in part
        ]
        at = kinds.index("Sequence")
        if at > 1 or len(names) - at > 1 or before or after:
            reader.fail("post_processor: images put at most one token before and one after a text")
        before = names[0] if at else None
        after = names[at] if len(names) > at else None
    return before, after
