"""The simulator of tests/pie against the manual's rules: what instructions do, and what they cost.

Expected values are worked out by hand from the manual's pseudocode, not by the simulator's code.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from pie import AssemblyError, Fault, Machine, Program, Run  # noqa: E402

IN, OUT = 0x1000, 0x2000


def run(body: str, data: object = (), *arguments: int, out: int = 64) -> tuple[Run, np.ndarray]:
    """Runs `body` with a2 = IN, where `data` lies, a3 = OUT, where `out` zeros do, and more
    arguments in a4 and so on; returns the cost and the bytes at OUT."""
    machine = Machine(Program(f"f: entry a1, 64\n{body}\nretw", "test"))
    machine.map(IN, np.asarray(data).tobytes() or bytes(16), name="in")
    output = machine.map(OUT, bytes(out), writable=True)
    return machine.call("f", [IN, OUT, *arguments]), output


def s8(*values: int) -> np.ndarray:
    return np.array(values, np.int8)


def s16(*values: int) -> np.ndarray:
    return np.array(values, np.int16)


TWO = "ee.vld.128.ip q0, a2, 16; ee.vld.128.ip q1, a2, 16\n"
READ = "movi a8, 0; ee.srs.accx a2, a8, 0\n"


def accx(body: str, *vectors: np.ndarray) -> int:
    """ACCX after `body` on two vectors in q0 and q1, as srs.accx by 0 delivers it."""
    result = run(f"{TWO} ee.zero.accx\n {body}\n {READ}", np.concatenate(vectors))[0].result
    assert result is not None
    return result - (1 << 32 if result >= 1 << 31 else 0)


# Multiply and accumulate


def test_products_of_the_most_negative_bytes_are_positive() -> None:
    minimum = np.full(16, -128, np.int8)
    assert accx("ee.vmulas.s8.accx q0, q1", minimum, minimum) == 16 * 128 * 128
    assert accx("ee.vmulas.s8.accx q0, q1", minimum, np.full(16, 127, np.int8)) == -16 * 128 * 127


@pytest.mark.parametrize("sign", [1, -1])
def test_accx_saturates_at_40_bits(sign: int) -> None:
    x = np.full(8, -32768, np.int16)
    y = np.full(8, -32768 if sign > 0 else 32767, np.int16)
    mac = "movi a9, {}; loop a9, 1f; ee.vmulas.s16.accx q0, q1; nop\n"
    mac += "1: movi a8, 20; ee.srs.accx a2, a8, 0"
    # One is +-2^33 (a little less if negative); 63 of them stay below 2^39, 100 do not.
    one = 8 * 32768 * (32768 if sign > 0 else -32767)
    data = np.concatenate([x, y])
    for count, expected in ((63, 63 * one), (100, 2**39 - 1 if sign > 0 else -(2**39))):
        result = run(f"{TWO} ee.zero.accx\n {mac.format(count)}", data)[0].result
        assert result == (expected >> 20) & 0xFFFFFFFF


def test_srs_accx_saturates_to_32_bits_and_writes_the_shifted_sum_back() -> None:
    x = np.full(8, -32768, np.int16)
    assert accx("ee.vmulas.s16.accx q0, q1", x, x) == 2**31 - 1
    assert accx("ee.vmulas.s16.accx q0, q1", x, np.full(8, 32767, np.int16)) == -(2**31)
    back = "ee.vmulas.s8.accx q0, q1; movi a9, 4; ee.srs.accx a10, a9, 0"
    assert accx(back, np.full(16, -3, np.int8), np.full(16, 5, np.int8)) == -240 >> 4
    assert accx(back, s8(*[1] + [0] * 15), s8(*[-1] + [0] * 15)) == -1  # arithmetic shift


def test_a_fused_load_comes_after_the_product() -> None:
    x, y, z = (np.arange(16, dtype=np.int8) + i for i in (1, 2, 3))
    products = [int(np.dot(x.astype(int), v.astype(int))) for v in (y, z)]
    once = "ee.vmulas.s8.accx.ld.ip q1, a2, 16, q0, q1"
    assert accx(once, x, y, z) == products[0]
    assert accx(f"{once}; ee.vmulas.s8.accx q0, q1", x, y, z) == sum(products)


def test_qacc_has_eight_lanes_of_40_bits_that_saturate() -> None:
    x = s16(1, -2, 3, -4, 32767, -32768, -32768, 7)
    y = s16(10, 10, -10, -10, 32767, -32768, 32767, 0)
    read = "".join(
        f"rur.qacc_{half}_{i} a9; nop; s32i a9, a3, {20 * (half == 'h') + 4 * i}\n"
        for half in "lh"
        for i in range(5)
    )
    for count in (1, 511, 600):
        mac = f"ee.zero.qacc; movi a9, {count}; loop a9, 1f; ee.vmulas.s16.qacc q0, q1; nop\n 1:"
        output = run(f"{TWO} {mac} {read}", np.concatenate([x, y]))[1][:40].tobytes()
        bits = int.from_bytes(output, "little")
        for i, product in enumerate(x.astype(int) * y.astype(int)):
            lane = (bits >> (40 * i)) & (2**40 - 1)
            wanted = max(-(2**39), min(2**39 - 1, count * int(product)))
            assert lane == wanted & (2**40 - 1)


def test_qacc_with_a_broadcast_load_steps_by_two_bytes() -> None:
    data = np.concatenate([np.full(8, 2, np.int16), np.full(8, 3, np.int16), s16(*range(8))])
    body = f"{TWO} ee.zero.qacc; addi a2, a2, 2; ee.vmulas.s16.qacc.ldbc.incp q1, a2, q0, q1\n"
    body += "ee.vst.128.ip q1, a3, 16; rur.qacc_l_0 a9; nop; s32i a9, a3, 0; s32i a2, a3, 4"
    output = run(body, data)[1]
    assert (output[:16].view(np.int16) == 1).all()  # the old q1 was 3
    assert output[16:24].view(np.uint32).tolist() == [6, IN + 36]


# Vectors


def vectors(body: str, *data: np.ndarray, count: int = 1) -> list[np.ndarray]:
    """The first registers after `body` on vectors in q0 and q1."""
    stores = "".join(f"ee.vst.128.ip q{i}, a3, 16\n" for i in range(count))
    output = run(f"{TWO} {body}\n {stores}", np.concatenate(data))[1]
    return [output[16 * i : 16 * i + 16] for i in range(count)]


def test_vmul_keeps_the_low_bits_of_the_shifted_product() -> None:
    x = s8(*range(-128, 128, 16))
    sixteen = np.full(16, 16, np.int8)
    odd = (x + 5).astype(np.int8)
    got = vectors("ssai 0; ee.vmul.s8 q0, q0, q1", odd, sixteen)[0]
    assert got.view(np.int8).tolist() == [80] * 16  # 16 * (16 n + 5), modulo 256
    got = vectors("ssai 4; ee.vmul.s8 q0, q0, q1", odd, np.full(16, 1, np.int8))[0]
    assert got.view(np.int8).tolist() == list(range(-8, 8))  # shifted arithmetically
    got = vectors("ssai 0; ee.vmul.s16 q0, q0, q1", s16(*[-129] * 8), s16(*[256] * 8))[0]
    assert got.view(np.int16).tolist() == [32512] * 8  # -33024 modulo 2^16


def test_vmul_with_a_load_multiplies_what_was_there() -> None:
    data = [np.full(16, v, np.int8) for v in (3, 5, 7)]
    got = vectors("ssai 0; ee.vmul.s8.ld.incp q0, a2, q1, q0, q1", *data, count=2)
    assert got[0].tolist() == [7] * 16
    assert got[1].tolist() == [15] * 16


@pytest.mark.parametrize("size", [1, 2, 4])
def test_vzip_interleaves_lanes(size: int) -> None:
    x, y = np.arange(16, dtype=np.uint8), np.arange(16, 32, dtype=np.uint8)
    got = vectors(f"ee.vzip.{8 * size} q0, q1", x, y, count=2)
    lanes = [part[i : i + size].tolist() for i in range(0, 16, size) for part in (x, y)]
    assert np.concatenate(got).tolist() == sum(lanes, [])


def test_logic() -> None:
    x, y = np.arange(16, dtype=np.uint8), np.arange(16, dtype=np.uint8)[::-1]
    assert (vectors("ee.andq q0, q0, q1", x, y)[0] == (x & y)).all()
    assert (vectors("ee.orq q0, q0, q1", x, y)[0] == (x | y)).all()
    assert not vectors("ee.zero.q q0", x, y)[0].any()


def test_broadcasts() -> None:
    data = np.arange(1, 17, dtype=np.uint8)
    body = (
        "addi a2, a2, 3; ee.vldbc.8 q0, a2; addi a2, a2, 1; ee.vldbc.16.ip q1, a2, 2; mov a9, a2"
    )
    body += "; ee.vst.128.ip q0, a3, 16; ee.vst.128.ip q1, a3, 16; s32i a9, a3, 0"
    output = run(body, data)[1]
    assert output[:16].tolist() == [4] * 16
    assert output[16:32].tolist() == [5, 6] * 8
    assert output[32:36].view(np.uint32) == IN + 6


# Memory


def test_an_address_register_is_used_before_it_steps() -> None:
    data = np.arange(48, dtype=np.uint8)
    body = "movi a9, -16; ee.vld.128.ip q0, a2, 32; ee.vld.128.xp q1, a2, a9"
    output = run(
        f"{body}; ee.vst.128.ip q0, a3, 16; ee.vst.128.ip q1, a3, 16; s32i a2, a3, 0", data
    )[1]
    assert output[:32].tolist() == [*range(16), *range(32, 48)]
    assert output[32:36].view(np.uint32) == IN + 16


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("addi a2, a2, 4; ee.vld.128.ip q0, a2, 16", "no multiple of 16"),
        ("addi a2, a2, 2; l32i a4, a2, 0", "no multiple of 4"),
        ("addi a2, a2, 1; ee.vldbc.16 q0, a2", "no multiple of 2"),
        ("addi a2, a2, 16; l8ui a4, a2, 0", "outside every region"),
        ("addi a2, a2, -1; l8ui a4, a2, 0", "outside every region"),
        ("s8i a2, a2, 0", "not writable"),
        ("ee.andq q0, q1, q2", "reads q1, never written"),
        ("ee.zero.q q0; ee.vmulas.s8.accx q0, q0", "reads ACCX"),
        ("ee.zero.q q0; ee.vmulas.s16.qacc q0, q0", "reads QACC_L"),
        ("ee.zero.q q0; ee.vmul.s8 q0, q0, q0", "reads SAR"),
        ("add a4, a5, a5", "reads a5"),
        ("l32i a4, a1, 0; add a4, a4, a4", "reads a4"),  # the stack's bytes are unknown
        ("ee.vld.128.ip q0, a1, 0; ee.orq q0, q0, q0", "reads q0"),
        ("movi a4, 0; s32i a4, a1, 16", "register save area"),
        ("movi a4, 0; loop a4, 1f; nop; nop\n 1:", "loop of 0"),
        ("movi a4, 2; loop a4, 1f; beqz a3, 2f; j 2f; nop\n 1: nop\n 2:", "leaves"),
    ],
)
def test_faults(body: str, message: str) -> None:
    with pytest.raises(Fault, match=message):
        run(body)


def test_unknown_bytes_may_be_loaded_but_not_used() -> None:
    body = "ee.vld.128.ip q0, a1, 0; l32i a4, a1, 0; movi a4, 1; s32i a4, a1, 0"
    run(f"{body}; l32i a4, a1, 0; neg a4, a4")


def test_a_small_frame_is_refused() -> None:
    machine = Machine(Program("f: entry a1, 32\n retw"))
    with pytest.raises(Fault, match="register save area"):
        machine.call("f", [])


# Base instructions


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("movi a2, -5; srai a2, a2, 1", -3),
        ("movi a2, -5; srli a2, a2, 1", (2**32 - 5) >> 1),
        ("movi a2, -5; extui a2, a2, 4, 8", 0xFF),
        ("movi a2, 0x180; sext a2, a2, 7", -128),
        ("movi a2, 3; movi a4, 5; addx8 a2, a2, a4", 29),
        ("movi a2, 3; movi a4, 5; addx4 a2, a2, a4", 17),
        ("movi a2, -3; movi a4, 5; mull a2, a2, a4", -15),
        ("movi a2, -3; movi a4, 5; minu a2, a2, a4", 5),
        ("movi a2, 0x12; movi a4, -1; ssai 8; src a2, a2, a4", 0x12FFFFFF),
        ("l8ui a2, a2, 1", 0xFE),
        ("l16si a2, a2, 0", -257),
        ("l16ui a2, a2, 0", 0xFEFF),
        ("movi a4, 7; movi a2, 0; loop a4, 1f; addi a2, a2, 3; nop\n 1:", 21),
        ("movi a4, 0; movi a2, 0; loopnez a4, 1f; addi a2, a2, 3; nop\n 1:", 0),
        ("movi a4, 3; movi a2, 0\n 1: addi a2, a2, 5; addi a4, a4, -1; bnez a4, 1b", 15),
        ("addi a4, a1, 0; sub a2, a4, a1", 0),
    ],
)
def test_base_instructions(body: str, expected: int) -> None:
    assert run(body, s8(-1, -2, *[0] * 14))[0].result == expected & 0xFFFFFFFF


def test_floats_are_rounded_once() -> None:
    # 2^24 + 3 is a tie to even as a float; the product takes one more rounding.
    data = np.array([0.1, 0, 0, 0], np.float32)
    body = "lsi f1, a2, 0; l32i a4, a2, 4; movi a4, 1; slli a4, a4, 24; addi a4, a4, 3"
    output = run(
        f"{body}; float.s f2, a4, 0; mul.s f1, f1, f2; ssi f1, a3, 0; ssi f2, a3, 4", data
    )[1]
    got = output[:8].view(np.float32)
    assert got[1] == np.float32(16777220.0)
    assert got[0] == np.float32(0.1) * np.float32(16777220.0)


def test_macros_and_local_labels() -> None:
    source = """
        .macro twice what by
        \\what a2, a2, \\by
        \\what a2, a2, \\by + 1 // and one more
        .endm
    f:  entry a1, 64
        twice addi 5
        twice addi, -2
        retw
    """
    assert Machine(Program(source)).call("f", [100]).result == 100 + 5 + 6 - 2 - 1


# Cost


@pytest.mark.parametrize(
    ("body", "stalls"),
    [
        ("ee.vld.128.ip q0, a2, 0; ee.orq q1, q0, q0", 1),
        ("ee.vld.128.ip q0, a2, 0; nop; ee.orq q1, q0, q0", 0),
        ("ee.zero.q q0; ee.orq q1, q0, q0", 0),
        ("ee.zero.q q0; ee.zero.accx; ee.vmulas.s8.accx q0, q0; ee.vmulas.s8.accx q0, q0", 0),
        ("ee.zero.q q0; ee.zero.accx; ee.vmulas.s8.accx q0, q0; ee.srs.accx a4, a2, 0", 1),
        ("ee.zero.q q0; ee.zero.accx; ee.vmulas.s8.accx q0, q0; nop; ee.srs.accx a4, a2, 0", 0),
        ("ee.zero.accx; ee.srs.accx a4, a2, 0; add a4, a4, a4", 0),
        ("ssai 0; ee.zero.q q0; ee.vmul.s8 q1, q0, q0; ee.orq q1, q1, q1", 1),
        ("ee.zero.q q0; ee.zero.qacc; ee.vmulas.s16.qacc q0, q0; rur.qacc_h_0 a4", 1),
        ("l32i a4, a2, 0; add a4, a4, a4", 1),
        ("l32i a4, a2, 0; s32i a4, a3, 0", 1),
        ("ee.vld.128.ip q0, a2, 0; ee.vst.128.ip q0, a3, 0", 1),
        ("mull a4, a2, a2; add a4, a4, a4", 1),
        ("float.s f1, a2, 0; mul.s f1, f1, f1", 3),
        ("float.s f1, a2, 0; nop; nop; nop; mul.s f1, f1, f1", 0),
    ],
)
def test_interlocks(body: str, stalls: int) -> None:
    cost = run(body)[0]
    assert cost.stalls == stalls
    # retw is a taken branch.
    assert cost.cycles == cost.instructions + stalls + 2


@pytest.mark.parametrize(
    ("body", "instructions", "taken"),
    [
        ("movi a4, 3; loop a4, 1f; nop; nop\n 1:", 2 + 6, 0),
        ("movi a4, 0; loopnez a4, 1f; nop; nop\n 1:", 2, 2),
        ("movi a4, 3\n 1: addi a4, a4, -1; bnez a4, 1b", 1 + 6, 4),
        ("beqz a2, 1f\n 1:", 1, 0),
        ("j 1f; nop\n 1:", 1, 2),
    ],
)
def test_branches(body: str, instructions: int, taken: int) -> None:
    cost = run(body)[0]
    assert cost.instructions == instructions + 2  # entry and retw
    assert cost.taken == taken + 2
    assert cost.cycles == cost.instructions + cost.taken


# What the assembler would refuse


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("ee.vmulas.s4.accx q0, q1", "unknown"),
        ("ee.andq q0, q1", "needs 3 operands"),
        ("ee.andq q0, q1, q8", "no q register"),
        ("ee.andq q0, q1, a2", "no q register"),
        ("ee.vld.128.ip q0, a2, 8", "out of range"),
        ("ee.vld.128.ip q0, a2, 2048", "out of range"),
        ("ee.vmulas.s8.accx.ld.ip q0, a2, 512, q0, q0", "out of range"),
        ("addi a2, a2, 128", "out of range"),
        ("movi a2, 2048", "out of range"),
        ("srli a2, a2, 16", "out of range"),
        ("s16i a2, a2, 511", "out of range"),
        ("addi a2, a2, here", "no number"),
        ("j nowhere", "label nowhere is unknown"),
        ("j 1b", "label 1b is unknown"),
        ("ee.vzip.8 q0, q0", "writes a register twice"),
        ("ee.vmul.s8.ld.incp q0, a2, q0, q1, q1", "writes a register twice"),
        ("loop a2, 1f\n" + "ee.zero.q q0\n" * 64 + "1:", "too long"),
        ("loop a2, 1f; nop; j 1f\n 1:", "ends in a branch"),
        (".word 5", "directive .word is unknown"),
    ],
)
def test_what_an_assembler_refuses(body: str, message: str) -> None:
    with pytest.raises(AssemblyError, match=message):
        run(body)
