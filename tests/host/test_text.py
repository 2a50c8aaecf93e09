"""Escape sequences in texts: what of them passes, against a terminal emulator and the standard."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyte
import pytest
from edge_llm import engine
from edge_llm.image import Config, Dtype
from edge_llm.tokenizer import Tokenizer, TokenType
from hypothesis import given
from hypothesis import strategies as st
from oracle_models import make_image, random_planes

VECTORS = Path(__file__).resolve().parents[1] / "vectors"

# Of single bytes everything can be made; of the others, sequences that begin, go on and end
# anywhere within a token.
PIECES = [bytes([byte]) for byte in range(256)]
PIECES += b"\x1b[ \x1b[3 [31m 1;3 m\x1b ]0; \x1b]0;ti le\x07 \x1b\\ \x1b( B\x1b[ ?25 lred".split()
PIECES += [
    b"\xc2\x9b",
    b"\x1b[31m",
    b"J\n",
    b" \x1b",
    b"H\xe8\xaa",
    b"\x9e\x1b[",
    b"\xc3",
    b"\xa9m",
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> engine.Model:
    """Token i has the bytes PIECES[i]."""
    n = len(PIECES)
    tokenizer = Tokenizer(
        PIECES,
        np.arange(n, dtype=np.uint32),
        np.full(n, TokenType.NORMAL, np.uint8),
        add_bos=False,
        add_space_prefix=False,
        byte_fallback=False,
    )
    path = tmp_path_factory.mktemp("text") / "pieces.llm"
    config = Config(n, 2, 2, 1, 1, 1, 2, 8)
    return engine.Model(make_image(path, config, Dtype.INT4, random_planes(0), tokenizer))


def tokens_of(data: bytes, rng: random.Random) -> list[int]:
    """One way to put `data` together from PIECES."""
    tokens, at = [], 0
    while at < len(data):
        fitting = [i for i, piece in enumerate(PIECES) if data.startswith(piece, at)]
        tokens.append(rng.choice(fitting))
        at += len(PIECES[tokens[-1]])
    return tokens


def feed(model: engine.Model, data: bytes, ansi: str | None, rng: random.Random) -> list[str]:
    """The pieces of text that come out."""
    decoder = engine.Decoder(model, start=False, ansi=ansi)
    return [*map(decoder.feed, tokens_of(data, rng)), decoder.finish()]


# ------------------------------------------------------------------------------- whole sequences

printable = st.characters(exclude_categories=("Cs", "Cc"))
texts = st.text(st.one_of(st.sampled_from("abm[;0\n\t"), printable), max_size=8)
parameters = st.text("0123456789:;<=>?", max_size=12)
finals = st.characters(min_codepoint=0x40, max_codepoint=0x7E)
inside = st.text(st.one_of(st.sampled_from("0;a]\n"), printable), max_size=30)
ends = st.sampled_from(["\x1b\\", "\x07", "\x9c"])

colors = st.builds(
    "{}{}m".format, st.sampled_from(["\x1b[", "\x9b"]), st.text("0123456789;:", max_size=20)
)
sequences = st.one_of(
    st.builds("{}{}{}".format, st.sampled_from(["\x1b[", "\x9b"]), parameters, finals),
    st.builds(
        "\x1b[{}{}{}".format,
        parameters,
        st.text(" !\"#$%&'()*+,-./", min_size=1, max_size=2),
        finals,
    ),
    st.builds(
        "{}{}{}".format,
        st.sampled_from(["\x1b]", "\x1bP", "\x1bX", "\x1b^", "\x1b_", *"\x90\x98\x9d\x9e\x9f"]),
        inside,
        ends,
    ),
    st.builds("\x1b{}".format, st.sampled_from("0789=>@ADEFGHMNOVWZcfklmno|}~")),
    st.builds("\x1b{}{}".format, st.text(" !#$%&'()*+-./", min_size=1, max_size=2), finals),
    st.sampled_from([chr(c) for c in [*range(9), *range(11, 27), *range(28, 32), 127]]),
    st.sampled_from(
        [chr(c) for c in range(0x80, 0xA0) if c not in (0x90, 0x98, *range(0x9B, 0xA0))]
    ),
)
parts = st.lists(
    st.one_of(
        st.tuples(st.just("text"), texts),
        st.tuples(st.just("color"), colors),
        st.tuples(st.just("other"), sequences),
    ),
    max_size=12,
)


def is_color(sequence: str) -> bool:
    return re.fullmatch("(\x1b\\[|\x9b)[0-9;:]*m", sequence) is not None


class Events:
    """A terminal that only notes what it is told to do."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: self.told.append((name, args))


def told(text: str) -> list[tuple[str, Any]]:
    """What a terminal that reads `text` does."""
    screen = Events()
    stream = pyte.Stream(screen, strict=False)
    stream.feed(text)
    return screen.told


def screen_of(text: str) -> pyte.Screen:
    """What is on the screen of a terminal that has read `text`."""
    screen = pyte.Screen(20, 6)
    screen.set_mode(pyte.modes.LNM)
    pyte.Stream(screen).feed(text)
    return screen


@given(parts, st.randoms(use_true_random=False))
def test_by_default_the_text_alone_is_left(
    model: engine.Model, parts: list[tuple[str, str]], rng: random.Random
) -> None:
    pieces = feed(model, "".join(part for _, part in parts).encode(), None, rng)
    alone = "".join(part for kind, part in parts if kind == "text")
    assert "".join(pieces) == alone
    got, want = screen_of("".join(pieces)), screen_of(alone)
    assert got.display == want.display
    assert (got.cursor.x, got.cursor.y, got.title) == (want.cursor.x, want.cursor.y, "")


@given(parts, st.randoms(use_true_random=False))
def test_with_color_the_colors_are_left_too(
    model: engine.Model, parts: list[tuple[str, str]], rng: random.Random
) -> None:
    pieces = feed(model, "".join(part for _, part in parts).encode(), "color", rng)
    left = [
        part.replace("\x9b", "\x1b[") if kind != "text" else part
        for kind, part in parts
        if kind == "text" or is_color(part)
    ]
    passed = [part for kind, part in parts if kind != "text" and is_color(part)]
    opened = passed and not re.fullmatch("(\x1b\\[|\x9b)[0;]*m", passed[-1])
    assert "".join(pieces) == "".join(left) + ("\x1b[0m" if opened else "")
    for piece in pieces:
        assert "\x1b" not in re.sub("\x1b\\[[0-9;:]*m", "", piece)
    got, want = screen_of("".join(pieces)), screen_of("".join(left))
    assert (got.buffer, got.display) == (want.buffer, want.display)
    assert (got.cursor.x, got.cursor.y) == (want.cursor.x, want.cursor.y)
    # What is written after the text has no colour.
    assert got.cursor.attrs == screen_of("").cursor.attrs


@given(parts, st.randoms(use_true_random=False))
def test_raw_is_what_the_model_wrote(
    model: engine.Model, parts: list[tuple[str, str]], rng: random.Random
) -> None:
    whole = "".join(part for _, part in parts)
    pieces = feed(model, whole.encode(), "raw", rng)
    assert "".join(pieces) == whole
    ends, at = set(), 0
    for piece in pieces:
        at += len(piece.encode())
        ends.add(at)
    at = 0
    for kind, part in parts:
        size = len(part.encode())
        if kind != "text" and size <= 64:
            assert not ends & set(range(at + 1, at + size)), (pieces, part)
        at += size


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=6),
            st.sampled_from(PIECES[256:]),
            st.builds(lambda piece: piece.encode(), sequences),
        ),
        max_size=20,
    ),
    st.randoms(use_true_random=False),
)
def test_a_terminal_is_told_to_print_and_nothing_else(
    model: engine.Model, parts: list[bytes], rng: random.Random
) -> None:
    data = b"".join(parts)
    plain = "".join(feed(model, data, None, rng))
    assert {name for name, _ in told(plain)} <= {"draw", "linefeed", "tab"}
    color = "".join(feed(model, data, "color", rng))
    assert {name for name, _ in told(color)} <= {
        "draw", "linefeed", "tab", "select_graphic_rendition",
    }  # fmt: skip
    assert re.sub("\x1b\\[[0-9;:]*m", "", color) == plain


# ------------------------------------------------------------------------------- odd and broken


ODD = [
    ("a\r\nb\rc", "a\nbc", "a\nbc"),  # a lone carriage return moves the cursor
    ("a\bb\vc\fd\x7fe\x85f\x84g", "abcdefg", "abcdefg"),
    ("\x1b[3\n1\tmx", "\n\tx", "\n\t\x1b[31mx\x1b[0m"),  # obeyed within a sequence
    ("\x1b[31\x18mx", "mx", "mx"),  # cancelled
    ("\x1b]0;ti\x1amx", "mx", "mx"),
    ("\x1b[3é1mx", "é1mx", "é1mx"),  # no sequence has such a character
    ("\x1b\x1b[31mx", "x", "\x1b[31mx\x1b[0m"),
    ("\x1b[3\x1b[1mx", "x", "\x1b[1mx\x1b[0m"),  # another begins
    ("\x1b]0;t\x1b[1mx\x07", "x", "\x1b[1mx\x1b[0m"),
    ("\x1b[1 mx\x1b[?1my\x1b[>1mz", "xyz", "xyz"),  # end with m, but are no colours
    ("\x1b[1mx\x1b[m", "x", "\x1b[1mx\x1b[m"),
    ("\x1b[1mx\x1b[38;5;0m", "x", "\x1b[1mx\x1b[38;5;0m\x1b[0m"),
    ("\x1b[1mx\x1b[0;00m", "x", "\x1b[1mx\x1b[0;00m"),
    ("x\x1b[1", "x", "x"),  # incomplete at the end
    ("x\x1b]0;title", "x", "x"),
    ("x\x1b", "x", "x"),
    # Without an end: given up after 256 bytes, and what ends it then is removed as well.
    ("\x1b]" + "t" * 254 + "x\x07y", "xy", "xy"),
    ("\x1b]" + "t" * 253 + "\x07y", "y", "y"),
    ("\x1bP" + "é" * 127 + "x\x1b\\y", "xy", "xy"),
    ("\x1b[" + "1" * 254 + "mx", "mx", "mx"),
    # Colours of 64 bytes pass, longer ones do not.
    ("\x1b[" + "1;" * 30 + "1mx", "x", "\x1b[" + "1;" * 30 + "1mx\x1b[0m"),
    ("\x1b[" + "1;" * 31 + "mx", "x", "x"),
]


@pytest.mark.parametrize(
    ("data", "plain", "color"), ODD, ids=[ascii(data[:12]) for data, _, _ in ODD]
)
def test_odd_sequences(model: engine.Model, data: str, plain: str, color: str) -> None:
    rng = random.Random(0)
    for _ in range(5):
        assert "".join(feed(model, data.encode(), None, rng)) == plain
        assert "".join(feed(model, data.encode(), "color", rng)) == color
        assert "".join(feed(model, data.encode(), "raw", rng)) == data


def test_c1_as_single_bytes_is_no_utf8(model: engine.Model) -> None:
    for ansi in (None, "color", "raw"):
        text = "".join(feed(model, b"\x9b31mx\x9d0;t\x07", ansi, random.Random(0)))
        assert text.rstrip("\x07") == "\ufffd31mx\ufffd0;t"


def test_a_text_begins_outside_of_any_sequence(model: engine.Model) -> None:
    for ansi, first in ((None, ""), ("color", ""), ("raw", "\x1b]0;ti")):
        decoder = engine.Decoder(model, start=False, ansi=ansi)
        for _ in range(2):
            pieces = [decoder.feed(token) for token in b"\x1b]0;ti"]
            assert "".join([*pieces, decoder.finish()]) == first
        assert [decoder.feed(token) for token in b"ab"] == ["a", "b"]


def test_which_sequences_may_pass_is_checked() -> None:
    model = engine.Model((VECTORS / "tiny-int4.llm").read_bytes())
    with pytest.raises(ValueError, match="ansi: must be None, 'color' or 'raw', not 'colour'"):
        engine.Decoder(model, ansi="colour")
    with pytest.raises(TypeError):
        engine.Decoder(model, ansi=True)  # type: ignore[arg-type]
