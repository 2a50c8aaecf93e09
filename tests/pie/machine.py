"""Memory, registers and the clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from .assembly import Program, Statement
from .instructions import N_STATES, STATE_NAMES, Register

STACK_TOP = 0x3FCE_0000
STACK_SIZE = 4096
WINDOW = 1 << 20  # bytes; regions are looked up by the windows they lie in
# The top of a windowed function's frame, where the window handlers spill registers.
SAVE_AREA = 48
TAKEN = 2  # cycles that a taken branch loses


class Fault(RuntimeError):
    """What real hardware would not report but a kernel must not do; names the instruction."""


@dataclass
class Region:
    """Bytes that exist, and for each whether it was ever written; None if all were."""

    start: int
    data: np.ndarray
    known: np.ndarray | None
    writable: bool
    name: str

    @property
    def end(self) -> int:
        return self.start + len(self.data)


@dataclass
class Run:
    """What one call cost: `instructions`, issue `cycles` (of which `stalls` and `taken` were lost
    to interlocks and taken branches), how often each mnemonic was issued, `result` in a2."""

    instructions: int = 0
    cycles: int = 0
    stalls: int = 0
    taken: int = 0
    result: int | None = None
    counts: Counter[str] = field(default_factory=Counter)


class Machine:
    """One core, one program. Memory is what `map` was given, and a stack.

    ``r`` holds every register and special state; None is one that was never written, or was loaded
    from bytes that never were. Reading that is a `Fault`, and so is an access outside a region, a
    write to a region that is not writable, and an address whose low bits would be dropped or trap.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.regions: dict[int, list[Region]] = {}  # by address / WINDOW
        self.r: list = [None] * N_STATES
        self.pc = 0
        self.next = 0
        self.loop: tuple[int, int] | None = None  # first statement and the one after the last
        self.loop_count = 0
        self.reserved = (0, 0)  # the frame's register save area
        self._known = np.zeros(STACK_SIZE, bool)
        stack = np.zeros(STACK_SIZE, np.uint8)
        self._add(Region(STACK_TOP - STACK_SIZE, stack, self._known, True, "stack"))

    def _add(self, region: Region) -> None:
        windows = range(region.start // WINDOW, (region.end - 1) // WINDOW + 1)
        for window in windows:
            for other in self.regions.get(window, []):
                if region.start < other.end and other.start < region.end:
                    raise ValueError(f"region {region.name} overlaps {other.name}")
        for window in windows:
            self.regions.setdefault(window, []).append(region)

    # Memory

    def map(
        self, start: int, data: np.ndarray | bytes, *, writable: bool = False, name: str = ""
    ) -> np.ndarray:
        """Puts a copy of `data` at `start` and returns the bytes there, a uint8 array that changes
        as the program writes. Raises ValueError if regions overlap."""
        copy = np.frombuffer(bytes(data), np.uint8).copy()
        self._add(Region(start, copy, None, writable, name or hex(start)))
        return copy

    def _find(self, address: int, size: int, align: int) -> tuple[Region, int]:
        if address % align:
            raise Fault(f"address {address:#x} is no multiple of {align}")
        for region in self.regions.get(address // WINDOW, ()):
            if region.start <= address and address + size <= region.end:
                break
        else:
            raise Fault(f"{size} bytes at {address:#x} are outside every region")
        if address < self.reserved[1] and address + size > self.reserved[0]:
            raise Fault(f"{size} bytes at {address:#x} are in the register save area")
        return region, address - region.start

    def load(self, address: int, size: int, align: int | None = None) -> np.ndarray | None:
        """`size` bytes, or None if any was never written."""
        region, at = self._find(address, size, align or size)
        if region.known is not None and not region.known[at : at + size].all():
            return None
        value = region.data[at : at + size]
        return value.copy() if region.writable else value

    def load_int(self, address: int, size: int) -> int | None:
        """An unsigned little-endian integer, or None."""
        value = self.load(address, size)
        return None if value is None else int.from_bytes(value.tobytes(), "little")

    def store(self, address: int, value: np.ndarray | bytes, align: int | None = None) -> None:
        """Writes the bytes."""
        size = len(value)
        region, at = self._find(address, size, align or size)
        if not region.writable:
            raise Fault(f"{region.name} at {address:#x} is not writable")
        region.data[at : at + size] = np.frombuffer(bytes(value), np.uint8)
        if region.known is not None:
            region.known[at : at + size] = True

    # Calls

    def enter(self, frame: int) -> None:
        """``entry``: takes a frame. The window has rotated already: arguments are in a2 to a7."""
        self.r[1] -= frame
        if self.r[1] < STACK_TOP - STACK_SIZE:
            raise Fault("the stack is too small")
        if frame < SAVE_AREA:
            raise Fault(f"a frame of {frame} bytes has no register save area")
        self.reserved = (self.r[1] + frame - SAVE_AREA, self.r[1] + frame)

    def call(self, name: str, arguments: Sequence[int]) -> Run:
        """Calls a global function as C does with up to six integers or pointers, until it returns.

        Each call starts with unknown registers and a stack of unknown bytes.
        """
        if len(arguments) > 6:
            raise ValueError("six arguments at most")
        self.r = [None] * N_STATES
        self.r[0] = 0
        self.r[1] = STACK_TOP
        for i, value in enumerate(arguments):
            self.r[2 + i] = value & 0xFFFFFFFF
        self._known[:] = False
        self.reserved = (0, 0)
        self.loop = None
        self.pc = self.program.labels[name]
        run = Run()
        ready = [0] * N_STATES  # first cycle at which stage 0 of a reader may be
        clock = 0
        while self.pc >= 0:
            if self.pc >= len(self.program.statements):
                raise Fault(f"{name} runs past its end")
            statement = self.program.statements[self.pc]
            issue = clock
            for state, use in statement.reads:
                issue = max(issue, ready[state] - use)
                if self.r[state] is None:
                    raise Fault(f"{statement.text}: reads {STATE_NAMES[state]}, never written")
            run.stalls += issue - clock
            self._execute(statement)
            self.program.executed.add(self.pc)
            for state, define in statement.writes:
                ready[state] = issue + define + 1
            clock = issue + 1
            run.instructions += 1
            run.counts[statement.instruction.name] += 1
            clock += self._advance(statement, run)
        run.cycles = clock
        run.result = self.r[2]
        return run

    def _execute(self, statement: Statement) -> None:
        self.next = self.pc + 1
        try:
            statement.instruction.execute(self, *statement.operands)
        except Fault as fault:
            raise Fault(f"{statement.text}: {fault}") from None

    def _advance(self, statement: Statement, run: Run) -> int:
        """Goes on to the next statement; the cycles lost on the way."""
        lost = 0
        if statement.instruction.branches and self.next != self.pc + 1:
            if self.loop is not None and not self.loop[0] <= self.next < self.loop[1]:
                raise Fault(f"{statement.text}: leaves a zero-overhead loop")
            lost = TAKEN
            run.taken += TAKEN
        elif self.loop is not None and self.next == self.loop[1]:
            self.loop_count -= 1
            if self.loop_count:
                self.next = self.loop[0]
            else:
                self.loop = None
        self.pc = self.next
        return lost

    def start_loop(self, count: int, end: int) -> None:
        """Makes the statements up to `end` run `count` times, at least once."""
        if self.loop is not None:
            raise Fault("a zero-overhead loop is active already")
        if count == 0:
            raise Fault("a loop of 0 runs 2^32 times")
        self.loop, self.loop_count = (self.pc + 1, end), count


assert Register.FIRST_Q == 16
