"""Writes unicode_tables.h: what tokenizers ask of Unicode.

    python cmodules/llm/core/unicode_tables.py

Letters and numbers are those of Unicode 16, as in the regular expressions of Hugging Face's
`tokenizers` 0.23; it comes from the package unicodedata2 where Python has another version. The
normalizers there know less: LATER is what they do not take for composed or combining, LATER_MARKS
and LATER_PUNCTUATION what BERT's does not take for that. Its lower case is that of Unicode 17.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
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
LATER_MARKS = (
    "07FD 0897-089F 08CA-08E1 09FE 0AFA-0AFF 0B55 0C04 0C3C 0D00 0D3B-0D3C 0D81 0EBA 0ECE 180F "
    "1885-1886 1ABF-1ACE 1DF6-1DFB A82C A8C5 A8FF A9BD 10D24-10D27 10D69-10D6D 10EAB-10EAC "
    "10EFC-10EFF 10F46-10F50 10F82-10F85 11070 11073-11074 110C2 111C9 111CF 1123E 11241 1133B "
    "113BB-113C0 113CE 113D0 113D2 113E1-113E2 11438-1143F 11442-11444 11446 1145E 1182F-11837 "
    "11839-1183A 1193B-1193C 1193E 11943 119D4-119D7 119DA-119DB 119E0 11A01-11A0A 11A33-11A38 "
    "11A3B-11A3E 11A47 11A51-11A56 11A59-11A5B 11A8A-11A96 11A98-11A99 11C30-11C36 11C38-11C3D "
    "11C3F 11C92-11CA7 11CAA-11CB0 11CB2-11CB3 11CB5-11CB6 11D31-11D36 11D3A 11D3C-11D3D "
    "11D3F-11D45 11D47 11D90-11D91 11D95 11D97 11EF3-11EF4 11F00-11F01 11F36-11F3A 11F40 11F42 "
    "11F5A 13440 13447-13455 1611E-16129 1612D-1612F 16F4F 16FE4 1CF00-1CF2D 1CF30-1CF46 "
    "1E000-1E006 1E008-1E018 1E01B-1E021 1E023-1E024 1E026-1E02A 1E08F 1E130-1E136 1E2AE "
    "1E2EC-1E2EF 1E4EC-1E4EF 1E5EE-1E5EF 1E944-1E94A"
)
LATER_PUNCTUATION = (
    "061D 09FD 0A76 0C77 0C84 1B4E-1B4F 1B7D-1B7F 2E43-2E4F 2E52-2E5D 10D6E 10EAD 10F55-10F59 "
    "10F86-10F89 113D4-113D5 113D7-113D8 1144B-1144F 1145A-1145B 1145D 11660-1166C 116B9 1183B "
    "11944-11946 119E2 11A3F-11A46 11A9A-11A9C 11A9E-11AA2 11B00-11B09 11BE1 11C41-11C45 "
    "11C70-11C71 11EF7-11EF8 11F43-11F4F 11FFF 12FF1-12FF2 16D6D-16D6F 16E97-16E9A 16FE2 1E5FF "
    "1E95E-1E95F"
)
# What was one of them then, and is no longer.
FORMER_MARKS = "1734 1171E"
FORMER_PUNCTUATION = "166D 111C9"
# Format characters that it keeps.
LATER_FORMATS = "0890-0891 08E2 110CD 13430-1343F"
# Upper case since Unicode 16, and the lower case of the first.
LATER_UPPER = (
    "1C89:1C8A A7CB:0264 A7CC:A7CD A7CE:A7CF A7D2:A7D3 A7D4:A7D5 A7DA:A7DB A7DC:019B "
    "10D50-10D65:10D70 16EA0-16EB8:16EBB"
)
PLANES = 4  # what counts in the others, unicode.c knows

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


def named(text: str) -> set[int]:
    """The characters of one of the lists above."""
    found: set[int] = set()
    for part in text.split(" "):
        first, _, last = part.partition("-")
        found.update(range(int(first, 16), int(last or first, 16) + 1))
    return found


def ranges(wanted: Iterable[int]) -> list[tuple[int, int]]:
    """The first of each range of a set, and what comes after its last. None crosses a plane."""
    found: list[tuple[int, int]] = []
    for c in sorted(wanted):
        if found and found[-1][1] == c and c & 0xFFFF:
            found[-1] = (found[-1][0], c + 1)
        else:
            found.append((c, c + 1))
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


def set_table(name: str, what: str, wanted: Iterable[int]) -> str:
    """A set: where its ranges begin and end, in turn."""
    found = ranges(wanted)
    keys = [first for first, _ in found for _ in range(2)]
    values = [place & 0xFFFF for span in found for place in span]
    head = f"// {what}: where each of {len(found)} ranges begins and ends (the first past it).\n"
    return head + by_plane(name, keys) + array(name, values)


def decompositions() -> str:
    """What canonical decomposition takes apart, one step at a time."""
    unknown, pairs, singles = named(LATER), [], []
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
    spans = ranges(places)
    starts = [sum(b - a for a, b in spans[:i]) for i in range(len(spans))]
    assert all(target >> 16 in (0, 2) for target in places.values())
    upper = bits([target >> 17 for _, target in singles])
    return "\n".join(
        [
            f"// {len(pairs)} characters that are two: the whole, its first part (of the same",
            "// plane), the number of the second in `seconds`, 128 more if they are never joined.",
            by_plane("pairs", [c for c, _, _ in pairs]),
            array("pair_wholes", [c & 0xFFFF for c, _, _ in pairs]),
            array("pair_firsts", [first & 0xFFFF for _, first, _ in pairs]),
            array("pair_seconds", numbers, "uint8_t"),
            array("seconds", seconds, "uint32_t"),
            set_table("singles", f"{len(singles)} characters that are another", places),
            "// Which others: where those of each range begin, they, a bit for each in plane 2.",
            array("single_starts", starts),
            array("single_targets", [target & 0xFFFF for _, target in singles]),
            array("single_upper", upper, "uint8_t"),
        ]
    )


def combining_classes() -> str:
    """Canonical_Combining_Class where it is not 0."""
    unknown, runs = named(LATER), []
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


def lower_case() -> str:
    """Simple lower case: runs of characters, each or every other one, whose lower case is as far
    from them."""
    lower = {c: ord(chr(c).lower()) for c in characters() if len(chr(c).lower()) == 1}
    for part in LATER_UPPER.split(" "):
        first, _, target = part.partition(":")
        for i, c in enumerate(sorted(named(first))):
            lower[c] = int(target, 16) + i
    runs: list[list[int]] = []  # first, last, step, lower case of the first
    for c, target in sorted(lower.items()):
        if c < 0x80 or c == target:
            continue
        assert c >> 16 == target >> 16
        first, last, step, base = runs[-1] if runs else (0, 0, 0, 0)
        if target - c == base - first and (c - last == step or (not step and c - last in (1, 2))):
            runs[-1] = [first, c, c - last, base]
        else:
            runs.append([c, c, 0, target])
    return "\n".join(
        [
            f"// Lower case beyond ASCII: {len(runs)} runs, by the first and the last character",
            "// and the lower case of the first; a bit says that only every other one has one.",
            by_plane("uppers", [first for first, _, _, _ in runs]),
            array("upper_firsts", [first & 0xFFFF for first, _, _, _ in runs]),
            array("upper_lasts", [last & 0xFFFF for _, last, _, _ in runs]),
            array("upper_targets", [target & 0xFFFF for _, _, _, target in runs]),
            array("upper_alternate", bits([step == 2 for _, _, step, _ in runs]), "uint8_t"),
        ]
    )


def bits(values: Sequence[int | bool]) -> list[int]:
    """A bit for each value, eight in a byte, the lowest first."""
    found = [0] * ((len(values) + 7) // 8)
    for i, value in enumerate(values):
        found[i // 8] |= int(value) << i % 8
    return found


def tables() -> str:
    """The contents of unicode_tables.h."""
    assert unicodedata.unidata_version == VERSION, unicodedata.unidata_version

    def category(*names: str) -> set[int]:
        return {c for c in characters() if unicodedata.category(chr(c)).startswith(names)}

    marks = category("Mn") - named(LATER_MARKS) | named(FORMER_MARKS)
    punctuation = category("P") - named(LATER_PUNCTUATION) | named(FORMER_PUNCTUATION)
    punctuation = {c for c in punctuation if c >= 0x80}
    ignored = category("Cc", "Cf", "Co") - named(LATER_FORMATS) - set(b"\t\n\r") | {0xFFFD}
    parts = [
        HEAD,
        set_table("letters", "General category L", category("L")),
        set_table("numbers", "General category N", category("N")),
        set_table("marks", "General category Mn, to BERT", marks),
        set_table("punctuation", "General category P beyond ASCII, to BERT", punctuation),
        set_table("ignored", "What BERT leaves out", ignored),
        lower_case(),
        decompositions(),
        combining_classes(),
    ]
    return "\n".join(parts)


if __name__ == "__main__":
    OUTPUT.write_text(tables())
    sys.stdout.write(f"{OUTPUT}: {OUTPUT.stat().st_size} bytes\n")
