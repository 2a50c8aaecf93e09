"""Reads assembler sources of the GNU assembler's dialect, as far as the kernels need it."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .instructions import INSTRUCTIONS, Immediate, Instruction, Label, Register, Special

# Directives without a meaning for the simulator.
IGNORED = {".text", ".section", ".align", ".balign", ".p2align", ".global", ".type", ".size"}
LOOP_REACH = 256  # bytes from a loop instruction to its end; the assembler rewrites longer loops


class AssemblyError(ValueError):
    """A source that the simulator, or the real assembler, would not take; names file and line."""


@dataclass(frozen=True)
class Statement:
    """One instruction at its place.

    ``operands`` are register numbers of the instruction's own kinds, immediates, and indices of
    statements for labels; ``reads`` and ``writes`` are (state, stage) pairs.
    """

    instruction: Instruction
    operands: tuple[int, ...]
    reads: tuple[tuple[int, int], ...]
    writes: tuple[tuple[int, int], ...]
    text: str
    size: int


@dataclass(frozen=True)
class _Line:
    number: int
    label: str | None
    mnemonic: str
    operands: tuple[str, ...]


def _number(text: str) -> int | None:
    """A number, or a sum or difference of numbers; None if `text` is something else."""
    if not re.fullmatch(r"-?\w+(\s*[-+]\s*\w+)*", text):
        return None
    try:
        return sum(int(term.replace(" ", ""), 0) for term in re.findall(r"[-+]?\s*\w+", text))
    except ValueError:
        return None


class Program:
    """The statements of a source file.

    ``statements`` in order, ``labels`` from a global name to an index; ``executed`` are the
    indices of statements that any machine has run. Raises `AssemblyError` for an unknown mnemonic
    or directive, a wrong operand, or an immediate out of range.
    """

    def __init__(self, source: str, name: str = "<source>") -> None:
        self.name = name
        self.statements: list[Statement] = []
        self.labels: dict[str, int] = {}
        self.executed: set[int] = set()
        self._numbered: list[tuple[str, int]] = []  # numeric labels, which may repeat
        lines = list(self._expand(self._split(source), {}))
        index = 0
        for line in lines:
            if line.label is not None:
                self._define(line, index)
            index += bool(line.mnemonic)
        for line in lines:
            if line.mnemonic:
                self.statements.append(self._statement(line))
        self._check_loops()

    @classmethod
    def load(cls, path: Path) -> Program:
        """The file as the compiler driver would hand it to the assembler for an ESP32-S3."""
        command = ["cc", "-E", "-P", "-x", "assembler-with-cpp", "-DLLM_KERNELS_ESP32S3=1"]
        done = subprocess.run([*command, str(path)], capture_output=True, text=True, check=True)
        return cls(done.stdout, path.name)

    def _error(self, line: int, what: str) -> AssemblyError:
        return AssemblyError(f"{self.name}:{line}: {what}")

    def _split(self, source: str) -> list[tuple[int, str]]:
        found = []
        for number, text in enumerate(source.splitlines(), 1):
            for part in re.sub(r"//.*|#.*", "", text).split(";"):
                if part.strip():
                    found.append((number, part.strip()))
        return found

    def _expand(self, source: list[tuple[int, str]], outer: dict[str, str]) -> list[_Line]:
        """Lines without macros; `outer` maps the parameters of the macro being expanded."""
        found: list[_Line] = []
        macros = self.__dict__.setdefault("_macros", {})
        lines = iter(source)
        for number, text in lines:
            for name, value in outer.items():
                text = re.sub(rf"\\{name}\b(\\\(\))?", lambda _, value=value: value, text)
            label = None
            if match := re.match(r"([\w.$]+):\s*", text):
                label, text = match[1], text[match.end() :]
            mnemonic, _, rest = text.partition(" ")
            operands = tuple(part.strip() for part in rest.split(",")) if rest.strip() else ()
            if mnemonic == ".macro":
                name, *parameters = rest.replace(",", " ").split()
                body = []
                for inner in lines:
                    if inner[1] == ".endm":
                        break
                    body.append(inner)
                else:
                    raise self._error(number, f"macro {name} has no end")
                macros[name] = (parameters, body)
                continue
            if mnemonic in macros:
                parameters, body = macros[mnemonic]
                operands = tuple(rest.replace(",", " ").split())
                if len(operands) != len(parameters):
                    raise self._error(
                        number, f"{mnemonic} takes {len(parameters)} operands, not {len(operands)}"
                    )
                if label is not None:
                    found.append(_Line(number, label, "", ()))
                found += self._expand(body, dict(zip(parameters, operands, strict=True)))
                continue
            if mnemonic.startswith("."):
                if mnemonic not in IGNORED:
                    raise self._error(number, f"directive {mnemonic} is unknown")
                mnemonic, operands = "", ()
            if mnemonic or label is not None:
                found.append(_Line(number, label, mnemonic.lower(), operands))
        return found

    def _define(self, line: _Line, index: int) -> None:
        assert line.label is not None
        if line.label.isdigit():
            self._numbered.append((line.label, index))
        elif line.label in self.labels:
            raise self._error(line.number, f"label {line.label} is defined twice")
        else:
            self.labels[line.label] = index

    def _target(self, line: _Line, text: str) -> int:
        here = len(self.statements)
        if match := re.fullmatch(r"(\d+)([fb])", text):
            places = [at for name, at in self._numbered if name == match[1]]
            places = [at for at in places if (at > here) == (match[2] == "f")]
            if places:
                return min(places) if match[2] == "f" else max(places)
        elif text in self.labels:
            return self.labels[text]
        raise self._error(line.number, f"label {text} is unknown")

    def _statement(self, line: _Line) -> Statement:
        text = f"{line.mnemonic} {', '.join(line.operands)}"
        instruction = INSTRUCTIONS.get(line.mnemonic)
        if instruction is None:
            raise self._error(line.number, f"instruction {line.mnemonic} is unknown")
        if len(line.operands) != len(instruction.operands):
            raise self._error(line.number, f"{text}: needs {len(instruction.operands)} operands")
        values: list[int] = []
        reads: list[tuple[int, int]] = []
        writes: list[tuple[int, int]] = []
        for kind, operand in zip(instruction.operands, line.operands, strict=True):
            if isinstance(kind, Register):
                number = kind.number(operand)
                if number is None:
                    raise self._error(line.number, f"{text}: {operand} is no {kind.file} register")
                if kind.use:
                    reads.append((number, kind.use))
                if kind.define:
                    writes.append((number, kind.define))
                values.append(number)
            elif isinstance(kind, Immediate):
                value = _number(operand)
                if value is None:
                    raise self._error(line.number, f"{text}: {operand} is no number")
                if value not in kind.values:
                    raise self._error(line.number, f"{text}: {operand} is out of range")
                values.append(value)
            else:
                assert isinstance(kind, Label)
                values.append(self._target(line, operand))
        written = [state for state, _ in writes if state >= Register.FIRST_Q]
        if len(set(written)) != len(written):
            raise self._error(line.number, f"{text}: writes a register twice")
        for special in instruction.state:
            assert isinstance(special, Special)
            if special.use:
                reads.append((special.number, special.use))
            if special.define:
                writes.append((special.number, special.define))
        size = 4 if line.mnemonic.startswith("ee.") else 3
        where = f"{self.name}:{line.number}: {text}"
        return Statement(instruction, tuple(values), tuple(reads), tuple(writes), where, size)

    def _check_loops(self) -> None:
        for at, statement in enumerate(self.statements):
            if not statement.instruction.name.startswith("loop"):
                continue
            body = self.statements[at + 1 : statement.operands[1]]
            if sum(inner.size for inner in body) + 3 > LOOP_REACH:
                raise AssemblyError(f"{statement.text}: the body is too long for a loop")
            for inner in body:
                if inner.instruction.name.startswith(("loop", "entry", "ret")):
                    raise AssemblyError(f"{inner.text}: inside a loop")
            if not body or body[-1].instruction.branches:
                raise AssemblyError(f"{statement.text}: the body is empty or ends in a branch")
