"""GGUF models of the llama architecture, as llama.cpp runs them.

Their q and k weights are permuted for a RoPE of neighbours, which images have too
(docs/image-format.md, `rope` 1), so tensors are taken as they lie. Tensors and images use the same
names. Keys of the metadata are those of ggml's docs/gguf.md.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from ..image import Config, Dtype, directory, rope_phase
from ..tokenizer import Normalizer, Split, Tokenizer, TokenType, from_bpe
from .gguf_file import GgufError, GgufFile

_ARCHITECTURE = "llama"
_FREQUENCIES = "rope_freqs.weight"

# What GGUF, as SentencePiece, calls the kinds of tokens.
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = range(1, 7)
_TOKEN_TYPES = {
    _NORMAL: TokenType.NORMAL,
    _UNKNOWN: TokenType.UNKNOWN,
    _CONTROL: TokenType.CONTROL,
    _USER_DEFINED: TokenType.USER,
    _UNUSED: TokenType.CONTROL,  # never encoded
    _BYTE: TokenType.BYTE,
}
# How text is split before byte-level BPE merges it, by `tokenizer.ggml.pre`.
_SPLITS = {
    "gpt-2": Split.GPT2,
    "llama-bpe": Split.LLAMA3,
    "qwen2": Split.QWEN2,
    "smollm": Split.SMOLLM,
}


def open_checkpoint(path: Path, tokenizer: Path | None) -> Checkpoint:
    """Open a model; its tokenizer is in it, so `tokenizer` must be None.

    Raises:
        ValueError: in one sentence, what is wrong.
        OSError: a file cannot be read.
    """
    if tokenizer:
        raise ValueError(f"{path}: a GGUF model has its tokenizer in it; leave out {tokenizer}")
    return Checkpoint(path)


class Checkpoint:
    """A GGUF model; a `Source`."""

    def __init__(self, path: Path) -> None:
        self._file = file = GgufFile(path)
        architecture = file.text("general.architecture")
        if architecture != _ARCHITECTURE:
            file.fail(
                f"general.architecture is {architecture}, edge-llm imports {_ARCHITECTURE}",
                "choose a model of that architecture",
            )
        if file.integer("split.count", 1) > 1:
            file.fail("one part of a model in several", "join them with llama-gguf-split --merge")
        self.config = self._read_config()
        self._check_tensors()
        self._phase = self._read_phase()
        self.tokenizer = read_tokenizer(file)
        found = len(self.tokenizer.pieces)
        if found != self.config.vocab_size:
            file.fail(
                f"has {found} tokens, but token_embd.weight has {self.config.vocab_size} rows",
                "they do not belong together, export the model again",
            )
        kinds = Counter(tensor.kind.name for tensor in file.tensors.values())
        self.origin: dict[str, Any] = {
            "file": path.name,
            "format": f"GGUF version {file.version}, {', '.join(sorted(kinds))}",
        }
        self.licence = file.text("general.license", "unknown")

    def tensor(self, name: str, layer: int | None) -> np.ndarray:
        """As `Source.tensor`."""
        return self._phase if name == "rope_phase" else self._file.values(_name(name, layer))

    def _read_config(self) -> Config:
        file = self._file

        def integer(key: str, default: int | None = None) -> int:
            return file.integer(f"{_ARCHITECTURE}.{key}", default)

        dim, n_heads = integer("embedding_length"), integer("attention.head_count")
        embedding = file.tensors.get("token_embd.weight")
        head_dim = integer("attention.key_length", dim // max(n_heads, 1))
        config = Config(
            embedding.shape[0] if embedding else 1,  # a missing tensor is refused below
            dim,
            integer("feed_forward_length"),
            integer("block_count"),
            n_heads,
            integer("attention.head_count_kv", n_heads),
            head_dim,
            integer("context_length"),
            file.number(f"{_ARCHITECTURE}.attention.layer_norm_rms_epsilon"),
            file.number(f"{_ARCHITECTURE}.rope.freq_base", 10_000.0),
            tied="output.weight" not in file.tensors,
        )
        try:
            config.check()
        except ValueError as error:
            file.fail(f"in its metadata, {error}", "the engine cannot run it")
        for key in ("attention.value_length", "rope.dimension_count"):
            if integer(key, head_dim) != head_dim:
                file.fail(
                    f"{_ARCHITECTURE}.{key} is {integer(key)}, heads have {head_dim} elements",
                    "the engine cannot run it",
                )
        return config

    def _check_tensors(self) -> None:
        """Exactly the tensors of a llama model are there, each in its shape."""
        file, names = self._file, {_FREQUENCIES}
        for tensor in directory(self.config, lambda name, layer: Dtype.F32):
            if tensor.dtype != Dtype.F32:
                continue
            name = _name(tensor.name, tensor.layer)
            names.add(name)
            if name not in file.tensors:
                file.fail(f"tensor {name} is missing", "get the file again")
            norm = tensor.name.endswith("norm")
            want = (tensor.cols,) if norm else (tensor.rows, tensor.cols)
            shape = file.tensors[name].shape
            if shape != want:
                file.fail(
                    f"tensor {name} has the shape {shape}, the metadata asks for {want}",
                    "the file is damaged",
                )
        for name in file.tensors:
            if name not in names:
                file.fail(
                    f"tensor {name} is not of a plain {_ARCHITECTURE} model",
                    "the engine cannot run it",
                )

    def _read_phase(self) -> np.ndarray:
        """`rope_phase`, the scaling of the frequencies in it."""
        file, config = self._file, self.config
        prefix = f"{_ARCHITECTURE}.rope"
        kind = file.text(f"{prefix}.scaling.type", "linear")  # with a factor of 1
        if kind not in ("none", "linear"):
            file.fail(
                f"{prefix}.scaling.type is {kind}, known are none and linear",
                "choose a model without it",
            )
        factor = file.number(f"{prefix}.scaling.factor", 0) or file.number(
            f"{prefix}.scale_linear", 1
        )
        stretch = np.full(config.head_dim // 2, factor if kind == "linear" else 1.0)
        if _FREQUENCIES in file.tensors:
            factors = file.values(_FREQUENCIES)
            if factors.shape != (1, len(stretch)):
                file.fail(
                    f"tensor {_FREQUENCIES} has the shape {file.tensors[_FREQUENCIES].shape}, "
                    f"not ({len(stretch)},)",
                    "the file is damaged",
                )
            stretch = stretch * factors[0]
        if not ((stretch > 0) & (stretch < np.inf)).all():
            file.fail("a factor of its RoPE scaling is not a positive number", "it is damaged")
        return rope_phase(config.head_dim, config.rope_theta, stretch)


def _name(name: str, layer: int | None) -> str:
    return f"{name}.weight" if layer is None else f"blk.{layer}.{name}.weight"


# ------------------------------------------------------------------------------------ tokenizer


def read_tokenizer(file: GgufFile) -> Tokenizer:
    """The vocabulary of a model.

    Raises:
        ValueError: it is damaged, or of a kind that images do not have.
    """
    readers = {"llama": _sentencepiece, "gpt2": _byte_level_bpe}
    model = file.text("tokenizer.ggml.model")
    if model not in readers:
        file.fail(
            f"tokenizer.ggml.model is {model}, edge-llm knows llama (SentencePiece) and gpt2 "
            "(byte-level BPE)",
            "choose a model with such a tokenizer",
        )
    try:
        tokenizer = readers[model](file)
        tokenizer.check()
    except GgufError:
        raise
    except ValueError as error:
        file.fail(f"in its tokenizer, {error}", "the file is damaged")
    return tokenizer


def _sentencepiece(file: GgufFile) -> Tokenizer:
    names, types = _tokens(file)
    scores = file.array("tokenizer.ggml.scores", len(names)).astype(np.float32)
    if np.isnan(scores).any():
        file.fail(f"the score of token {int(np.isnan(scores).argmax())} is NaN", "it is damaged")
    pieces = []
    for token, (name, kind) in enumerate(zip(names, types, strict=True)):
        if kind == TokenType.BYTE:
            byte = re.fullmatch(rb"<0x([0-9A-Fa-f]{2})>", name)
            if not byte:
                file.fail(f"byte token {token} is {name!r}, not <0x..>", "the file is damaged")
            name = bytes.fromhex(byte[1].decode())
        pieces.append(name.replace("\u2581".encode(), b" "))
    return Tokenizer(
        pieces,
        np.unique(-scores, return_inverse=True)[1].astype(np.uint32),
        np.array(types, np.uint8),
        # What llama.cpp takes if they are missing.
        bos_id=_special(file, "bos", 1),
        eos_id=_special(file, "eos", 2),
        unk_id=_special(file, "unknown", 0),
        add_bos=_flag(file, "add_bos_token", True),
        add_space_prefix=_flag(file, "add_space_prefix", True),
        byte_fallback=TokenType.BYTE in types,
    )


def _byte_level_bpe(file: GgufFile) -> Tokenizer:
    pattern = file.text("tokenizer.ggml.pre", "missing")
    if pattern not in _SPLITS:
        file.fail(
            f"tokenizer.ggml.pre, the pattern that splits text, is {pattern}, edge-llm knows "
            f"{', '.join(_SPLITS)}",
            "choose a model with one of these",
        )
    split = _SPLITS[pattern]
    names, types = _tokens(file)
    return from_bpe(
        [name.decode() for name in names],
        [merge.decode() for merge in file.strings("tokenizer.ggml.merges")],
        types,
        split,
        bos_id=_special(file, "bos", -1),
        eos_id=_special(file, "eos", -1),
        unk_id=_special(file, "unknown", -1),
        add_bos=_flag(file, "add_bos_token", split == Split.LLAMA3),
        ignore_merges=split == Split.LLAMA3,
        # GGUF does not say; Qwen's own tokenizer.json does.
        normalizer=Normalizer.NFC if split == Split.QWEN2 else Normalizer.NONE,
    )


def _tokens(file: GgufFile) -> tuple[list[bytes], list[TokenType]]:
    """Names and types."""
    names = file.strings("tokenizer.ggml.tokens")
    kinds = file.array("tokenizer.ggml.token_type", len(names)).tolist()
    for token, kind in enumerate(kinds):
        if kind not in _TOKEN_TYPES:
            name = names[token].decode(errors="replace")
            file.fail(f"token {token} ({name!r}) is of the unknown type {kind}", "it is damaged")
    return names, [_TOKEN_TYPES[kind] for kind in kinds]


def _special(file: GgufFile, key: str, default: int) -> int:
    return file.integer(f"tokenizer.ggml.{key}_token_id", default)


def _flag(file: GgufFile, key: str, default: bool) -> bool:
    return bool(file.metadata.get(f"tokenizer.ggml.{key}", default))
