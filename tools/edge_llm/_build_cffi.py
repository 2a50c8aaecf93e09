"""How the engine becomes the extension `edge_llm._engine`.

setuptools runs this (see setup.py). The C sources are those of the boards, the interface is their
`ports/ports.h` and what it includes, read here so that it is written once.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from cffi import FFI

_ROOT = Path(__file__).resolve().parents[2]
_ENGINE = _ROOT / "cmodules" / "llm"
_HEADERS = tuple(
    _ENGINE / name for name in ("kernels/types.h", "core/cache.h", "core/llm.h", "ports/ports.h")
)


def _relative(pattern: str) -> list[str]:
    """Files of the engine, relative to the project's root as setuptools wants them."""
    return [os.path.relpath(path, _ROOT) for path in sorted(_ENGINE.glob(pattern))]


def _declarations(header: str) -> str:
    """What cffi reads of the header: all but preprocessor lines, constants excepted."""
    return "\n".join(
        line
        for line in header.splitlines()
        if not line.startswith("#") or re.match(r"#define \w+ \d+( //.*)?$", line)
    )


ffi = FFI()
for _header in _HEADERS:
    ffi.cdef(_declarations(_header.read_text()))
ffi.cdef("static const char *const LLM_VERSION;")
# What engine.py provides: the functions of a llm_store_t.
ffi.cdef("""
extern "Python" llm_io_t edge_llm_read(void *, uint64_t, void *, size_t);
extern "Python" llm_io_t edge_llm_write(void *, uint64_t, const void *, size_t);
""")
# And stream.py: those of a llm_source_t.
ffi.cdef("""
extern "Python" bool llm_py_read(void *context, uint64_t offset, void *data, size_t size);
extern "Python" bool llm_py_start(void *context, const llm_read_t *reads, uint32_t n);
extern "Python" bool llm_py_wait(void *context, uint32_t *took);
extern "Python" uint32_t llm_py_now(void *context);
""")
ffi.set_source(
    "edge_llm._engine",
    '#include "ports/ports.h"',
    sources=_relative("core/*.c") + _relative("kernels/**/*.c") + _relative("ports/**/*.c"),
    depends=_relative("core/*.h") + _relative("kernels/**/*.h") + _relative("ports/*.h"),
    include_dirs=[os.path.relpath(_ENGINE, _ROOT)],
    # One result everywhere: no fused or reordered float arithmetic (docs/arithmetic.md).
    extra_compile_args=["-std=c99", "-O3", "-ffp-contract=off", "-fno-fast-math"],
)
