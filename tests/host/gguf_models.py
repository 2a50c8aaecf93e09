"""GGUF models with weights of one's choice, through the `gguf` package's writer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from edge_llm.image import Config, Dtype, directory
from edge_llm.tokenizer import Tokenizer, TokenType
from gguf import GGMLQuantizationType, GGUFWriter, quants

F32 = GGMLQuantizationType.F32
TYPES = {  # of tokens
    TokenType.NORMAL: 1,
    TokenType.UNKNOWN: 2,
    TokenType.CONTROL: 3,
    TokenType.BYTE: 6,
}


def add_tokenizer(writer: GGUFWriter, tokenizer: Tokenizer) -> None:
    """A SentencePiece vocabulary."""
    names = [
        b"<0x%02X>" % piece[0] if kind == TokenType.BYTE else piece.replace(b" ", "▁".encode())
        for piece, kind in zip(tokenizer.pieces, tokenizer.types, strict=True)
    ]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(names)
    writer.add_token_scores((-tokenizer.ranks.astype(np.float32)).tolist())
    writer.add_token_types([TYPES[TokenType(kind)] for kind in tokenizer.types])
    for name in ("bos", "eos", "unk"):
        token = getattr(tokenizer, f"{name}_id")
        if token >= 0:
            getattr(writer, f"add_{name}_token_id")(token)
    writer.add_add_bos_token(tokenizer.add_bos)
    writer.add_add_space_prefix(tokenizer.add_space_prefix)


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
