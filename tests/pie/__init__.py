"""A simulator of the part of an ESP32-S3's core that this project's kernels use.

`assembly` reads the very ``.S`` files that are shipped, `machine` runs a function of one on memory
that is laid out for it, `instructions` says what each instruction does and in which stages of the
pipeline it reads and writes, and `bridge` lets the C around the kernels call them here.

Where the semantics come from: the vector instructions (``ee.*``) from Espressif's ESP32-S3
Technical Reference Manual, chapter 1, "Processor Instruction Extensions", with its section 1.7 for
pipeline stages, interlocks and branches; the base instructions from Cadence's Xtensa Instruction
Set Architecture; ranges of immediates from what the GNU assembler for the ESP32-S3 takes. What the
manual contradicts itself about is left out, and no kernel uses it (the unit of the post-increment
of ``ee.st.accx.ip``, say). tests/host/test_pie.py holds the simulator to the manual's rules.

Assembled by GNU as with Espressif's tables for the ESP32-S3 and run on Espressif's QEMU 9.2, which
others wrote, the kernels pass tests/kernels/check_kernels.c as they do here, and the engine's
digests are the same; Debian packages neither, so no test repeats it.
"""

from .assembly import AssemblyError, Program
from .machine import Fault, Machine, Run

__all__ = ["AssemblyError", "Fault", "Machine", "Program", "Run"]
