"""Damaged and hostile images, prompts and settings against the C core under ASan and UBSan.

tests/core/check_image.c does the work: whatever it is sent, it must answer with the documented
status and a message that names what is wrong, or run. A sanitizer's report is a failure.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from edge_llm.image import Dtype, Image, crc32c

ROOT = Path(__file__).parents[2]
VECTORS = ROOT / "tests" / "vectors"
NAMES = ["tiny-f32", "tiny-int4", "tiny-int8"]
IMAGES = {name: (VECTORS / f"{name}.llm").read_bytes() for name in NAMES}
GOOD = IMAGES["tiny-int4"]
MODEL = Image(GOOD)
SECTIONS = {section.name: section for section in MODEL.sections}
BPE = (VECTORS / "tiny-bpe.llm").read_bytes()
WORDPIECE = (VECTORS / "tiny-wordpiece.llm").read_bytes()
IMAGE, VALUE, UTF8, CONTEXT, MEMORY = range(1, 6)  # llm_status_t
ALL_ONES = 0xFFFFFFFF
NAN, INF = float("nan"), float("inf")


class Harness:
    """A running check_image."""

    _REQUEST = struct.Struct("<14IfI3fII")

    def __init__(self, program: Path) -> None:
        self._process = subprocess.Popen(
            [program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # The engine does not allocate; to look for leaks takes rights that containers lack.
            env=os.environ | {"ASAN_OPTIONS": "detect_leaks=0"},
        )

    def close(self) -> None:
        """End the program. It must not have complained."""
        _, err = self._process.communicate()
        assert self._process.returncode == 0 and not err, err.decode(errors="replace")

    def __call__(
        self,
        image: bytes = GOOD,
        prompt: str | bytes = "the hen",
        image_shift: int = 0,
        verify: bool = True,
        context: int = 0,
        block: int = 0,
        cache: int = 0,
        ram_missing: int = 0,
        ram_shift: int = 0,
        bos: bool = True,
        special: bool = False,
        scratch_missing: int = 0,
        max_tokens: int = 1000,
        token: int = ALL_ONES,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        repeat_last_n: int = 64,
        damage_at: int = ALL_ONES,
    ) -> tuple[str, int, str]:
        """What check_image answers: the step that failed or `ok`, the status, the message or the
        token. The parameters are its request_t."""
        text = prompt.encode() if isinstance(prompt, str) else prompt
        request = self._REQUEST.pack(
            *(len(image), image_shift, verify, context, block, cache, ram_missing, ram_shift),
            *(len(text), bos, special, scratch_missing, max_tokens, token),
            *(temperature, top_k, top_p, min_p, repetition_penalty, repeat_last_n, damage_at),
        )
        try:
            self._process.stdin.write(request + image + text)
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has died: the empty answer says so
        step, _, rest = self._process.stdout.readline().decode().rstrip("\n").partition(" ")
        if not rest:
            pytest.fail(self._process.stderr.read().decode(errors="replace"))
        status, _, message = rest.partition(" ")
        return step, int(status), message

    def refuses(self, image: bytes, words: str | tuple[str, ...], **settings: object) -> None:
        """The image must not open, and the message must have one of `words`."""
        step, status, message = self(image, **settings)
        assert (step, status) == ("open", IMAGE), message
        words = (words,) if isinstance(words, str) else words
        assert any(word in message for word in words), message

    def runs(self, image: bytes = GOOD, **settings: object) -> int:
        """The token that comes out; it is one of the vocabulary."""
        step, _, message = self(image, **settings)
        assert step == "ok", message
        assert 0 <= int(message) < MODEL.config.vocab_size
        return int(message)


def build(folder: str, extra: str = "") -> Harness:
    """check_image with more options for the compiler, running."""
    program = f"{folder}/check_image"
    make = ["make", "-s", "-C", ROOT / "tests" / "core", f"../../{program}"]
    make += [f"BUILD=../../{folder}", f"EXTRA={extra}"]
    built = subprocess.run(make, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return Harness(ROOT / program)


@pytest.fixture(scope="module")
def harness() -> Iterator[Harness]:
    harness = build("build/core-tests")
    yield harness
    harness.close()


def u32(value: int) -> bytes:
    return struct.pack("<I", value)


def f32(value: float) -> bytes:
    return struct.pack("<f", value)


def patched(image: bytes, at: int, patch: bytes, reseal: bool = True) -> bytes:
    """The image with other bytes at `at`, and with all CRCs made right again."""
    data = bytearray(image)
    assert data[at : at + len(patch)] != patch, "the patch changes nothing"
    data[at : at + len(patch)] = patch
    return resealed(data) if reseal else bytes(data)


def resealed(data: bytearray) -> bytes:
    """The image with the CRCs of what can be found of its header and sections."""
    (n_sections,) = struct.unpack_from("<I", data, 16)
    if n_sections <= 16:
        end = 64 + 16 * n_sections
        for at in range(64, end, 16):
            kind, offset, size, _ = struct.unpack_from("<4sIII", data, at)
            if kind != b"HASH":
                crc = crc32c(bytes(data[offset : offset + size]))
                struct.pack_into("<I", data, at + 12, crc)
        struct.pack_into("<I", data, 60, crc32c(bytes(data[:60] + data[64:end])))
    return bytes(data)


# The images themselves


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("verify", [False, True])
def test_good_images_run(harness: Harness, name: str, verify: bool) -> None:
    harness.runs(IMAGES[name], verify=verify)
    # What holds an image may be larger.
    harness.runs(IMAGES[name] + b"\xff" * 3, verify=verify)


@pytest.mark.parametrize("verify", [False, True])
def test_truncated_at_every_boundary(harness: Harness, verify: bool) -> None:
    """One byte before each boundary, at it and one after. Only the whole image opens."""
    ends = {0, 64, 64 + 16 * len(SECTIONS), len(GOOD)}
    ends |= {at for s in SECTIONS.values() for at in (s.offset, s.offset + s.size)}
    for end in sorted({at + step for at in ends for step in (-1, 0, 1)}):
        if 0 <= end < len(GOOD):
            words = f"total_size: the image is truncated, it has {len(GOOD)} bytes and only {end}"
            words = f"header: {end} bytes are too few" if end < 64 else words
            harness.refuses(GOOD[:end], words, verify=verify)


@pytest.mark.parametrize("shift", range(1, 16))
def test_misaligned_buffer(harness: Harness, shift: int) -> None:
    harness.refuses(GOOD, "not a multiple of 16", image_shift=shift)


def test_aligned_to_16_is_enough(harness: Harness) -> None:
    for name in NAMES:
        assert len({harness.runs(IMAGES[name], image_shift=16 * i) for i in range(4)}) == 1


DAMAGED = json.loads((VECTORS / "damaged.json").read_text())


@pytest.mark.parametrize("case", DAMAGED, ids=lambda case: case["name"])
def test_damage_that_python_refuses_too(harness: Harness, case: dict) -> None:
    """tests/vectors/damaged.json, whose cases test_image.py holds both readers to."""
    data = bytearray(GOOD)
    for at, patch in case["patches"]:
        data[at : at + len(patch) // 2] = bytes.fromhex(patch)
    harness.refuses(bytes(data), case["field"])


# The header, bit by bit

HEADER = [
    ("magic", 0, 8),
    ("version", 8, 2),
    ("header_size", 10, 2),
    ("total_size", 12, 4),
    ("n_sections", 16, 4),
    ("section_table", 20, 4),
    ("flags", 24, 4),
    ("reserved", 28, 32),
]


@pytest.mark.parametrize(("field", "at", "size"), HEADER)
def test_every_bit_of_the_header(harness: Harness, field: str, at: int, size: int) -> None:
    """Bare, the field or header_crc is named. With the CRC made right again, the field, or the
    section that no longer fits when there are more of them."""
    with_crc = (field, "section ") if field == "n_sections" else field
    for bit in range(8 * size):
        place = at + bit // 8
        patch = bytes([GOOD[place] ^ 1 << bit % 8])
        harness.refuses(patched(GOOD, place, patch, reseal=False), (field, "header_crc"))
        harness.refuses(patched(GOOD, place, patch), with_crc)


def test_every_bit_of_header_crc_and_section_table(harness: Harness) -> None:
    for place in range(60, 64 + 16 * len(SECTIONS)):
        for bit in range(8):
            patch = bytes([GOOD[place] ^ 1 << bit])
            harness.refuses(patched(GOOD, place, patch, reseal=False), "header_crc")


@pytest.mark.parametrize("version", [0, 2, 255, 256, 65535])
def test_version_of_the_future(harness: Harness, version: int) -> None:
    harness.refuses(patched(GOOD, 8, struct.pack("<H", version)), f"version {version}, this")


# The section table


@pytest.mark.parametrize("name", SECTIONS)
def test_crc_of_each_section(harness: Harness, name: str) -> None:
    """Any damage is found by `verify`, and by it alone where the contents still make sense."""
    section = SECTIONS[name]
    last = section.offset + section.size - 1
    damaged = patched(GOOD, last, bytes([GOOD[last] ^ 1]), reseal=False)
    if name != "HASH":  # it has no CRC: edge-llm verify compares it
        harness.refuses(damaged, f"section {name}: crc")
    if name in ("DATA", "CARD", "HASH"):
        harness.runs(damaged, verify=False)


def entry(name: str) -> int:
    """Where a section's entry stands in the table."""
    return 64 + 16 * list(SECTIONS).index(name)


@pytest.mark.parametrize("name", SECTIONS)
@pytest.mark.parametrize("verify", [False, True])
def test_section_fields(harness: Harness, name: str, verify: bool) -> None:
    section = SECTIONS[name]
    at = entry(name)

    def refuses(place: int, patch: bytes, words: str) -> None:
        harness.refuses(patched(GOOD, place, patch), words, verify=verify)

    refuses(at, b"ABCD", "section ABCD: type")
    refuses(at, name.lower().encode(), "type")  # skipped, so the next one is out of order
    for offset in (1, 32, section.offset + 1, section.offset + 63):
        refuses(at + 4, u32(offset), f"section {name}: offset: {offset} is not a multiple of 64")
    for offset in (0, 64, section.offset - 64):
        refuses(at + 4, u32(offset), f"section {name}: offset: {offset} overlaps")
    for offset in (len(GOOD), len(GOOD) + 64, 1 << 31, ALL_ONES - 63):
        refuses(at + 4, u32(offset), f"section {name}: size: it ends at {offset + section.size}")
    for size in (len(GOOD) - section.offset + 1, 1 << 31, ALL_ONES):
        refuses(at + 8, u32(size), f"section {name}: size: it ends at {section.offset + size}")
    if name not in ("DATA", "CARD"):  # whose sizes are free
        for size in (0, 1, section.size - 1):
            refuses(at + 8, u32(size), name)


def test_overlapping_sections(harness: Harness) -> None:
    """Each begins in turn where, or just before, the one before it ends."""
    names = list(SECTIONS)
    for before, name in zip(names, names[1:], strict=False):
        for offset in (SECTIONS[before].offset, SECTIONS[name].offset - 64):
            data = bytearray(GOOD)
            struct.pack_into("<I", data, entry(name) + 4, offset)
            struct.pack_into("<I", data, entry(before) + 8, offset + 1 - SECTIONS[before].offset)
            harness.refuses(resealed(data), f"section {name}: offset: {offset} overlaps")


# CONF, TOKN, TDIR: (offset in the image, what to write there, words of the message)

CONF = SECTIONS["CONF"].offset
LIMITS = [
    ("vocab_size", 0, 1 << 20),
    ("dim", 4, 16384),
    ("hidden_dim", 8, 16384),
    ("n_layers", 12, 256),
    ("n_heads", 16, 256),
    ("n_kv_heads", 20, 256),
    ("head_dim", 24, 512),
    ("context", 28, 1 << 20),
]
CONF_CASES = [
    *(
        (CONF + at, u32(value), f"{field}: is {value}, must be")
        for field, at, most in LIMITS
        for value in (0, most + 1, 1 << 31, ALL_ONES)
    ),
    # Within the limits, but not what the other sections are for.
    (CONF, u32(287), "n_tokens: the tokenizer has 288 tokens but vocab_size is 287"),
    (CONF + 4, u32(15), "attn_norm of layer 0: rows or cols"),
    (CONF + 8, u32(45), "ffn_gate of layer 0: rows or cols"),
    (CONF + 12, u32(1), "section TDIR: size"),
    (CONF + 12, u32(256), "section TDIR: size"),
    (CONF + 16, u32(6), "attn_q of layer 0: rows or cols"),
    (CONF + 16, u32(3), "n_kv_heads: 2 does not divide n_heads 3"),
    (CONF + 20, u32(3), "n_kv_heads: 3 does not divide n_heads 4"),
    (CONF + 20, u32(8), "n_kv_heads: 8 does not divide n_heads 4"),
    (CONF + 20, u32(4), "attn_k of layer 0: rows or cols"),
    (CONF + 24, u32(1), "head_dim: 1 is odd"),
    (CONF + 24, u32(7), "head_dim: 7 is odd"),
    (CONF + 24, u32(8), "attn_q of layer 0: rows or cols"),
    (CONF + 16, u32(256) + u32(2) + u32(66), "head_dim: 256 heads of 66 are too wide"),
    *((CONF + 32, f32(value), "norm_eps") for value in (0, -1e-5, 1.001, INF, -INF, NAN)),
    *((CONF + 36, f32(value), "rope_theta") for value in (0, -1, INF, -INF, NAN)),
    *(
        (CONF + at, bytes([kind]), f"{field}: kind {kind} needs a later version")
        for field, at in (("norm", 40), ("activation", 41), ("ffn", 42), ("rope", 43))
        for kind in (0, 3, 255)
    ),
    *((CONF + 44, u32(flags), f"flags: {flags} needs") for flags in (2, 3, 1 << 31)),
    (CONF + 44, u32(0), "section TDIR: size"),  # not tied: a tensor is missing
    (CONF + 48, b"\1", "section CONF: reserved"),
    (CONF + 127, b"\1", "section CONF: reserved"),
]

TOKN = SECTIONS["TOKN"].offset
TABLES = [("pieces", 24, 1), ("piece_offsets", 32, 4), ("ranks", 36, 4), ("types", 40, 1)]
TABLES += [("sorted", 44, 4), ("byte_ids", 52, 4), ("specials", 56, 4)]
TOKN_CASES = [
    *((TOKN, u32(kind), f"kind: {kind} needs") for kind in (0, 4, ALL_ONES)),
    *((TOKN + 4, u32(n), f"n_tokens: the tokenizer has {n} tokens") for n in (0, 287, ALL_ONES)),
    *(
        (TOKN + at, u32(value), f"{field}: {value} is not below vocab_size 288")
        for field, at in (("bos_id", 8), ("eos_id", 12), ("unk_id", 16))
        for value in (288, 1 << 31, ALL_ONES - 1)
    ),
    *((TOKN + 20, u32(flags), f"flags: {flags} needs") for flags in (16, 31, 1 << 31)),
    *(
        (TOKN + at, u32(offset), f"{field}: ")
        for field, at, _ in TABLES
        for offset in (SECTIONS["TOKN"].size - 3, 1 << 31, ALL_ONES - 3, ALL_ONES)
    ),
    *(
        (TOKN + at, u32(SECTIONS["TOKN"].offset + 1), f"{field}: ")
        for field, at, width in TABLES
        if width == 4
    ),
    *((TOKN + 28, u32(size), "pieces: ") for size in (322, 4096, 1 << 31, ALL_ONES)),
    *((TOKN + 48, u32(n), f"n_sorted: {n} is above") for n in (289, 1 << 31, ALL_ONES)),
    *((TOKN + 60, u32(n), f"n_specials: {n} is above") for n in (289, 1 << 31, ALL_ONES)),
]


def tensor_cases() -> Iterator[tuple[int, bytes, str]]:
    """Every field of some entries of each kind: first and last, f32, u32, int4 and int8."""
    chosen = [("attn_norm", 0), ("attn_q", 0), ("ffn_down", 1)]
    chosen += [("token_embd", None), ("output_norm", None), ("rope_phase", None)]
    data_size = SECTIONS["DATA"].size
    for name, layer in chosen:
        tensor = MODEL.find(name, layer)
        at = SECTIONS["TDIR"].offset + 32 * MODEL.tensors.index(tensor)
        label = f"tensor {tensor.label}: "
        matrix = tensor.dtype.quantized
        yield from ((at, struct.pack("<H", role), label + "role") for role in (0, 99, 65535))
        yield at + 2, struct.pack("<H", 7), label + "role or layer"
        for dtype in (0, 4 if matrix else 3, 5, 255):
            if dtype != tensor.dtype:
                yield at + 4, bytes([dtype]), label + "dtype"
        yield at + 5, b"\1", label + "reserved"
        yield at + 6, struct.pack("<H", 0 if matrix else 32), label + "group_size"
        yield at + 6, struct.pack("<H", 64), label + "group_size"
        for place, value in ((8, tensor.rows), (12, tensor.cols)):
            for wrong in (0, value - 1, value + 1, value + (1 << 31), ALL_ONES):
                if wrong != value:
                    yield at + place, u32(wrong), label + "rows or cols"
        planes = zip((16, 20, 24), ("data", "scales", "row_scales"), strict=True)
        for i, (place, field) in enumerate(planes):
            if i < len(tensor.plane_sizes):
                fits = (data_size - tensor.plane_sizes[i]) // 64 * 64
                offsets = (1, 32, fits + 64, 1 << 31, ALL_ONES - 63, ALL_ONES)
            else:
                offsets = (64, ALL_ONES)
            yield from ((at + place, u32(offset), label) for offset in offsets)
            yield at + place, u32(offsets[0]), field
        yield at + 28, u32(1), label + "reserved"


# The same for the vocabulary of byte-level BPE: 276 tokens, 17 merges.
BPE_TOKN = next(section for section in Image(BPE).sections if section.name == "TOKN")
BPE_AT, BPE_SIZE = BPE_TOKN.offset, BPE_TOKN.size
BPE_TABLES = [("merges", 68, 8), ("merge_starts", 76, 4), ("specials", 56, 4)]
BPE_CASES = [
    *((BPE_AT + 64, u32(split), f"split: pattern {split} needs") for split in (0, 5, ALL_ONES)),
    *((BPE_AT + 20, u32(flags), f"flags: {flags} needs") for flags in (2, 4, 8, 32, 1 << 31)),
    *((BPE_AT + 72, u32(n), "merges: ") for n in (BPE_SIZE // 8, 1 << 29, ALL_ONES)),
    *(
        (BPE_AT + at, u32(offset), f"{field}: ")
        for field, at, width in BPE_TABLES
        for offset in (BPE_SIZE - 3, 97, 98, 96 + width // 2, 1 << 31, ALL_ONES - 7, ALL_ONES)
        if offset % width or offset > BPE_SIZE - 8
    ),
    (BPE_AT + 36, u32(96), "ranks: is 96, must be 0 for tokenizers of kind 2"),
    (BPE_AT + 80, u32(2), "normalizer: 2 needs"),
    (BPE_AT + 84, b"\1", "section TOKN: reserved"),
    (BPE_AT + 95, b"\1", "section TOKN: reserved"),
]


@pytest.mark.parametrize("case", BPE_CASES, ids=lambda case: case[2])
def test_fields_of_bpe(harness: Harness, case: tuple[int, bytes, str]) -> None:
    at, patch, words = case
    for verify in (False, True):
        harness.refuses(patched(BPE, at, patch), words, verify=verify)


def test_tokenizers_that_are_left_out() -> None:
    """A firmware without them refuses their images and runs the others."""
    left_out = "-DLLM_WITH_BPE=0 -DLLM_WITH_NFC=0 -DLLM_WITH_WORDPIECE=0"
    harness = build("build/core-tests-least", left_out)
    harness.refuses(BPE, "section TOKN: kind: 2 is left out of this firmware")
    harness.refuses(WORDPIECE, "section TOKN: kind: 3 is left out of this firmware")
    harness.runs()
    harness.close()
    harness = build("build/core-tests-no-nfc", "-DLLM_WITH_NFC=0")
    words = "normalizer: form C is left out of this firmware"
    harness.refuses(patched(BPE, BPE_AT + 80, u32(1)), words)
    harness.runs(BPE)
    harness.close()


FIELD_CASES = [*CONF_CASES, *TOKN_CASES, *tensor_cases()]


@pytest.mark.parametrize("case", FIELD_CASES, ids=lambda case: case[2])
def test_fields(harness: Harness, case: tuple[int, bytes, str]) -> None:
    at, patch, words = case
    for verify in (False, True):
        harness.refuses(patched(GOOD, at, patch), words, verify=verify)


# Contents that only show when they are used


@pytest.mark.parametrize("value", [NAN, INF, -INF, 3.4e38, -3.4e38, 1e-45, 0.0])
@pytest.mark.parametrize("name", NAMES)
def test_weights_that_are_not_numbers(harness: Harness, name: str, value: float) -> None:
    """One float of each tensor, all floats of each, all floats of all: still a token comes out."""
    image = Image(IMAGES[name])
    data_at = next(s.offset for s in image.sections if s.name == "DATA")
    everywhere = bytearray(IMAGES[name])
    for tensor in image.tensors:
        if tensor.dtype == Dtype.U32:
            continue
        plane = -1 if tensor.dtype.quantized else 0  # row_scales, or the values
        start, size = data_at + tensor.offsets[plane], tensor.plane_sizes[plane]
        values = np.full(size // 4, value, "<f4").tobytes()
        for one in (values, f32(value)):
            data = bytearray(IMAGES[name])
            data[start : start + len(one)] = one
            harness.runs(bytes(data), verify=False, temperature=0.9, top_p=0.5, min_p=0.01)
        everywhere[start : start + size] = values
    for temperature in (0.0, 1.0):
        for cache in (1, 2):
            harness.runs(
                bytes(everywhere), verify=False, temperature=temperature, top_k=3, cache=cache
            )


@pytest.mark.parametrize("byte", [0x00, 0x7F, 0x80, 0xFF])
@pytest.mark.parametrize("name", NAMES)
def test_data_of_one_byte(harness: Harness, name: str, byte: int) -> None:
    """All codes, scales and floats at their extremes: group scales of -128, NaNs with payloads."""
    section = next(s for s in Image(IMAGES[name]).sections if s.name == "DATA")
    data = bytearray(IMAGES[name])
    data[section.offset : section.offset + section.size] = bytes([byte]) * section.size
    for cache in (1, 2):
        harness.runs(bytes(data), verify=False, prompt="the hen and then", cache=cache, token=5)


def tables(image: bytes) -> dict[str, tuple[int, int]]:
    """Where the tables of TOKN are: (offset in the image, bytes)."""
    start = next(section.offset for section in Image(image).sections if section.name == "TOKN")
    head = struct.unpack_from("<20I", image, start)
    n = head[1]
    sizes = {"pieces": head[7], "piece_offsets": 4 * (n + 1), "ranks": 4 * n, "types": n}
    sizes |= {"sorted": 4 * head[12], "specials": 4 * head[15], "byte_ids": 4 * 256}
    sizes |= {"merges": 8 * head[18], "merge_starts": 4 * (n + 1)}
    fields = [table for table in TABLES if head[0] == 1 or table[0] != "ranks"]
    fields += BPE_TABLES[:2] if head[0] == 2 else []
    return {field: (start + head[at // 4], sizes[field]) for field, at, _ in fields}


@pytest.mark.parametrize(
    ("image", "field"),
    [(image, field) for image in (GOOD, BPE, WORDPIECE) for field in tables(image)],
    ids=lambda value: value if isinstance(value, str) else {BPE: "bpe", GOOD: "good"}.get(value),
)
@pytest.mark.parametrize("seed", range(12))
def test_tokenizer_tables_of_nonsense(
    harness: Harness, image: bytes, field: str, seed: int
) -> None:
    """Pieces and ids are bounded when they are used: tokens of the vocabulary come out."""
    at, size = tables(image)[field]
    rng = np.random.default_rng(seed)
    high = [2, 400, 1 << 16, 1 << 32][seed % 4]
    content = rng.integers(0, high, size, np.uint32).astype("<u4").tobytes()[:size]
    content = [bytes(size), b"\xff" * size, b"\x80" * size, content][min(seed, 3)]
    data = bytearray(image)
    data[at : at + size] = content
    for prompt in ("the then  hen", "é€語😀\0", "a" * 60, "<|end|><tab>the"):
        step, status, message = harness(bytes(data), prompt, verify=False, special=True)
        # All bytes of the prompt may be tokens, and then it is longer than the context.
        assert step == "ok" or (step, status) == ("eval", CONTEXT), message


def test_memory_that_changes_after_the_image_was_opened(harness: Harness) -> None:
    """Flash decays and a bytearray can be written to. The model goes on within its bounds, and
    `verify` notices, whatever it is that changed, the section table and the sizes included."""
    end = SECTIONS["DATA"].offset + 256
    for at in range(0, end, 4):
        if GOOD[at : at + 4] != b"\xff" * 4 and not in_a_gap(at):
            step, status, message = harness(damage_at=at)
            assert (step, status) == ("verify", IMAGE), (at, message)


def in_a_gap(at: int) -> bool:
    """Whether there is but padding, which has no CRC."""
    spans = [(0, 64 + 16 * len(SECTIONS)), *((s.offset, s.size) for s in SECTIONS.values())]
    return not any(start <= at < start + size for start, size in spans)


def test_tables_may_lie_on_each_other(harness: Harness) -> None:
    """Useless, but within the section: nothing is written there."""
    data = bytearray(GOOD)
    for _, at, _ in TABLES:
        struct.pack_into("<I", data, TOKN + at, 0)
    harness.runs(resealed(data), prompt="the")


# Prompts, options and settings: (what is asked for, step, status, words of the message)

LONG = "a " * 200
CASES = [
    ({"prompt": LONG}, "eval", CONTEXT, "do not fit, the context has room for 64"),
    ({"prompt": LONG, "context": 9}, "eval", CONTEXT, "the context has room for 9"),
    ({"prompt": "", "context": 1, "token": 5}, "eval", CONTEXT, "1 do not fit"),
    ({"prompt": "", "bos": False}, "sample", VALUE, "logits: there are none"),
    ({"prompt": b"ab\xff"}, "encode", UTF8, "text: the byte at 2 is not UTF-8"),
    ({"prompt": b"\x80"}, "encode", UTF8, "the byte at 0"),
    ({"prompt": "語".encode()[:2]}, "encode", UTF8, "the byte at 0"),
    ({"prompt": b"a\xed\xa0\x80"}, "encode", UTF8, "the byte at 1"),
    ({"prompt": b"a\xc0\xaf"}, "encode", UTF8, "the byte at 1"),
    ({"prompt": b"\xf4\x90\x80\x80"}, "encode", UTF8, "the byte at 0"),
    ({"scratch_missing": 1}, "encode", MEMORY, "scratch: "),
    ({"max_tokens": 3}, "encode", VALUE, "max_tokens: the text has more than 3 tokens"),
    ({"max_tokens": 0}, "encode", VALUE, "max_tokens: the text has more than 0 tokens"),
    ({"token": 288}, "eval", VALUE, "tokens: 288 is not below vocab_size 288"),
    ({"token": ALL_ONES - 1}, "eval", VALUE, f"tokens: {ALL_ONES - 1} is not below"),
    ({"context": 65}, "plan", VALUE, "context: 65 is more than the 64 positions"),
    ({"context": ALL_ONES}, "plan", VALUE, f"context: {ALL_ONES} is more than"),
    ({"block": 17}, "plan", VALUE, "block: is 17, must be 1 to 16"),
    ({"block": ALL_ONES}, "plan", VALUE, f"block: is {ALL_ONES}"),
    ({"cache": 4}, "plan", VALUE, "cache: kind 4 is unknown"),
    ({"ram_missing": 1}, "init", MEMORY, "bytes of RAM"),
    ({"ram_missing": 1000}, "init", MEMORY, "bytes of RAM"),
    *(({"ram_shift": n}, "init", VALUE, "ram: must begin at a multiple") for n in (1, 8, 63)),
    *(
        ({field: value}, "sampler", VALUE, f"{field}: must be")
        for field, values in (
            ("temperature", (NAN, INF, -INF, -0.01, 100.1)),
            ("top_p", (NAN, INF, 0.0, -0.1, 1.001)),
            ("min_p", (NAN, INF, -0.01, 1.001)),
            ("repetition_penalty", (NAN, INF, 0.0, -1.0, 100.1)),
            ("repeat_last_n", (4097, ALL_ONES)),
        )
        for value in values
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[3])
def test_bad_use(harness: Harness, case: tuple[dict, str, int, str]) -> None:
    settings, step, status, words = case
    got = harness(**settings)
    assert got[:2] == (step, status), got
    assert words in got[2]


def test_edges_that_are_allowed(harness: Harness) -> None:
    harness.runs(prompt="")  # the begin token alone
    harness.runs(prompt="", bos=False, token=287)
    harness.runs(prompt="a", context=3)
    harness.runs(context=64, block=16)
    harness.runs(ram_shift=16)
    for cache in (1, 2):
        harness.runs(prompt="a " * 31, cache=cache, block=16)
    edges = ({"top_k": ALL_ONES}, {"top_p": 1e-38}, {"min_p": 1.0}, {"repeat_last_n": 4096})
    for edge in ({}, *edges):
        for temperature in (0.0, 1e-45, 0.001, 100.0):
            for penalty in (1e-45, 1.0, 100.0):
                harness.runs(temperature=temperature, repetition_penalty=penalty, **edge)


def test_memory_message_has_both_numbers(harness: Harness) -> None:
    _, _, message = harness(ram_missing=1)
    needed, given = (int(word) for word in message.split() if word.isdecimal())
    assert needed - given == 1
