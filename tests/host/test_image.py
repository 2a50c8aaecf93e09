"""The image format (docs/image-format.md): planes, quantizer, writer, readers, vectors, damage."""

from __future__ import annotations

import hashlib
import json
import math
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from edge_llm import engine
from edge_llm.image import (
    Config,
    Dtype,
    Image,
    Section,
    crc32c,
    directory,
    rope_phase,
    write_image,
)
from edge_llm.quantize import rtn
from edge_llm.tiles import ACCUMULATOR_LIMIT, Planes, Quantized, accumulator, pack, unpack
from edge_llm.tokenizer import Kind, Split, Tokenizer, TokenType
from hypothesis import given, settings
from hypothesis import strategies as st

VECTORS = Path(__file__).parents[1] / "vectors"
sys.path.insert(0, str(VECTORS))
import make  # noqa: E402  (tests/vectors/make.py)

NAMES = [name for name, *_ in make.IMAGES]
DAMAGED = json.loads((VECTORS / "damaged.json").read_text())
EXPECTED = json.loads((VECTORS / "expected.json").read_text())


def vector(name: str) -> bytes:
    return (VECTORS / f"{name}.llm").read_bytes()


def vocabulary(name: str) -> Tokenizer:
    (kind,) = (row[-1] for row in make.IMAGES if row[0] == name)
    return make.VOCABULARIES[kind]()


# ------------------------------------------------------------------------------------- planes


def literal_planes(matrix: Quantized, bits: int) -> tuple[bytes, bytes, bytes]:
    """The planes, element by element as the page writes them."""
    codes, scales, row_scales = matrix
    rows, groups = scales.shape
    data, scale_plane, row_plane = bytearray(), bytearray(), bytearray()

    def code(row: int, col: int) -> int:
        return int(codes[row, col]) if row < rows else 0

    for tile in range(math.ceil(rows / 4)):
        for group in range(groups):
            for row in range(4 * tile, 4 * tile + 4):
                if bits == 4:
                    for k in range(16):
                        low, high = code(row, 32 * group + k), code(row, 32 * group + k + 16)
                        data.append((low & 15) | (high & 15) << 4)
                else:
                    for k in range(32):
                        data.append(code(row, 32 * group + k) & 255)
                scale_plane.append((int(scales[row, group]) if row < rows else 0) & 255)
        for row in range(4 * tile, 4 * tile + 4):
            row_plane += struct.pack("<f", row_scales[row] if row < rows else 0.0)
    return bytes(data), bytes(scale_plane), bytes(row_plane)


@st.composite
def matrices(draw: st.DrawFn, bits: int) -> tuple[Quantized, int]:
    rows, cols = draw(st.integers(1, 9)), draw(st.integers(1, 70))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    groups = -(-cols // 32)
    low, high = (-8, 8) if bits == 4 else (-128, 128)
    codes = np.zeros((rows, groups * 32), np.int8)
    codes[:, :cols] = rng.integers(low, high, (rows, cols))
    scales = rng.integers(-127, 128, (rows, groups)).astype(np.int8)
    return Quantized(codes, scales, rng.random(rows, np.float32)), cols


@pytest.mark.parametrize("bits", [4, 8])
@given(data=st.data())
@settings(max_examples=50, deadline=None)
def test_pack_is_the_literal_layout(bits: int, data: st.DataObject) -> None:
    matrix, _ = data.draw(matrices(bits))
    planes = pack(matrix, bits)
    assert tuple(plane.tobytes() for plane in planes) == literal_planes(matrix, bits)


@pytest.mark.parametrize("bits", [4, 8])
@given(data=st.data())
@settings(max_examples=50, deadline=None)
def test_unpack_is_the_inverse_of_pack(bits: int, data: st.DataObject) -> None:
    matrix, cols = data.draw(matrices(bits))
    again = unpack(pack(matrix, bits), len(matrix.codes), cols, bits)
    for got, want in zip(again, matrix, strict=True):
        np.testing.assert_array_equal(got, want)


def test_dequantize_rounds_as_the_engine_does() -> None:
    matrix = Quantized(
        np.array([[-8, 7] + [0] * 30], np.int8),
        np.array([[-127]], np.int8),
        np.array([0.1], np.float32),
    )
    want = [[np.float32(1016) * np.float32(0.1), np.float32(-889) * np.float32(0.1)]]
    np.testing.assert_array_equal(matrix.dequantize(2), np.array(want, np.float32))


@pytest.mark.parametrize(
    ("codes", "scales", "bits", "what"),
    [
        ([8] + [0] * 31, [1], 4, "code"),
        ([-9] + [0] * 31, [1], 4, "code"),
        ([1] * 32, [-128], 8, "scale"),
        ([1] * 31, [1], 8, "do not describe one matrix"),
        ([1] * 64, [1], 8, "do not describe one matrix"),
    ],
)
def test_pack_refuses(codes: list[int], scales: list[int], bits: int, what: str) -> None:
    matrix = Quantized(
        np.array([codes], np.int8), np.array([scales], np.int8), np.ones(1, np.float32)
    )
    with pytest.raises(ValueError, match=what):
        pack(matrix, bits)


# ---------------------------------------------------------------------------------- quantizer


@st.composite
def weights(draw: st.DrawFn) -> np.ndarray:
    rows, cols = draw(st.integers(1, 6)), draw(st.integers(1, 100))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    values = rng.standard_normal((rows, cols)) * 10.0 ** rng.integers(-6, 6, (rows, 1))
    values *= 10.0 ** rng.integers(-3, 1, (1, cols)) if draw(st.booleans()) else 1
    return values.astype(np.float32)


def steps_of(result: Quantized) -> np.ndarray:
    """float64 [rows, n_groups]: the distance between two neighbouring codes of each group."""
    return np.abs(result.scales.astype(np.float64) * result.row_scales[:, None])


@given(w=weights())
@settings(max_examples=100, deadline=None)
def test_int8_clips_nothing_and_rounds_to_nearest(w: np.ndarray) -> None:
    result = rtn.quantize("w", w, 8)
    error = np.abs(result.dequantize(w.shape[1]) - w.astype(np.float64))
    steps = np.repeat(steps_of(result), 32, axis=1)[:, : w.shape[1]]
    assert (error <= steps * (0.5 + 1e-4)).all()
    # Scales are rounded up by less than one of 127, so steps are close to the best there are.
    peaks = np.abs(np.pad(w, ((0, 0), (0, -w.shape[1] % 32)))).reshape(len(w), -1, 32).max(axis=2)
    assert (steps_of(result) <= peaks / 127 + result.row_scales[:, None] * 1.001).all()


@given(w=weights())
@settings(max_examples=100, deadline=None)
def test_int4_peak_of_the_widest_group_is_minus_8(w: np.ndarray) -> None:
    result = rtn.quantize("w", w, 4)
    codes = result.codes.reshape(*result.scales.shape, 32)
    padded = np.pad(w, ((0, 0), (0, -w.shape[1] % 32))).reshape(codes.shape)
    for row in range(len(w)):
        peak = np.unravel_index(np.abs(padded[row]).argmax(), padded[row].shape)
        assert abs(int(result.scales[row, peak[0]])) == 127
        assert codes[row][peak] == -8
    # What is not clipped is rounded to nearest.
    error = np.abs(result.dequantize(w.shape[1]) - w.astype(np.float64))
    steps = np.repeat(steps_of(result), 32, axis=1)[:, : w.shape[1]]
    clipped = (result.codes[:, : w.shape[1]] == 7) | (result.codes[:, : w.shape[1]] == -8)
    assert (error <= steps * (0.5 + 1e-4))[~clipped].all()


@pytest.mark.parametrize("bits", [4, 8])
def test_zero_and_tiny_rows_are_zeros(bits: int) -> None:
    w = np.zeros((3, 40), np.float32)
    w[1] = 1e-42  # its scale would be a subnormal float
    w[2, 3] = 1.0
    result = rtn.quantize("w", w, bits)
    assert not result.dequantize(40)[:2].any()
    np.testing.assert_allclose(result.dequantize(40)[2], w[2], rtol=1e-6)


def test_quantizing_is_the_same_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    w = np.random.default_rng(1).standard_normal((37, 50)).astype(np.float32)
    whole = rtn.quantize("w", w, 4)
    monkeypatch.setattr(rtn, "_BLOCK", 200)
    for got, want in zip(rtn.quantize("w", w, 4), whole, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("cols", [1024, 1049, 4096, 16384])
def test_int8_rows_stay_within_the_accumulator(cols: int) -> None:
    w = np.random.default_rng(2).standard_normal((3, cols)).astype(np.float32)
    w[1] = np.where(w[1] > 0, 1, -1)  # all extreme: the worst there is
    w[2] = 0.75
    result = rtn.quantize("w", w, 8)
    assert accumulator(result.codes, result.scales).max() <= ACCUMULATOR_LIMIT
    # Even so an element is off by a fraction of the row's largest only.
    error = np.abs(result.dequantize(cols) - w).max(axis=1)
    assert (error <= np.abs(w).max(axis=1) * (0.005 if cols < 1100 else 0.05)).all()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_is_refused_by_name(value: float) -> None:
    w = np.ones((2, 3), np.float32)
    w[1, 2] = value
    with pytest.raises(ValueError, match=r"tensor attn_q of layer 3: element \(1, 2\)"):
        rtn.quantize("attn_q of layer 3", w, 8)


# ----------------------------------------------------------------------------- write and read


def test_crc32c_is_castagnoli() -> None:
    assert crc32c(b"123456789") == 0xE3069283


def test_rope_phase_by_the_formula() -> None:
    want = [round(500_000 ** (-2 * j / 64) / (2 * math.pi) * 2**32) for j in range(32)]
    np.testing.assert_array_equal(rope_phase(64, 500_000.0), [want])


def test_vectors_are_what_the_script_writes(tmp_path: Path) -> None:
    make.build(tmp_path)
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written == sorted([f"{name}.llm" for name in NAMES] + ["damaged.json", "expected.json"])
    for name in written:
        assert (tmp_path / name).read_bytes() == (VECTORS / name).read_bytes(), name


@pytest.mark.parametrize("name", NAMES)
def test_python_reads_the_vectors(name: str) -> None:
    image, want = Image.open(VECTORS / f"{name}.llm"), EXPECTED[name]
    image.verify()
    assert image.total_size == want["size"]
    assert image.section("HASH").tobytes().hex() == want["sha256"]
    config = vars(image.config) | {"norm_eps": image.config.norm_eps.hex()}
    assert config == want["config"]
    assert image.card["name"] == name
    assert len(image.tensors) == len(want["tensors"])
    for tensor in want["tensors"]:
        found = image.find(tensor["name"], tensor["layer"])
        assert found.dtype.name.lower() == tensor["dtype"]
        values = image.values(found)
        assert values.shape == (tensor["rows"], tensor["cols"])
        for row, col, value in tensor["values"]:
            assert float(values[row, col]) == float.fromhex(value)
    got, made = image.tokenizer, vocabulary(name)
    assert got.kind == made.kind and got.pieces == made.pieces
    np.testing.assert_array_equal(got.ranks, made.ranks)
    np.testing.assert_array_equal(got.types, made.types)
    assert (got.bos_id, got.eos_id, got.unk_id) == (made.bos_id, made.eos_id, made.unk_id)
    if got.kind == Kind.BPE:
        np.testing.assert_array_equal(got.merges, made.merges)
        assert got.split == Split.LLAMA3
        assert not (got.ignore_merges or got.add_bos or got.add_space_prefix)
    elif got.kind == Kind.WORDPIECE:
        assert got.lowercase and got.strip_accents and got.add_space_prefix and not got.add_bos
    else:
        assert got.byte_fallback and got.add_bos and got.add_space_prefix and got.cut_at_spaces


@pytest.mark.parametrize("name", NAMES)
def test_the_engine_reads_the_vectors(name: str) -> None:
    want = EXPECTED[name]
    model = engine.Model(vector(name))
    config = model.config()
    assert model.hash().hex() == want["sha256"]
    assert json.loads(model.card())["name"] == name
    assert config["rope"] == {1: "neighbours", 2: "halves"}[want["config"]["rope"]]
    for field in ("vocab_size", "dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads"):
        assert config[field] == want["config"][field]
    for field in ("head_dim", "context", "tied", "rope_theta"):
        assert config[field] == want["config"][field]
    assert config["norm_eps"].hex() == want["config"]["norm_eps"]
    for text, special, ids in want["encode"]:
        assert model.encode(text, special=special) == ids
    made = vocabulary(name)
    for token, (piece, kind) in enumerate(zip(made.pieces, made.types, strict=True)):
        if kind != TokenType.UNKNOWN:
            assert model.piece(token) == (b"" if kind == TokenType.CONTROL else piece)
    assert model.memory()["image"] == want["size"]


def test_int4_elements_are_what_their_nibbles_say() -> None:
    """From the bytes of the file to a value with nothing but arithmetic."""
    raw = vector("tiny-int4")
    sections = {section.name: section for section in Image(raw).sections}
    entry = sections["TDIR"].offset + 32  # the second: attn_q of layer 0
    role, layer = struct.unpack_from("<HH", raw, entry)
    assert (role, layer, raw[entry + 4]) == (17, 0, Dtype.INT4)
    rows, cols, data, scales, row_scales = struct.unpack_from("<5I", raw, entry + 8)
    base = sections["DATA"].offset
    values = Image(raw).values(Image(raw).find("attn_q", 0))
    assert values.shape == (rows, cols)
    for row in range(rows):
        tile, lane = divmod(row, 4)
        for col in range(cols):
            group, k = divmod(col, 32)
            block = (tile * math.ceil(cols / 32) + group) * 4 + lane
            byte = raw[base + data + block * 16 + k % 16]
            code = (byte >> 4) if k >= 16 else byte & 15
            code -= 16 if code > 7 else 0
            (scale,) = struct.unpack_from("<b", raw, base + scales + block)
            (row_scale,) = struct.unpack_from("<f", raw, base + row_scales + 4 * row)
            assert values[row, col] == np.float32(code * scale) * np.float32(row_scale)


def write(path: Path, config: Config, tokenizer: Tokenizer, dtype: Dtype = Dtype.INT4) -> int:
    tensors = directory(config, lambda name, layer: dtype)
    return write_image(path, config, tokenizer, {}, tensors, make.planes)


CONFIG = Config(288, 16, 44, 2, 4, 2, 6, 64)


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    def planes(tensor: object) -> tuple[np.ndarray, ...]:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        write_image(
            tmp_path / "m.llm",
            CONFIG,
            make.tokenizer(),
            {},
            directory(CONFIG, lambda name, layer: Dtype.INT4),
            planes,
        )
    assert not list(tmp_path.iterdir())


def test_planes_of_another_size_are_refused(tmp_path: Path) -> None:
    tensors = directory(CONFIG, lambda name, layer: Dtype.F32)
    with pytest.raises(ValueError, match="attn_norm of layer 0: has 4 bytes instead of 64"):
        write_image(
            tmp_path / "m.llm",
            CONFIG,
            make.tokenizer(),
            {},
            tensors,
            lambda tensor: (np.ones(1, np.float32),),
        )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("vocab_size", 0),
        ("dim", 16_385),
        ("hidden_dim", 0),
        ("n_layers", 257),
        ("n_heads", 0),
        ("n_kv_heads", 3),
        ("head_dim", 7),
        ("context", 0),
        ("norm_eps", float("nan")),
        ("rope_theta", float("inf")),
        ("rope", 3),
    ],
)
def test_the_writer_refuses_what_the_reader_would(
    tmp_path: Path, field: str, value: float
) -> None:
    config = Config(**{**vars(CONFIG), field: value})
    with pytest.raises(ValueError, match=f"^{field}: "):
        write(tmp_path / "m.llm", config, make.tokenizer())


def test_a_tokenizer_of_another_vocabulary_is_refused(tmp_path: Path) -> None:
    config = Config(**{**vars(CONFIG), "vocab_size": 300})
    with pytest.raises(ValueError, match="n_tokens: the tokenizer has 288 tokens"):
        write(tmp_path / "m.llm", config, make.tokenizer())


def test_a_tokenizer_without_bytes_or_special_tokens(tmp_path: Path) -> None:
    """Everything optional left out, and pieces that are empty or have a space inside."""
    pieces = [b"", b"a b", b"a", b"\xff"]
    tokenizer = Tokenizer(
        pieces,
        np.arange(4, dtype=np.uint32),
        np.full(4, TokenType.NORMAL, np.uint8),
        add_bos=False,
        add_space_prefix=False,
        byte_fallback=False,
    )
    write(tmp_path / "m.llm", Config(4, 8, 8, 1, 1, 1, 8, 8), tokenizer)
    image = Image.open(tmp_path / "m.llm")
    image.verify()
    got = image.tokenizer
    assert got.pieces == pieces
    assert (got.bos_id, got.eos_id, got.unk_id) == (-1, -1, -1)
    assert not (got.add_bos or got.add_space_prefix or got.byte_fallback or got.cut_at_spaces)
    assert got.sorted_ids.tolist() == [0, 2, 1, 3]
    assert (got.byte_ids == 0xFFFFFFFF).all()


# ------------------------------------------------------------------------------------- damage


def damage(case: dict) -> bytes:
    data = bytearray(vector("tiny-int4"))
    for offset, value in case["patches"]:
        data[offset : offset + len(value) // 2] = bytes.fromhex(value)
    return bytes(data)


def read_in_full(data: bytes) -> None:
    Image(data).verify()


READERS = [
    pytest.param(read_in_full, id="python"),
    pytest.param(lambda data: engine.Model(data), id="engine"),
]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("case", DAMAGED, ids=lambda case: case["name"].replace(" ", "_"))
def test_damage_is_named(case: dict, read) -> None:
    assert case["patches"]
    with pytest.raises(ValueError) as raised:
        read(damage(case))
    assert case["field"] in str(raised.value)
    assert "\n" not in str(raised.value)


def boundaries() -> list[int]:
    sections = Image(vector("tiny-int4")).sections
    edges = {0, 1, 7, 8, 63, 64, 64 + 16 * len(sections)}
    for section in sections:
        edges |= {section.offset, section.offset + 1, section.offset + section.size}
    return sorted(edge for edge in edges if edge < len(vector("tiny-int4")))


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("size", boundaries())
def test_truncation_is_refused_at_every_boundary(size: int, read) -> None:
    # CPython keeps the shortest bytes anywhere, so they may be misaligned before they are too few.
    what = "truncated|too few|magic" + ("|multiple" if size < 2 else "")
    with pytest.raises(ValueError, match=what):
        read(vector("tiny-int4")[:size])


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("bit", [0, 7])
def test_every_bit_counts_in_header_and_tables(bit: int, read) -> None:
    """A flipped bit anywhere before DATA is noticed, whatever it means."""
    good = vector("tiny-int4")
    end = next(s.offset for s in Image(good).sections if s.name == "TOKN") + 64
    for at in range(end):
        if not in_a_gap(at):
            data = bytearray(good)
            data[at] ^= 1 << bit
            with pytest.raises(ValueError):
                read(bytes(data))


def in_a_gap(at: int) -> bool:
    """Whether a byte is padding, which the engine does not read."""
    sections = [Section("", 0, 64 + 16 * 6, 0), *Image(vector("tiny-int4")).sections]
    return not any(s.offset <= at < s.offset + s.size for s in sections)


def fixed(data: bytearray) -> bytes:
    """The image with every CRC and the hash made right again."""
    for at in range(64, 160, 16):
        kind, offset, size, _ = struct.unpack_from("<4sIII", data, at)
        if kind == b"HASH":
            break
        struct.pack_into("<I", data, at + 12, crc32c(bytes(data[offset : offset + size])))
    struct.pack_into("<I", data, 60, crc32c(bytes(data[:60] + data[64:160])))
    data[offset : offset + 32] = hashlib.sha256(data[:offset]).digest()
    return bytes(data)


def deep_cases() -> list[tuple[str, int, bytes]]:
    """(what `verify` must say, offset, bytes to write) of damage that only a full check finds."""
    image = Image(vector("tiny-int4"))
    sections = {section.name: section for section in image.sections}
    tokn, data = sections["TOKN"].offset, sections["DATA"].offset
    field = {
        name: tokn + struct.unpack_from("<I", vector("tiny-int4"), tokn + at)[0]
        for name, at in (("piece_offsets", 32), ("types", 40), ("sorted", 44), ("byte_ids", 52))
    }
    embedding = image.find("token_embd")
    query = image.find("attn_q", 0)
    return [
        ("gap", sections["CONF"].offset - 1, b"\1"),
        ("gap", len(vector("tiny-int4")) - 1, b"\1"),
        ("piece_offsets", field["piece_offsets"] + 4, b"\xff\xff\0\0"),
        ("piece_offsets", field["piece_offsets"] + 4 * 288, b"\xff\xff\xff\0"),
        ("types", field["types"] + 5, b"\6"),
        ("types", field["types"] + 280, b"\0"),
        ("pieces", field["types"] + 287, b"\4"),  # a byte token of four bytes
        ("sorted", field["sorted"], struct.pack("<I", 5)),
        ("byte_ids", field["byte_ids"] + 4, struct.pack("<I", 5)),
        ("CARD", sections["CARD"].offset, b"["),
        ("token_embd: a group scale is -128", data + embedding.scales, b"\x80"),
        ("token_embd: padded columns", data + embedding.data + 31, b"\1"),
        ("gap", data + query.scales + query.plane_sizes[1], b"\1"),
    ]


@pytest.mark.parametrize(("message", "at", "patch"), deep_cases())
def test_verify_checks_what_open_leaves(message: str, at: int, patch: bytes) -> None:
    data = bytearray(vector("tiny-int4"))
    assert data[at : at + len(patch)] != patch
    data[at : at + len(patch)] = patch
    data = fixed(data)
    with pytest.raises(ValueError, match=message):
        Image(data).verify()


def test_verify_notices_another_hash() -> None:
    data = bytearray(vector("tiny-int4"))
    data[next(s.offset for s in Image(bytes(data)).sections if s.name == "HASH")] ^= 1
    Image(bytes(data))  # opens: the hash takes time
    with pytest.raises(ValueError, match="HASH: the SHA-256"):
        Image(bytes(data)).verify()


def test_verify_notices_a_row_that_overflows(tmp_path: Path) -> None:
    config = Config(288, 1056, 8, 1, 1, 1, 8, 8)

    def planes(tensor):
        if tensor.name != "attn_q":
            return make.planes(tensor)
        shape = (tensor.rows, 33)
        extreme = Quantized(
            np.full((tensor.rows, 1056), 127, np.int8),
            np.full(shape, 127, np.int8),
            np.ones(tensor.rows, np.float32),
        )
        return pack(extreme, 8)

    path = tmp_path / "m.llm"
    tensors = directory(config, lambda name, layer: Dtype.INT8)
    write_image(path, config, make.tokenizer(), {}, tensors, planes)
    with pytest.raises(ValueError, match="attn_q of layer 0: a row sums to 17032224, above"):
        Image.open(path).verify()


def test_a_larger_holder_and_a_private_section_are_fine() -> None:
    """What holds the image may be larger; sections of lower-case type are skipped."""
    good = vector("tiny-int4")
    Image(good + b"\xff" * 100).verify()
    engine.Model(good + b"\xff" * 100)
    # The gap between the section table and CONF has room for a seventh entry.
    data = bytearray(good)
    data[64 + 96 : 64 + 112] = struct.pack("<4sIII", b"note", len(good), 0, 0)
    struct.pack_into("<I", data, 16, 7)
    struct.pack_into("<I", data, 60, crc32c(bytes(data[:60] + data[64 : 64 + 112])))
    assert [section.name for section in Image(bytes(data)).sections][-1] == "note"
    engine.Model(bytes(data))


def test_planes_is_what_pack_gives() -> None:
    image = Image(vector("tiny-int8"))
    tensor = image.find("ffn_up", 1)
    data, scales, row_scales = image.planes(tensor)
    planes = Planes(data, scales.view(np.int8), row_scales.view("<f4"))
    again = pack(unpack(planes, tensor.rows, tensor.cols, 8), 8)
    for got, want in zip(again, planes, strict=True):
        np.testing.assert_array_equal(got, want)
