"""What each instruction does, and the pipeline stages in which it reads and writes.

Stage 1 is E, 2 is M (the manual's table 1.7-2 for ``ee.*``). The manual has no stages for base and
floating-point instructions; they are the ones of GCC's description of the pipeline: a result after
one cycle, loads and multiplications after two, floating-point arithmetic after four. Where
``rur`` delivers is written nowhere: as late as a load, to be on the safe side. The manual says
that multipliers may be shared between stages but not by which instructions; that is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

if TYPE_CHECKING:
    from .machine import Machine

MASK = 0xFFFFFFFF
FPU = 4  # stage after which a floating-point sum or product may be used


def signed(value: int) -> int:
    """The 32 bits as a signed integer."""
    return (value & MASK) - ((value & 0x80000000) << 1)


def saturate(value: int, bits: int) -> int:
    """The nearest integer that has `bits` bits in two's complement."""
    return max(-(1 << (bits - 1)), min((1 << (bits - 1)) - 1, value))


# Operands


@dataclass(frozen=True)
class Register:
    """A register operand: its file, and the stage of its use and definition, 0 for neither."""

    file: str
    use: int
    define: int

    FIRST_Q: ClassVar[int] = 16
    FIRST: ClassVar[dict[str, int]] = {"a": 0, "q": 16, "f": 24}
    SIZE: ClassVar[dict[str, int]] = {"a": 16, "q": 8, "f": 16}

    def number(self, text: str) -> int | None:
        """Where this register stands among all states; None if `text` names no such register."""
        if text[:1] != self.file or not text[1:].isdigit():
            return None
        number = int(text[1:])
        return self.FIRST[self.file] + number if number < self.SIZE[self.file] else None


@dataclass(frozen=True)
class Immediate:
    """An immediate operand and the values it can have."""

    values: range


@dataclass(frozen=True)
class Label:
    """A place in the program."""


SPECIALS = ("accx", "qacc_l", "qacc_h", "sar", "sar_byte")
FIRST_SPECIAL = 40
N_STATES = FIRST_SPECIAL + len(SPECIALS)
ACCX, QACC_L, QACC_H, SAR, SAR_BYTE = range(FIRST_SPECIAL, N_STATES)
STATE_NAMES = [
    *(f"{file}{i}" for file in "aqf" for i in range(Register.SIZE[file])),
    *(name.upper() for name in SPECIALS),
]


@dataclass(frozen=True)
class Special:
    """A state that an instruction reads or writes without naming it."""

    number: int
    use: int
    define: int


@dataclass(frozen=True)
class Instruction:
    """A mnemonic: operands, implied state, and what it does."""

    name: str
    operands: tuple[Register | Immediate | Label, ...]
    state: tuple[Special, ...]
    execute: Callable[..., None]
    branches: bool


INSTRUCTIONS: dict[str, Instruction] = {}


def _stages(text: str) -> tuple[int, int]:
    """``<u`` is a use, ``>d`` a definition, ``<u>d`` both."""
    use = int(text[1]) if text.startswith("<") else 0
    return use, int(text[-1]) if ">" in text else 0


def op(
    names: str, operands: str = "", state: str = "", *, branches: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Enters a function of (machine, *operands) as the meaning of `names`.

    An operand is a register file with its stages (``q<1``), ``i:first:last:step``, or ``label``; a
    state is a special's name with its stages (``accx<2>2``).
    """
    parsed: list[Register | Immediate | Label] = []
    for text in operands.split():
        if text == "label":
            parsed.append(Label())
        elif text.startswith("i:"):
            first, last, step = map(int, text[2:].split(":"))
            parsed.append(Immediate(range(first, last + 1, step)))
        else:
            parsed.append(Register(text[0], *_stages(text[1:])))
    specials = []
    for text in state.split():
        name = text.rstrip("<>0123456789")
        use, define = _stages(text[len(name) :])
        specials.append(Special(FIRST_SPECIAL + SPECIALS.index(name), use, define))

    def enter(function: Callable[..., None]) -> Callable[..., None]:
        for name in names.split():
            INSTRUCTIONS[name] = Instruction(
                name, tuple(parsed), tuple(specials), function, branches
            )
        return function

    return enter


# Base instructions: control


@op("entry", "a<1 i:0:32760:8")
def _entry(m: Machine, a: int, frame: int) -> None:
    m.enter(frame)


@op("retw retw.n", branches=True)
def _retw(m: Machine) -> None:
    m.next = -1


@op("nop nop.n")
def _nop(m: Machine) -> None:
    pass


@op("j", "label", branches=True)
def _j(m: Machine, target: int) -> None:
    m.next = target


def _branch(name: str, operands: str, condition: Callable[[int, int], bool], sign: bool) -> None:
    def execute(m: Machine, a: int, b: int, target: int) -> None:
        x = m.r[a]
        y = m.r[b] if operands.count("a<1") == 2 else b & MASK
        if condition(signed(x), signed(y)) if sign else condition(x, y):
            m.next = target

    op(name, operands, branches=True)(execute)


def _branch_zero(name: str, condition: Callable[[int], bool]) -> None:
    def execute(m: Machine, a: int, target: int) -> None:
        if condition(signed(m.r[a])):
            m.next = target

    op(name, "a<1 label", branches=True)(execute)


for _name, _condition in {
    "beq": lambda x, y: x == y,
    "bne": lambda x, y: x != y,
    "blt": lambda x, y: x < y,
    "bge": lambda x, y: x >= y,
}.items():
    _branch(_name, "a<1 a<1 label", _condition, True)
_branch("bltu", "a<1 a<1 label", lambda x, y: x < y, False)
_branch("bgeu", "a<1 a<1 label", lambda x, y: x >= y, False)
for _name, _zero in {
    "beqz": lambda x: x == 0,
    "bnez": lambda x: x != 0,
    "bltz": lambda x: x < 0,
    "bgez": lambda x: x >= 0,
}.items():
    _branch_zero(_name, _zero)


@op("loop", "a<1 label")
def _loop(m: Machine, a: int, end: int) -> None:
    m.start_loop(m.r[a], end)


@op("loopnez", "a<1 label", branches=True)
def _loopnez(m: Machine, a: int, end: int) -> None:
    if m.r[a]:
        m.start_loop(m.r[a], end)
    else:
        m.next = end


# Base instructions: integers


def _unary(names: str, function: Callable[[int], int]) -> None:
    def execute(m: Machine, a: int, b: int) -> None:
        m.r[a] = function(m.r[b]) & MASK

    op(names, "a>1 a<1")(execute)


def _binary(names: str, function: Callable[[int, int], int], stage: int = 1) -> None:
    def execute(m: Machine, a: int, b: int, c: int) -> None:
        m.r[a] = function(m.r[b], m.r[c]) & MASK

    op(names, f"a>{stage} a<1 a<1")(execute)


def _immediate(names: str, values: str, function: Callable[[int, int], int]) -> None:
    def execute(m: Machine, a: int, b: int, c: int) -> None:
        m.r[a] = function(m.r[b], c) & MASK

    op(names, f"a>1 a<1 {values}")(execute)


_unary("mov mov.n", lambda x: x)
_unary("neg", lambda x: -x)
_binary("add add.n", lambda x, y: x + y)
_binary("sub", lambda x, y: x - y)
_binary("addx2", lambda x, y: (x << 1) + y)
_binary("addx4", lambda x, y: (x << 2) + y)
_binary("addx8", lambda x, y: (x << 3) + y)
_binary("and", lambda x, y: x & y)
_binary("or", lambda x, y: x | y)
_binary("xor", lambda x, y: x ^ y)
_binary("min", lambda x, y: min(signed(x), signed(y)))
_binary("max", lambda x, y: max(signed(x), signed(y)))
_binary("minu", min)
_binary("maxu", max)
_binary("mull", lambda x, y: x * y, stage=2)
_immediate("addi addi.n", "i:-128:127:1", lambda x, c: x + c)
_immediate("addmi", "i:-32768:32512:256", lambda x, c: x + c)
_immediate("slli", "i:1:31:1", lambda x, c: x << c)
_immediate("srli", "i:0:15:1", lambda x, c: x >> c)
_immediate("srai", "i:0:31:1", lambda x, c: signed(x) >> c)
_immediate("sext", "i:7:22:1", lambda x, c: _extend(x, c + 1))


def _extend(x: int, bits: int) -> int:
    x &= (1 << bits) - 1
    return x - ((x >> (bits - 1)) << bits)


@op("movi movi.n", "a>1 i:-2048:2047:1")
def _movi(m: Machine, a: int, value: int) -> None:
    m.r[a] = value & MASK


@op("extui", "a>1 a<1 i:0:31:1 i:1:16:1")
def _extui(m: Machine, a: int, b: int, shift: int, bits: int) -> None:
    m.r[a] = (m.r[b] >> shift) & ((1 << bits) - 1)


@op("ssai", "i:0:31:1", "sar>1")
def _ssai(m: Machine, amount: int) -> None:
    m.r[SAR] = amount


@op("src", "a>1 a<1 a<1", "sar<1")
def _src(m: Machine, a: int, high: int, low: int) -> None:
    m.r[a] = ((m.r[high] << 32 | m.r[low]) >> m.r[SAR]) & MASK


# Base instructions: memory


def _load(names: str, last: int, size: int, sign: bool) -> None:
    def execute(m: Machine, a: int, base: int, offset: int) -> None:
        value = m.load_int((m.r[base] + offset) & MASK, size)
        m.r[a] = value if value is None or not sign else _extend(value, 8 * size) & MASK

    op(names, f"a>2 a<1 i:0:{last}:{size}")(execute)


def _store(names: str, last: int, size: int) -> None:
    def execute(m: Machine, a: int, base: int, offset: int) -> None:
        value = m.r[a] & ((1 << 8 * size) - 1)
        m.store((m.r[base] + offset) & MASK, value.to_bytes(size, "little"))

    op(names, f"a<1 a<1 i:0:{last}:{size}")(execute)


_load("l8ui", 255, 1, False)
_load("l16ui", 510, 2, False)
_load("l16si", 510, 2, True)
_load("l32i l32i.n", 1020, 4, False)
_store("s8i", 255, 1)
_store("s16i", 510, 2)
_store("s32i s32i.n", 1020, 4)


# Floating point: np.float32 in the registers, one rounding an operation


@op("lsi", "f>2 a<1 i:0:1020:4")
def _lsi(m: Machine, f: int, base: int, offset: int) -> None:
    value = m.load((m.r[base] + offset) & MASK, 4)
    m.r[f] = None if value is None else value.view(np.float32)[0]


@op("ssi", "f<1 a<1 i:0:1020:4")
def _ssi(m: Machine, f: int, base: int, offset: int) -> None:
    m.store((m.r[base] + offset) & MASK, m.r[f].tobytes())


@op("mul.s", f"f>{FPU} f<1 f<1")
def _mul_s(m: Machine, f: int, x: int, y: int) -> None:
    with np.errstate(all="ignore"):
        m.r[f] = np.float32(m.r[x] * m.r[y])


@op("float.s", f"f>{FPU} a<1 i:0:15:1")
def _float_s(m: Machine, f: int, a: int, scale: int) -> None:
    # The quotient by a power of two is exact, so there is one rounding.
    m.r[f] = np.float32(signed(m.r[a]) / (1 << scale))


# Vectors: 16 bytes, lane 0 first, never changed in place


def _vector_load(m: Machine, q: int, address: int) -> None:
    m.r[q] = m.load(address & MASK, 16)


def _advance(m: Machine, a: int, step: int) -> None:
    m.r[a] = (m.r[a] + step) & MASK


@op("ee.vld.128.ip", "q>2 a<1>1 i:-2048:2032:16")
def _vld_ip(m: Machine, q: int, a: int, step: int) -> None:
    _vector_load(m, q, m.r[a])
    _advance(m, a, step)


@op("ee.vld.128.xp", "q>2 a<1>1 a<1")
def _vld_xp(m: Machine, q: int, a: int, step: int) -> None:
    _vector_load(m, q, m.r[a])
    _advance(m, a, m.r[step])


@op("ee.vst.128.ip", "q<1 a<1>1 i:-2048:2032:16")
def _vst_ip(m: Machine, q: int, a: int, step: int) -> None:
    m.store(m.r[a], m.r[q].tobytes())
    _advance(m, a, step)


def _broadcast_load(m: Machine, q: int, address: int, size: int) -> None:
    value = m.load(address, size)
    m.r[q] = None if value is None else np.tile(value, 16 // size)


@op("ee.vldbc.8", "q>2 a<1")
def _vldbc_8(m: Machine, q: int, a: int) -> None:
    _broadcast_load(m, q, m.r[a], 1)


@op("ee.vldbc.16", "q>2 a<1")
def _vldbc_16(m: Machine, q: int, a: int) -> None:
    _broadcast_load(m, q, m.r[a], 2)


@op("ee.vldbc.16.ip", "q>2 a<1>1 i:0:254:2")
def _vldbc_16_ip(m: Machine, q: int, a: int, step: int) -> None:
    _broadcast_load(m, q, m.r[a], 2)
    _advance(m, a, step)


@op("ee.zero.q", "q>1")
def _zero_q(m: Machine, q: int) -> None:
    m.r[q] = np.zeros(16, np.uint8)


@op("ee.andq", "q>1 q<1 q<1")
def _andq(m: Machine, q: int, x: int, y: int) -> None:
    m.r[q] = m.r[x] & m.r[y]


@op("ee.orq", "q>1 q<1 q<1")
def _orq(m: Machine, q: int, x: int, y: int) -> None:
    m.r[q] = m.r[x] | m.r[y]


def _lanes(value: np.ndarray, kind: str) -> np.ndarray:
    """The lanes of a vector as int64; `kind` is i1, i2 or i4."""
    return value.view(kind).astype(np.int64)


for _bits in (8, 16, 32):

    def _vzip(m: Machine, x: int, y: int, *, kind: str = f"u{_bits // 8}") -> None:
        both = np.stack([m.r[x].view(kind), m.r[y].view(kind)], axis=1).reshape(-1)
        m.r[x], m.r[y] = both.view(np.uint8)[:16].copy(), both.view(np.uint8)[16:].copy()

    op(f"ee.vzip.{_bits}", "q<1>1 q<1>1")(_vzip)


def _vmul(m: Machine, kind: str, q: int, x: int, y: int) -> None:
    product = _lanes(m.r[x], kind) * _lanes(m.r[y], kind)
    m.r[q] = (product >> m.r[SAR]).astype(kind).view(np.uint8)


for _kind, _bits in (("i1", 8), ("i2", 16)):

    def _vmul_plain(m: Machine, q: int, x: int, y: int, *, kind: str = _kind) -> None:
        _vmul(m, kind, q, x, y)

    def _vmul_load(
        m: Machine, u: int, a: int, q: int, x: int, y: int, *, kind: str = _kind
    ) -> None:
        _vmul(m, kind, q, x, y)
        _vector_load(m, u, m.r[a])
        _advance(m, a, 16)

    op(f"ee.vmul.s{_bits}", "q>2 q<1 q<1", "sar<1")(_vmul_plain)
    op(f"ee.vmul.s{_bits}.ld.incp", "q>2 a<1>1 q>2 q<1 q<1", "sar<1")(_vmul_load)


# Multiply and accumulate


@op("ee.zero.accx", "", "accx>1")
def _zero_accx(m: Machine) -> None:
    m.r[ACCX] = 0


def _accumulate(m: Machine, kind: str, x: int, y: int) -> None:
    total = int(np.dot(_lanes(m.r[x], kind), _lanes(m.r[y], kind)))
    m.r[ACCX] = saturate(m.r[ACCX] + total, 40)


for _kind, _bits in (("i1", 8), ("i2", 16)):
    _name = f"ee.vmulas.s{_bits}.accx"

    def _mac(m: Machine, x: int, y: int, *, kind: str = _kind) -> None:
        _accumulate(m, kind, x, y)

    def _mac_ip(
        m: Machine, u: int, a: int, step: int, x: int, y: int, *, kind: str = _kind
    ) -> None:
        _accumulate(m, kind, x, y)
        _vector_load(m, u, m.r[a])
        _advance(m, a, step)

    def _mac_xp(
        m: Machine, u: int, a: int, step: int, x: int, y: int, *, kind: str = _kind
    ) -> None:
        _accumulate(m, kind, x, y)
        _vector_load(m, u, m.r[a])
        _advance(m, a, m.r[step])

    op(_name, "q<1 q<1", "accx<2>2")(_mac)
    op(f"{_name}.ld.ip", "q>2 a<1>1 i:-512:496:16 q<1 q<1", "accx<2>2")(_mac_ip)
    op(f"{_name}.ld.xp", "q>2 a<1>1 a<1 q<1 q<1", "accx<2>2")(_mac_xp)


@op("ee.srs.accx", "a>1 a<1 i:0:0:1", "accx<1>1")
def _srs_accx(m: Machine, a: int, shift: int, _: int) -> None:
    m.r[ACCX] >>= m.r[shift] & 63
    m.r[a] = saturate(m.r[ACCX], 32) & MASK


# QACC for 16-bit lanes: 8 lanes of 40 bits, lanes 0 to 3 in QACC_L. Held as lists of four.


@op("ee.zero.qacc", "", "qacc_l>1 qacc_h>1")
def _zero_qacc(m: Machine) -> None:
    m.r[QACC_L] = [0] * 4
    m.r[QACC_H] = [0] * 4


def _accumulate_lanes(m: Machine, x: int, y: int) -> None:
    products = (_lanes(m.r[x], "i2") * _lanes(m.r[y], "i2")).tolist()
    m.r[QACC_L] = [saturate(a + p, 40) for a, p in zip(m.r[QACC_L], products[:4], strict=True)]
    m.r[QACC_H] = [saturate(a + p, 40) for a, p in zip(m.r[QACC_H], products[4:], strict=True)]


@op("ee.vmulas.s16.qacc", "q<1 q<1", "qacc_l<2>2 qacc_h<2>2")
def _qacc(m: Machine, x: int, y: int) -> None:
    _accumulate_lanes(m, x, y)


@op(
    "ee.vmulas.s16.qacc.ld.ip",
    "q>2 a<1>1 i:-512:496:16 q<1 q<1",
    "qacc_l<2>2 qacc_h<2>2",
)
def _qacc_ip(m: Machine, u: int, a: int, step: int, x: int, y: int) -> None:
    _accumulate_lanes(m, x, y)
    _vector_load(m, u, m.r[a])
    _advance(m, a, step)


@op("ee.vmulas.s16.qacc.ldbc.incp", "q>2 a<1>1 q<1 q<1", "qacc_l<2>2 qacc_h<2>2")
def _qacc_ldbc(m: Machine, u: int, a: int, x: int, y: int) -> None:
    _accumulate_lanes(m, x, y)
    _broadcast_load(m, u, m.r[a], 2)
    _advance(m, a, 2)


def _words(lanes: list[int]) -> int:
    """The 160 bits of four lanes."""
    return sum((lane & ((1 << 40) - 1)) << (40 * i) for i, lane in enumerate(lanes))


for _state, _half in ((QACC_L, "l"), (QACC_H, "h")):
    for _word in range(5):

        def _rur(m: Machine, a: int, *, state: int = _state, word: int = _word) -> None:
            m.r[a] = (_words(m.r[state]) >> (32 * word)) & MASK

        op(f"rur.qacc_{_half}_{_word}", "a>2", f"qacc_{_half}<1")(_rur)
