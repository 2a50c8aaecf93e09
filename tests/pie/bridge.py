"""Runs the C of the kernel set on a host, with its assembly simulated.

The library is the engine built with ``LLM_KERNELS_ESP32S3=1`` and glue.c, which stands for the
assembly. A call maps exactly the bytes that it may touch, at addresses as aligned as the host's,
so that one byte read or written beyond is a fault.
"""

from __future__ import annotations

import ctypes as c
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np

from .assembly import Program
from .machine import Fault, Machine, Run

ROOT = Path(__file__).parents[2]
SET = ROOT / "cmodules" / "llm" / "kernels" / "esp32s3"
KERNELS = ("tiles_int4", "pairs_int4", "tiles_int8", "scores", "values")

u32 = c.c_uint32
Pointer = c.c_void_p


class Matmul(c.Structure):
    """llm_esp32s3_matmul_t, with the host's pointers."""

    _fields_ = [
        *((name, Pointer) for name in ("y", "data", "scales", "row_scales", "codes", "x_scales")),
        *((name, u32) for name in ("n_groups", "n_tiles", "n", "stride", "y_step")),
    ]


MatmulHook = c.CFUNCTYPE(None, c.c_char_p, c.POINTER(Matmul))
ScoresHook = c.CFUNCTYPE(None, Pointer, Pointer, Pointer, u32, u32, u32)
ValuesHook = c.CFUNCTYPE(None, Pointer, Pointer, Pointer, u32, u32)


class Hooks(c.Structure):
    """hooks_t of glue.c."""

    _fields_ = [("matmul", MatmulHook), ("scores", ScoresHook), ("values", ValuesHook)]


class Layout:
    """The memory of one call: host addresses become addresses of the machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._base = 0x2000_0000
        self._outputs: list[tuple[int, np.ndarray]] = []

    def put(
        self, host: int, size: int, *, count: int = 1, stride: int = 0, writable: bool = False
    ) -> int:
        """Maps `count` pieces of `size` bytes, `stride` apart, of the host's memory."""
        start = self._base + host % 64
        for i in range(count):
            data = c.string_at(host + i * stride, size)
            mapped = self.machine.map(start + i * stride, data, writable=writable)
            if writable:
                self._outputs.append((host + i * stride, mapped))
        self._base = (start + count * max(stride, size) + (1 << 20)) & -(1 << 20)
        return start

    def put_lines(self, host: int, size: int) -> int:
        """Maps the whole vectors in which the bytes lie; what is not theirs is noise."""
        before, after = host % 16, -(host + size) % 16
        noise = np.random.default_rng(size).integers(0, 256, before + after, np.uint8).tobytes()
        data = noise[:before] + c.string_at(host, size) + noise[before:]
        start = self._base
        self.machine.map(start, data)
        self._base += (len(data) + (1 << 20)) & -(1 << 20)
        return start + before

    def finish(self) -> None:
        """Copies what was written back to the host."""
        for host, mapped in self._outputs:
            c.memmove(host, mapped.tobytes(), len(mapped))


class Kernels:
    """The assembly functions on the host's memory; ``runs`` are the name and cost of each call."""

    def __init__(self) -> None:
        self.programs = {name: Program.load(SET / f"{name}.S") for name in KERNELS}
        self.runs: list[tuple[str, Run]] = []

    def _call(self, name: str, layout: Layout, arguments: list[int]) -> None:
        self.runs.append((name, layout.machine.call(f"llm_esp32s3_{name}", arguments)))
        layout.finish()

    def matmul(self, name: str, m: Matmul) -> None:
        """tiles_int4, pairs_int4 or tiles_int8."""
        n = {"tiles_int4": 1, "pairs_int4": 2 * m.n, "tiles_int8": m.n}[name]
        layout = Layout(Machine(self.programs[name]))
        blocks = m.n_tiles * m.n_groups * 4
        fields = [
            layout.put(m.y, m.n_tiles * 16, count=n, stride=m.y_step, writable=True),
            layout.put(m.data, blocks * (32 if name == "tiles_int8" else 16)),
            layout.put_lines(m.scales, blocks),
            layout.put(m.row_scales, m.n_tiles * 16),
            layout.put(m.codes, m.n_groups * 32, count=n, stride=m.stride),
            layout.put(m.x_scales, n * 4),
            *(m.n_groups, m.n_tiles, m.n, m.stride, m.y_step),
        ]
        words = np.array(fields, np.uint32)
        address = 0x1000_0000
        layout.machine.map(address, words.tobytes(), name="arguments")
        self._call(name, layout, [address])

    def scores(self, out: int, q: int, k: int, n: int, stride: int, n_blocks: int) -> None:
        """llm_esp32s3_scores."""
        layout = Layout(Machine(self.programs["scores"]))
        arguments = [
            layout.put(out, n * 4, writable=True),
            layout.put(q, n_blocks * 16),
            layout.put(k, (n - 1) * stride + n_blocks * 16),
        ]
        self._call("scores", layout, [*arguments, n, stride, n_blocks])

    def values(self, sums: int, weights: int, v: int, n: int, stride: int) -> None:
        """llm_esp32s3_values."""
        layout = Layout(Machine(self.programs["values"]))
        arguments = [
            layout.put(sums, 64, writable=True),
            layout.put(weights, n * 2),
            layout.put(v, (n - 1) * stride + 16),
        ]
        self._call("values", layout, [*arguments, n, stride])


class Bridge(Kernels):
    """The same for a library made by `build`; ``faults`` are the messages of what went wrong,
    which the C caller cannot see."""

    def __init__(self, library: c.CDLL) -> None:
        super().__init__()
        self.faults: list[str] = []
        self._hooks = Hooks(
            MatmulHook(lambda name, m: self._guard(self.matmul, name.decode(), m.contents)),
            ScoresHook(lambda *arguments: self._guard(self.scores, *arguments)),
            ValuesHook(lambda *arguments: self._guard(self.values, *arguments)),
        )
        place = Hooks.in_dll(library, "pie_hooks")
        c.memmove(c.addressof(place), c.byref(self._hooks), c.sizeof(Hooks))

    def _guard(self, function: Callable[..., None], *arguments: object) -> None:
        try:
            function(*arguments)
        except (Fault, ValueError) as fault:
            self.faults.append(str(fault))


def build(output: Path, sources: list[Path], *defines: str) -> Path:
    """Compiles `sources`, the engine and glue.c to a shared library at `output`."""
    engine = ROOT / "cmodules" / "llm"
    files = [*engine.glob("core/*.c"), *engine.glob("kernels/*.c"), *engine.glob("kernels/*/*.c")]
    command = ["cc", "-std=c99", "-O2", "-ffp-contract=off", "-fPIC", "-shared", "-o", output]
    command += [
        "-DLLM_KERNELS_ESP32S3=1",
        *defines,
        *sources,
        *files,
        Path(__file__).with_name("glue.c"),
    ]
    subprocess.run(command, check=True)
    return output
