"""Writes unicode_tables.h: which characters are letters and numbers to the split patterns.

    python cmodules/llm/core/unicode_tables.py

The version of Unicode is that of the regular expressions in Hugging Face's `tokenizers` 0.23, so
it comes from the package unicodedata2 where Python has another one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

try:
    import unicodedata2 as unicodedata
except ImportError:
    import unicodedata

VERSION = "16.0.0"
OUTPUT = Path(__file__).with_name("unicode_tables.h")

HEAD = f"""\
// Made by unicode_tables.py from Unicode {VERSION}: do not edit.
//
// A set of characters is where its ranges begin and end (the first character past them) in turn,
// without the plane (the upper bits). `_planes` says where the ranges of each plane begin, and
// where the last ends.
#include <stdint.h>

#define UNICODE_PLANES {{planes}}
"""


def boundaries(contains: Callable[[int], bool]) -> list[list[int]]:
    """Where the ranges of a set begin and end, by plane."""
    planes: list[list[int]] = []
    for plane in range(17):
        found, inside = [], False
        for low in range(0x10000):
            if contains(plane << 16 | low) != inside:
                found.append(low)
                inside = not inside
        assert not inside, "a range goes on into the next plane"
        planes.append(found)
    return planes


def table(name: str, what: str, planes: list[list[int]]) -> str:
    """A set as C."""
    values = [value for plane in planes for value in plane]
    starts = [sum(map(len, planes[:i])) for i in range(len(planes) + 1)]
    lines = [f"// {what}: {len(values) // 2} ranges."]
    lines.append(f"static const uint16_t {name}_planes[UNICODE_PLANES + 1] = {{")
    lines[-1] += ", ".join(map(str, starts)) + "};"
    lines.append(f"static const uint16_t {name}[] = {{")
    rows = [values[at : at + 16] for at in range(0, len(values), 16)]
    lines.append(",\n".join("    " + ", ".join(f"0x{value:04X}" for value in row) for row in rows))
    return "\n".join(lines) + "};\n"


def tables() -> str:
    """The contents of unicode_tables.h."""
    assert unicodedata.unidata_version == VERSION, unicodedata.unidata_version

    def category(letter: str) -> Callable[[int], bool]:
        return lambda code: unicodedata.category(chr(code))[0] == letter

    sets = {
        "letters": ("General category L", category("L")),
        "numbers": ("General category N", category("N")),
    }
    found = {name: boundaries(contains) for name, (_, contains) in sets.items()}
    n = 1 + max(i for planes in found.values() for i, plane in enumerate(planes) if plane)
    parts = [table(name, sets[name][0], planes[:n]) for name, planes in found.items()]
    return "\n".join([HEAD.format(planes=n), *parts])


if __name__ == "__main__":
    OUTPUT.write_text(tables())
    sys.stdout.write(f"{OUTPUT}: {OUTPUT.stat().st_size} bytes\n")
