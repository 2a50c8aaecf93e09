"""llama2.c checkpoints of all versions, good and bad, and conversion."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
from edge_llm.convert import convert
from edge_llm.image import Config, Dtype, Image, Tensor, directory
from edge_llm.importers import foreign_kind, open_model
from edge_llm.importers.llama2c import read_tokenizer
from edge_llm.tokenizer import TokenType
from hypothesis import given, settings
from hypothesis import strategies as st

SHARED = Path(__file__).resolve().parents[3] / "shared"
STORIES = SHARED / "models" / "stories260K"
LLAMA = SHARED / "models" / "llama32k-tokenizer"

# 262 tokens: 3 special, 256 bytes, 3 normal. No width is a multiple of 32.
NORM_EPS = float(np.float32(1e-5))
CONFIG = Config(262, 24, 20, 2, 4, 2, 6, 16)
LAYER_ORDER_LEGACY = (
    ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output"),
    ("ffn_norm", "ffn_gate", "ffn_down", "ffn_up"),
)

Weights = dict[tuple[str, int | None], np.ndarray]


def make_weights(config: Config, seed: int = 1) -> Weights:
    rng = np.random.default_rng(seed)
    return {
        (tensor.name, tensor.layer): rng.standard_normal((tensor.rows, tensor.cols), np.float32)
        for tensor in directory(config, lambda name, layer: Dtype.F32)
        if tensor.dtype == Dtype.F32
    }


def stacked(weights: Weights, config: Config, *names: str) -> list[np.ndarray]:
    """The tensors in file order: each name over all layers, then the next."""
    return [weights[name, layer] for name in names for layer in range(config.n_layers)]


def header(config: Config, vocab: int | None = None) -> bytes:
    return struct.pack(
        "<7i",
        config.dim,
        config.hidden_dim,
        config.n_layers,
        config.n_heads,
        config.n_kv_heads,
        config.vocab_size if vocab is None else vocab,
        config.context,
    )


def legacy(config: Config, weights: Weights) -> bytes:
    """As llama2.c's legacy export writes it."""
    attention, ffn = LAYER_ORDER_LEGACY
    parts = [weights["token_embd", None]]
    parts += stacked(weights, config, *attention)
    parts += stacked(weights, config, *ffn)
    parts.append(weights["output_norm", None])
    parts.append(np.full((2, config.context, config.head_dim // 2), 7, np.float32))
    if not config.tied:
        parts.append(weights["output", None])
    vocab = config.vocab_size if config.tied else -config.vocab_size
    return header(config, vocab) + b"".join(part.tobytes() for part in parts)


def matrices(config: Config, weights: Weights) -> list[np.ndarray]:
    parts = [weights["token_embd", None]]
    parts += stacked(weights, config, "attn_q", "attn_k", "attn_v", "attn_output")
    parts += stacked(weights, config, "ffn_gate", "ffn_down", "ffn_up")
    return parts + ([] if config.tied else [weights["output", None]])


def norms(config: Config, weights: Weights) -> list[np.ndarray]:
    return [*stacked(weights, config, "attn_norm", "ffn_norm"), weights["output_norm", None]]


def version_1(config: Config, weights: Weights) -> bytes:
    head = struct.pack("<Ii", 0x616B3432, 1) + header(config) + bytes([config.tied])
    parts = norms(config, weights) + matrices(config, weights)
    return head.ljust(256, b"\0") + b"".join(part.tobytes() for part in parts)


def version_2(config: Config, weights: Weights, group: int = 8) -> tuple[bytes, Weights]:
    """The file, and the weights it stands for."""
    head = struct.pack("<Ii", 0x616B3432, 2) + header(config) + bytes([config.tied])
    content = (head + struct.pack("<i", group)).ljust(256, b"\0")
    content += b"".join(part.tobytes() for part in norms(config, weights))
    rounded = dict(weights)
    for matrix in matrices(config, weights):
        flat = matrix.reshape(-1, group)  # a group may straddle rows
        scales = (np.abs(flat).max(axis=1) / 127).astype(np.float32)
        codes = np.rint(flat / scales[:, None]).astype(np.int8)
        content += codes.tobytes() + scales.tobytes()
        key = next(key for key, value in weights.items() if value is matrix)
        rounded[key] = (codes * scales[:, None]).astype(np.float32).reshape(matrix.shape)
    return content, rounded


def tokenizer(n: int = 262) -> bytes:
    pieces = [b"<unk>", b"\n<s>\n", b"\n</s>\n", *(b"<0x%02X>" % byte for byte in range(256))]
    pieces += [b" a", b"a", b" "]
    scores = [0.0] * 259 + [-1.0, -3.0, -1.0]
    content = struct.pack("<I", 6)
    for piece, score in list(zip(pieces, scores, strict=True))[:n]:
        content += struct.pack("<fI", score, len(piece)) + piece
    return content


def place(folder: Path, checkpoint: bytes, vocabulary: bytes | None = None) -> Path:
    (folder / "tok262.bin").write_bytes(tokenizer() if vocabulary is None else vocabulary)
    path = folder / "model.bin"
    path.write_bytes(checkpoint)
    return path


def assert_weights(path: Path, config: Config, weights: Weights) -> None:
    source = open_model(path)
    assert source.config == config
    for (name, layer), want in weights.items():
        np.testing.assert_array_equal(source.tensor(name, layer), want, err_msg=f"{name} {layer}")


# -------------------------------------------------------------------------------- the versions


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("write", [legacy, version_1])
def test_float_checkpoints(write, tied: bool, tmp_path: Path) -> None:
    config = replace(CONFIG, tied=tied)
    weights = make_weights(config)
    assert_weights(place(tmp_path, write(config, weights)), config, weights)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("group", [8, 16, 3])
def test_int8_checkpoints(group: int, tied: bool, tmp_path: Path) -> None:
    config = replace(CONFIG, tied=tied)
    if group == 16:  # does not divide the 24 columns: groups straddle rows
        assert config.dim % group
    content, weights = version_2(config, make_weights(config), group)
    assert_weights(place(tmp_path, content), config, weights)


def test_the_card_says_where_it_is_from(tmp_path: Path) -> None:
    path = place(tmp_path, legacy(replace(CONFIG, tied=True), make_weights(CONFIG)))
    origin = open_model(path).origin
    assert origin == {"file": "model.bin", "format": "llama2.c checkpoint, legacy float32"}


# ---------------------------------------------------------------------------------- tokenizer


def test_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "t.bin").write_bytes(tokenizer())
    got = read_tokenizer(tmp_path / "t.bin")
    assert got.pieces[:3] == [b"<unk>", b"<s>", b"</s>"]
    assert got.pieces[3:259] == [bytes([byte]) for byte in range(256)]
    assert got.pieces[259:] == [b" a", b"a", b" "]
    kinds = [TokenType.UNKNOWN, *[TokenType.CONTROL] * 2, *[TokenType.BYTE] * 256]
    assert got.types.tolist() == kinds + [TokenType.NORMAL] * 3
    assert got.ranks.tolist() == [0] * 259 + [1, 2, 1]  # the best score first, equal ones equal
    assert (got.bos_id, got.eos_id, got.unk_id) == (1, 2, 0)
    assert got.add_bos and got.add_space_prefix and got.byte_fallback and got.cut_at_spaces


def test_a_small_vocabulary_has_no_bytes(tmp_path: Path) -> None:
    (tmp_path / "t.bin").write_bytes(tokenizer(100))
    got = read_tokenizer(tmp_path / "t.bin")
    assert not got.byte_fallback
    assert got.pieces[3] == b"<0x00>" and got.types[3] == TokenType.NORMAL


@pytest.mark.parametrize(
    ("piece", "cuts"), [(b" a b", False), (b"a ", False), (b"   ", True), (b"  a", True)]
)
def test_cut_at_spaces(piece: bytes, cuts: bool, tmp_path: Path) -> None:
    (tmp_path / "t.bin").write_bytes(tokenizer() + struct.pack("<fI", -9.0, len(piece)) + piece)
    assert read_tokenizer(tmp_path / "t.bin").cut_at_spaces is cuts


BAD_TOKENIZERS = {
    "empty": (b"", "has 0 bytes"),
    "no pieces": (struct.pack("<I", 6), "0 pieces"),
    "cut in a header": (tokenizer()[:-5], "truncated: piece 261"),
    "cut in a piece": (tokenizer()[:-1], "truncated: piece 261"),
    "text": (b"Once upon a time there was a tokenizer", "not a llama2.c tokenizer, or truncated"),
    "longer piece": (struct.pack("<IfI", 2, 0.0, 3) + b"abc", "piece 0 has 3 bytes"),
    "NaN": (struct.pack("<IfI", 2, float("nan"), 1) + b"a", "score of piece 0 is NaN"),
}


@pytest.mark.parametrize("name", BAD_TOKENIZERS)
def test_bad_tokenizers(name: str, tmp_path: Path) -> None:
    content, message = BAD_TOKENIZERS[name]
    (tmp_path / "t.bin").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_tokenizer(tmp_path / "t.bin")


@pytest.mark.skipif(not LLAMA.is_dir(), reason="needs ../shared/models/llama32k-tokenizer")
def test_the_llama_vocabulary() -> None:
    got = read_tokenizer(LLAMA / "tokenizer.bin")
    assert len(got.pieces) == 32_000
    assert got.byte_fallback and got.cut_at_spaces
    model = sentencepiece.SentencePieceProcessor(str(LLAMA / "tokenizer.model"))
    for token in range(259, 32_000, 37):
        assert got.pieces[token].decode() == model.id_to_piece(token).replace("\u2581", " ")
    by_score = sorted(range(259, 32_000), key=lambda token: -model.get_score(token))
    assert (np.diff(got.ranks[by_score].astype(np.int64)) >= 0).all()


# ------------------------------------------------------------------------------- bad checkpoints


TIED = replace(CONFIG, tied=True)
GOOD = legacy(TIED, make_weights(TIED))


@pytest.mark.parametrize("size", [1, 27, 28, 100, len(GOOD) - 1])
def test_truncated(size: int, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="truncated|do not hold a llama2.c checkpoint"):
        open_model(place(tmp_path, GOOD[:size]))


@pytest.mark.parametrize("size", [0, 4, 8, 35, 255, 256, 1000])
def test_truncated_version_1(size: int, tmp_path: Path) -> None:
    content = version_1(TIED, make_weights(TIED))
    with pytest.raises(ValueError, match="truncated|do not hold|is empty|version 0"):
        open_model(place(tmp_path, content[:size]))


def test_longer_than_its_header_says(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is longer than its header says"):
        open_model(place(tmp_path, GOOD + b"\0"))


@pytest.mark.parametrize(
    ("index", "value", "field"),
    [
        (0, 0, "dim"),
        (0, 2**31 - 1, "dim"),
        (1, -1, "hidden_dim"),
        (2, 2**31 - 1, "n_layers"),
        (3, 0, "n_heads"),
        (3, 5, "n_heads|n_kv_heads"),
        (3, 8, "head_dim"),
        (4, 0, "n_kv_heads"),
        (4, 3, "n_kv_heads"),
        (5, 0, "vocab_size"),
        (5, -(2**31), "vocab_size"),
        (6, 0, "context"),
    ],
)
def test_absurd_headers(index: int, value: int, field: str, tmp_path: Path) -> None:
    content = bytearray(GOOD)
    struct.pack_into("<i", content, 4 * index, value)
    with pytest.raises(ValueError, match=f"in its header, ({field}): "):
        open_model(place(tmp_path, bytes(content)))


@pytest.mark.parametrize("version", [0, 3, -1])
def test_unknown_versions(version: int, tmp_path: Path) -> None:
    content = bytearray(version_1(TIED, make_weights(TIED)))
    struct.pack_into("<i", content, 4, version)
    with pytest.raises(ValueError, match=f"of version {version}; 1 and 2 are known"):
        open_model(place(tmp_path, bytes(content)))


@pytest.mark.parametrize(
    ("group", "message"), [(0, "group_size: 0"), (-8, "group_size: -8"), (5, "does not divide")]
)
def test_bad_group_sizes(group: int, message: str, tmp_path: Path) -> None:
    content = bytearray(version_2(TIED, make_weights(TIED))[0])
    struct.pack_into("<i", content, 37, group)
    with pytest.raises(ValueError, match=message):
        open_model(place(tmp_path, bytes(content)))


@given(content=st.binary(min_size=1, max_size=400))
@settings(max_examples=200, deadline=None)
def test_random_bytes_raise_nothing_else(content: bytes, tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("random")
    with pytest.raises(ValueError):
        open_model(place(folder, content))


FOREIGN = {
    "safetensors": struct.pack("<Q", 64) + b'{"__metadata__":{}',
    "zip": b"PK\3\4\x14\0",
    "pickle": b"\x80\2}q\0",
    ".llm": b"\x89LLM\r\n\x1a\n",
    "llama2.c tokenizer": tokenizer(),
    "SentencePiece": b"\n\x0e\n\x05<unk>\x15",
}


@pytest.mark.parametrize("name", FOREIGN)
def test_other_files_are_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=name):
        open_model(place(tmp_path, FOREIGN[name].ljust(64, b"\0")))
    assert foreign_kind(GOOD[:64]) is None


def test_a_tokenizer_of_another_vocabulary(tmp_path: Path) -> None:
    path = place(tmp_path, GOOD, tokenizer(260))
    with pytest.raises(ValueError, match="has 260 tokens, but the embedding .* has 262"):
        open_model(path)


def test_no_tokenizer(tmp_path: Path) -> None:
    path = place(tmp_path, GOOD)
    (tmp_path / "tok262.bin").unlink()
    with pytest.raises(ValueError, match="no tokenizers .* --tokenizer"):
        open_model(path)


def test_of_several_tokenizers_the_one_that_fits(tmp_path: Path) -> None:
    path = place(tmp_path, GOOD)
    (tmp_path / "tok260.bin").write_bytes(tokenizer(260))
    (tmp_path / "tokbad.bin").write_bytes(b"?")
    assert len(open_model(path).tokenizer.pieces) == 262
    (tmp_path / "token.bin").write_bytes(tokenizer())
    with pytest.raises(ValueError, match="2 tokenizers"):
        open_model(path)
    assert len(open_model(path, str(tmp_path / "token.bin")).tokenizer.pieces) == 262


def test_folders(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must hold one .*llama2.c checkpoint .* it has none"):
        open_model(tmp_path)
    path = place(tmp_path, GOOD)
    assert open_model(tmp_path).origin["file"] == "model.bin"
    (tmp_path / "other.bin").write_bytes(path.read_bytes())
    with pytest.raises(ValueError, match="it has model.bin, other.bin"):
        open_model(tmp_path)


# -------------------------------------------------------------------------------- conversion


@pytest.mark.parametrize(
    ("quantize", "matrix", "head"),
    [
        ("int4", Dtype.INT4, Dtype.INT8),
        ("int8", Dtype.INT8, Dtype.INT8),
        ("f32", Dtype.F32, Dtype.F32),
    ],
)
def test_convert(quantize: str, matrix: Dtype, head: Dtype, tmp_path: Path) -> None:
    weights = make_weights(CONFIG)
    path = place(tmp_path, legacy(CONFIG, weights))
    seen: list[Tensor] = []
    size = convert(
        open_model(path),
        tmp_path / "m.llm",
        quantize,
        context=12,
        licence="MIT",
        progress=seen.append,
    )
    image = Image.open(tmp_path / "m.llm")
    image.verify()
    assert size == image.total_size == (tmp_path / "m.llm").stat().st_size
    assert image.config == replace(CONFIG, context=12, norm_eps=NORM_EPS)
    assert seen == image.tensors
    assert image.card["licence"] == "MIT" and image.card["name"] == "model"
    tolerance = {Dtype.F32: 0.0, Dtype.INT8: 0.01, Dtype.INT4: 0.13}
    for (name, layer), want in weights.items():
        tensor = image.find(name, layer)
        if tensor.name.endswith("norm"):
            assert tensor.dtype == Dtype.F32
        else:
            assert tensor.dtype == (head if name in ("token_embd", "output") else matrix)
        error = np.abs(image.values(tensor) - want).max() / np.abs(want).max()
        assert error <= tolerance[tensor.dtype]


@pytest.mark.parametrize("context", [0, -1, 17])
def test_context_beyond_training_is_refused(context: int, tmp_path: Path) -> None:
    source = open_model(place(tmp_path, GOOD))
    with pytest.raises(ValueError, match=f"context: {context} is not between 1 and the 16"):
        convert(source, tmp_path / "m.llm", "int4", context=context)


@pytest.mark.parametrize("quantize", ["int4", "int8", "f32"])
@pytest.mark.parametrize("key", [("attn_norm", 1), ("ffn_down", 0), ("token_embd", None)])
def test_nan_is_refused_by_the_tensors_name(
    quantize: str, key: tuple[str, int | None], tmp_path: Path
) -> None:
    weights = make_weights(TIED)
    weights[key] = weights[key].copy()
    weights[key].flat[3] = np.nan
    source = open_model(place(tmp_path, legacy(TIED, weights)))
    with pytest.raises(ValueError, match=f"tensor {key[0]}.*element .* is nan"):
        convert(source, tmp_path / "m.llm", quantize)
    assert not list(tmp_path.glob("m.llm*"))


def test_converting_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    path = place(tmp_path, GOOD)
    for name in ("a", "b"):
        convert(open_model(path), tmp_path / name, "int4")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.skipif(not STORIES.is_dir(), reason="needs ../shared/models/stories260K")
def test_stories260k(tmp_path: Path) -> None:
    convert(open_model(STORIES), tmp_path / "m.llm", "int4")
    image = Image.open(tmp_path / "m.llm")
    image.verify()
    assert image.config == Config(512, 64, 172, 5, 8, 4, 8, 512, NORM_EPS, tied=True)
    assert image.total_size < 190_000
    assert image.tokenizer.pieces[286] == open_model(STORIES).tokenizer.pieces[286]
