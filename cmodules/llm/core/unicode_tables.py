"""Writes unicode_tables.h: what tokenizers ask of Unicode.

    python cmodules/llm/core/unicode_tables.py

Letters and numbers are those of Unicode 16, as in the regular expressions of Hugging Face's
`tokenizers` 0.23; it comes from the package unicodedata2 where Python has another version. The
normalizers there know less: LATER is what they do not take for composed or combining.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

try:
    import unicodedata2 as unicodedata
except ImportError:
    import unicodedata

VERSION = "16.0.0"
OUTPUT = Path(__file__).with_name("unicode_tables.h")
LATER = (
    "07FD 0897-089F 08CA-08D3 09FE 0C3C 0D3B-0D3C 0EBA 1715 1ABF-1ACE 1DF6-1DFA A82C 105C9 105E4 "
    "10D24-10D27 10D69-10D6D 10EAB-10EAC 10EFD-10EFF 10F46-10F50 10F82-10F85 11070 1133B 11383 "
    "11385 1138E 11391 113C5 113C7-113C8 113CE-113D0 1145E 11839-1183A 11938 1193D-1193E 11943 "
    "119E0 11A34 11A47 11A99 11D42 11D44-11D45 11D97 11F41-11F42 16121-16128 1612F 16D68-16D6A "
    "16FF0-16FF1 1E08F 1E130-1E136 1E2AE 1E2EC-1E2EF 1E4EC-1E4EF 1E5EE-1E5EF"
)
PLANES = 4  # the others have nothing that counts

HEAD = f"""\
// Made by unicode_tables.py from Unicode {VERSION}: do not edit.
//
// Characters are without their plane (the upper bits); `_planes` says where in a table those of
// each plane begin, and where the last end.
#include <stdint.h>

#define UNICODE_PLANES {PLANES}
"""


def characters() -> Iterable[int]:
    """All there are, but surrogates."""
    return (c for c in range(PLANES << 16) if not 0xD800 <= c < 0xE000)


def later() -> set[int]:
    """What LATER names."""
    found: set[int] = set()
    for part in LATER.split(" "):
        first, _, last = part.partition("-")
        found.update(range(int(first, 16), int(last or first, 16) + 1))
    return found


def ranges(contains: Callable[[int], bool]) -> list[tuple[int, int]]:
    """The first of each range of a set, and what comes after its last. None crosses a plane."""
    found: list[tuple[int, int]] = []
    for c in characters():
        if contains(c):
            joins = bool(found) and found[-1][1] == c and c & 0xFFFF
            found[-1:] = [(found[-1][0], c + 1)] if joins else [*found[-1:], (c, c + 1)]
    return found


def array(name: str, values: Sequence[int], kind: str = "uint16_t") -> str:
    """An array as C."""
    rows = [values[at : at + 16] for at in range(0, len(values), 16)]
    text = ",\n".join("    " + ", ".join(f"0x{value:04X}" for value in row) for row in rows)
    return f"static const {kind} {name}[] = {{\n{text}}};\n"


def by_plane(name: str, keys: Sequence[int]) -> str:
    """Where in a table with these characters each plane begins."""
    starts = [sum(key >> 16 < plane for key in keys) for plane in range(PLANES + 1)]
    head = f"static const uint16_t {name}_planes[UNICODE_PLANES + 1] = "
    return head + "{" + ", ".join(map(str, starts)) + "};\n"


def set_table(name: str, what: str, found: list[tuple[int, int]]) -> str:
    """A set: where its ranges begin and end, in turn."""
    keys = [first for first, _ in found for _ in range(2)]
    values = [place & 0xFFFF for span in found for place in span]
    head = f"// {what}: where each of {len(found)} ranges begins and ends (the first past it).\n"
    return head + by_plane(name, keys) + array(name, values)


def decompositions() -> str:
    """What canonical decomposition takes apart, one step at a time."""
    unknown, pairs, singles = later(), [], []
    for c in characters():
        parts = unicodedata.decomposition(chr(c)).split()
        if parts and not parts[0].startswith("<") and c not in unknown:
            (pairs if len(parts) == 2 else singles).append((c, *(int(p, 16) for p in parts)))
    seconds = sorted({second for _, _, second in pairs})
    assert len(seconds) < 128 and not any(unicodedata.decomposition(chr(c)) for c in seconds)
    assert all(c >> 16 == first >> 16 for c, first, _ in pairs)
    never = [unicodedata.normalize("NFC", chr(c)) != chr(c) for c, _, _ in pairs]
    numbers = [seconds.index(s) | no << 7 for (_, _, s), no in zip(pairs, never, strict=True)]
    places = {c: target for c, target in singles}
    spans = ranges(places.__contains__)
    starts = [sum(b - a for a, b in spans[:i]) for i in range(len(spans))]
    assert all(target >> 16 in (0, 2) for target in places.values())
    upper = [0] * ((len(singles) + 7) // 8)
    for i, (_, target) in enumerate(singles):
        upper[i // 8] |= (target >> 17) << i % 8
    return "\n".join(
        [
            f"// {len(pairs)} characters that are two: the whole, its first part (of the same",
            "// plane), the number of the second in `seconds`, 128 more if they are never joined.",
            by_plane("pairs", [c for c, _, _ in pairs]),
            array("pair_wholes", [c & 0xFFFF for c, _, _ in pairs]),
            array("pair_firsts", [first & 0xFFFF for _, first, _ in pairs]),
            array("pair_seconds", numbers, "uint8_t"),
            array("seconds", seconds, "uint32_t"),
            set_table("singles", f"{len(singles)} characters that are another", spans),
            "// Which others: where those of each range begin, they, a bit for each in plane 2.",
            array("single_starts", starts),
            array("single_targets", [target & 0xFFFF for _, target in singles]),
            array("single_upper", upper, "uint8_t"),
        ]
    )


def combining_classes() -> str:
    """Canonical_Combining_Class where it is not 0."""
    unknown, runs = later(), []
    for c in characters():
        value = 0 if c in unknown else unicodedata.combining(chr(c))
        if value:
            joins = runs and runs[-1][0] + runs[-1][1] == c and runs[-1][2] == value
            if joins and runs[-1][1] < 255:
                runs[-1][1] += 1
            else:
                runs.append([c, 1, value])
    return "\n".join(
        [
            f"// Combining classes but 0: {len(runs)} ranges, by first character, size and class.",
            by_plane("classes", [c for c, _, _ in runs]),
            array("class_firsts", [c & 0xFFFF for c, _, _ in runs]),
            array("class_sizes", [size for _, size, _ in runs], "uint8_t"),
            array("class_values", [value for _, _, value in runs], "uint8_t"),
        ]
    )


def tables() -> str:
    """The contents of unicode_tables.h."""
    assert unicodedata.unidata_version == VERSION, unicodedata.unidata_version

    def category(letter: str) -> list[tuple[int, int]]:
        return ranges(lambda c: unicodedata.category(chr(c))[0] == letter)

    parts = [
        HEAD,
        set_table("letters", "General category L", category("L")),
        set_table("numbers", "General category N", category("N")),
        decompositions(),
        combining_classes(),
    ]
    return "\n".join(parts)


if __name__ == "__main__":
    OUTPUT.write_text(tables())
    sys.stdout.write(f"{OUTPUT}: {OUTPUT.stat().st_size} bytes\n")
