"""The tokenizer of an image: the section `TOKN` of docs/image-format.md."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from .checks import require

NO_TOKEN = 0xFFFFFFFF

_TOKN = struct.Struct("<IIiiiI10I")
_BPE = struct.Struct("<5I12s")
_LONGEST_NAME = 255
_MAX_MERGES = 1 << 24


class Kind(IntEnum):
    """How text becomes tokens."""

    SENTENCEPIECE = 1
    BPE = 2
    WORDPIECE = 3


class Split(IntEnum):
    """How byte-level BPE cuts text before it merges; docs/image-format.md has the patterns."""

    GPT2 = 1
    LLAMA3 = 2
    QWEN2 = 3
    SMOLLM = 4


class Normalizer(IntEnum):
    """What is done to text before it is split."""

    NONE = 0
    NFC = 1


class TokenType(IntEnum):
    """What a token is."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    BYTE = 4
    USER = 5


_FLAGS = {
    Kind.SENTENCEPIECE: ("add_bos", "add_space_prefix", "byte_fallback", "cut_at_spaces"),
    Kind.BPE: ("add_bos", "", "", "", "ignore_merges"),
    Kind.WORDPIECE: ("add_bos", "add_space_prefix", "", "", "", "lowercase", "strip_accents"),
}


def _no_merges() -> np.ndarray:
    return np.empty((0, 3), np.uint32)


@dataclass(frozen=True)
class Tokenizer:
    """A vocabulary and how text becomes tokens of it: the section `TOKN`.

    What the section holds beyond these fields (`sorted`, `specials`, `byte_ids`, `cut_at_spaces`)
    follows from them. `from_bpe` and `from_wordpiece` make those kinds.
    """

    pieces: list[bytes]  # by id
    ranks: np.ndarray  # SentencePiece: uint32 [n_tokens], merge priority, lowest first
    types: np.ndarray  # uint8 [n_tokens], TokenType
    bos_id: int = -1
    eos_id: int = -1
    unk_id: int = -1
    add_bos: bool = True
    add_space_prefix: bool = True
    byte_fallback: bool = True
    kind: Kind = Kind.SENTENCEPIECE
    split: Split = Split.GPT2  # BPE
    normalizer: Normalizer = Normalizer.NONE  # BPE
    merges: np.ndarray = field(default_factory=_no_merges)  # BPE: uint32 [n, 3] by rank: ids of
    # the left token, the right one and the one they make
    ignore_merges: bool = False  # BPE: what the split gives is not merged if it is a piece already
    lowercase: bool = False  # WordPiece: capitals become small letters
    strip_accents: bool = False  # WordPiece: letters lose their accents

    @property
    def sorted_ids(self) -> np.ndarray:
        """uint32: ids of the normal pieces by their bytes, the lowest id of equal ones. None in a
        BPE vocabulary that never looks for a piece.
        """
        if self.kind == Kind.BPE and not self.ignore_merges:
            return np.empty(0, "<u4")
        return self._by_bytes(np.flatnonzero(self.types == TokenType.NORMAL).tolist())

    @property
    def special_ids(self) -> np.ndarray:
        """uint32: ids of the tokens that text can name, by their bytes, the lowest of equal ones.
        A name of one byte is taken for text unless it always is the token.
        """
        found = []
        for kind, shortest in ((TokenType.CONTROL, 2), (TokenType.USER, 1)):
            ids = np.flatnonzero(self.types == kind).tolist()
            found += [i for i in ids if shortest <= len(self.pieces[i]) <= _LONGEST_NAME]
        return self._by_bytes(sorted(found))

    def _by_bytes(self, ids: Iterable[int]) -> np.ndarray:
        first: dict[bytes, int] = {}
        for token in ids:
            first.setdefault(self.pieces[token], token)
        return np.array([first[piece] for piece in sorted(first)], "<u4")

    @property
    def byte_ids(self) -> np.ndarray:
        """uint32 [256]: the token of each byte, NO_TOKEN where there is none."""
        ids = np.full(256, NO_TOKEN, "<u4")
        if self.kind == Kind.WORDPIECE:
            return ids
        kind = TokenType.BYTE if self.kind == Kind.SENTENCEPIECE else TokenType.NORMAL
        for token in np.flatnonzero(self.types == kind)[::-1].tolist():
            if len(self.pieces[token]) == 1:
                ids[self.pieces[token][0]] = token
        return ids

    @property
    def cut_at_spaces(self) -> bool:
        """Whether no normal piece has a space after a character that is not a space."""
        return not any(
            b" " in self.pieces[token].lstrip(b" ")
            for token in np.flatnonzero(self.types == TokenType.NORMAL).tolist()
        )

    def check(self) -> None:
        """Raise ValueError, naming the field, if the fields do not make a vocabulary."""
        n = len(self.pieces)
        n_ranks = n if self.kind == Kind.SENTENCEPIECE else 0
        require(
            len(self.ranks) == n_ranks, "ranks", f"has {len(self.ranks)} entries, not {n_ranks}"
        )
        require(len(self.types) == n, "types", f"has {len(self.types)} entries for {n} tokens")
        for name in ("bos_id", "eos_id", "unk_id"):
            value = getattr(self, name)
            require(-1 <= value < n, name, f"{value} is not a token of {n}, nor -1")
        last = TokenType.USER
        for token, kind in enumerate(self.types.tolist()):
            require(1 <= kind <= last, "types", f"token {token} is of the unknown type {kind}")
            if kind == TokenType.BYTE:
                size = len(self.pieces[token])
                require(size == 1, "pieces", f"byte token {token} has {size} bytes")
        if self.kind == Kind.BPE:
            self._check_merges()

    def _check_merges(self) -> None:
        n = len(self.pieces)
        require(len(self.merges) < _MAX_MERGES, "merges", f"{len(self.merges)} are too many")
        require((self.merges < n).all(), "merges", f"name a token past the {n} there are")
        sizes = np.array([len(piece) for piece in self.pieces])[self.merges]
        wrong = np.flatnonzero(sizes[:, 0] + sizes[:, 1] != sizes[:, 2])
        require(not len(wrong), "merges", f"{wrong[:1]} joins tokens to one of another size")
        pairs = np.unique(self.merges[:, :2], axis=0)
        require(len(pairs) == len(self.merges), "merges", "have a pair twice")

    def _merge_tables(self) -> tuple[np.ndarray, np.ndarray]:
        """`merge_starts`, uint32 [n_tokens + 1], and `merges`, uint64 [n_merges]."""
        left, right, joined = self.merges.astype(np.uint64).T
        rank = np.arange(len(left), dtype=np.uint64)
        order = np.lexsort((right, left))
        entries = (right << np.uint64(44) | joined << np.uint64(24) | rank)[order]
        counts = np.bincount(self.merges[:, 0], minlength=len(self.pieces))
        starts = np.concatenate([[0], np.cumsum(counts)])
        return starts.astype("<u4"), entries.astype("<u8")

    def to_bytes(self) -> bytes:
        """The section `TOKN`."""
        self.check()
        sizes = np.array([len(piece) for piece in self.pieces], np.int64)
        blocks, bpe = {}, self.kind == Kind.BPE
        if bpe:
            blocks["merge_starts"], blocks["merges"] = self._merge_tables()
            blocks = dict(
                reversed(blocks.items())
            )  # 64-bit numbers first, so that all are aligned
        elif self.kind == Kind.SENTENCEPIECE:
            blocks["ranks"] = self.ranks.astype("<u4")
        blocks["piece_offsets"] = np.concatenate([[0], np.cumsum(sizes)]).astype("<u4")
        blocks["sorted"] = self.sorted_ids
        blocks["specials"] = self.special_ids
        blocks["byte_ids"] = self.byte_ids
        blocks["types"] = self.types.astype("u1")
        blocks["pieces"] = np.frombuffer(b"".join(self.pieces), "u1")
        at, offsets = _TOKN.size + bpe * _BPE.size, {"ranks": 0}
        for name, block in blocks.items():
            offsets[name] = at
            at += block.nbytes
        flags = sum(
            bool(name) and getattr(self, name) << bit for bit, name in enumerate(_FLAGS[self.kind])
        )
        header = _TOKN.pack(
            self.kind,
            len(self.pieces),
            self.bos_id,
            self.eos_id,
            self.unk_id,
            flags,
            offsets["pieces"],
            len(blocks["pieces"]),
            offsets["piece_offsets"],
            offsets["ranks"],
            offsets["types"],
            offsets["sorted"],
            len(blocks["sorted"]),
            offsets["byte_ids"],
            offsets["specials"],
            len(blocks["specials"]),
        )
        if bpe:
            header += _BPE.pack(
                self.split,
                offsets["merges"],
                len(self.merges),
                offsets["merge_starts"],
                self.normalizer,
                bytes(12),
            )
        return header + b"".join(block.tobytes() for block in blocks.values())

    @classmethod
    def from_bytes(cls, section: bytes, vocab_size: int, deep: bool = True) -> Tokenizer | None:
        """Check the section `TOKN` and read it.

        Args:
            section: its bytes.
            vocab_size: from the configuration.
            deep: also check every piece, id and table, and return the tokenizer. Otherwise only
                what takes no time is checked and None returned.
        """
        require(len(section) >= _TOKN.size, "TOKN", f"is {len(section)} bytes, below {_TOKN.size}")
        (
            kind,
            n_tokens,
            bos_id,
            eos_id,
            unk_id,
            flags,
            pieces,
            pieces_size,
            piece_offsets,
            ranks,
            types,
            sorted_,
            n_sorted,
            byte_ids,
            specials,
            n_specials,
        ) = _TOKN.unpack_from(section)
        require(kind in list(Kind), "TOKN kind", f"{kind} is unknown to format version 1")
        require(
            n_tokens == vocab_size,
            "n_tokens",
            f"the tokenizer has {n_tokens} tokens, vocab_size is {vocab_size}",
        )
        for name, value in (("bos_id", bos_id), ("eos_id", eos_id), ("unk_id", unk_id)):
            require(-1 <= value < n_tokens, name, f"{value} is not a token of {n_tokens}, nor -1")
        known = sum(bool(name) << bit for bit, name in enumerate(_FLAGS[kind]))
        require(not flags & ~known, "TOKN flags", f"{flags:#x} has reserved bits set")
        require(n_sorted <= n_tokens, "n_sorted", f"{n_sorted} is above n_tokens = {n_tokens}")
        require(
            n_specials <= n_tokens, "n_specials", f"{n_specials} is above n_tokens = {n_tokens}"
        )

        def array(name: str, at: int, count: int, dtype: str) -> np.ndarray:
            item = np.dtype(dtype).itemsize
            require(at % item == 0, name, f"offset {at} is not a multiple of {item}")
            require(
                at + count * item <= len(section),
                name,
                f"{count * item} bytes at {at} end past TOKN ({len(section)} bytes)",
            )
            return np.frombuffer(section, dtype, count, at)

        options: dict[str, object] = {"kind": Kind(kind)}
        text = array("pieces", pieces, pieces_size, "u1")
        ends = array("piece_offsets", piece_offsets, n_tokens + 1, "<u4")
        rank_array = np.empty(0, "<u4")
        merges = starts = None
        if kind == Kind.SENTENCEPIECE:
            rank_array = array("ranks", ranks, n_tokens, "<u4")
        else:
            require(ranks == 0, "ranks", f"is {ranks}, must be 0 for tokenizers of kind {kind}")
        if kind == Kind.BPE:
            size = _TOKN.size + _BPE.size
            require(len(section) >= size, "TOKN", f"is {len(section)} bytes, below {size}")
            split, merges_at, n_merges, merge_starts, normalizer, reserved = _BPE.unpack_from(
                section, _TOKN.size
            )
            require(
                normalizer in list(Normalizer),
                "normalizer",
                f"{normalizer} is unknown to format version 1",
            )
            require(split in list(Split), "split", f"{split} is unknown to format version 1")
            require(not any(reserved), "TOKN reserved", "is not zero")
            merges = array("merges", merges_at, n_merges, "<u8")
            starts = array("merge_starts", merge_starts, n_tokens + 1, "<u4")
            options |= {"split": Split(split), "normalizer": Normalizer(normalizer)}
        type_array = array("types", types, n_tokens, "u1")
        tables = {
            "sorted_ids": array("sorted", sorted_, n_sorted, "<u4"),
            "special_ids": array("specials", specials, n_specials, "<u4"),
            "byte_ids": array("byte_ids", byte_ids, 256, "<u4"),
        }
        if not deep:
            return None

        ends = ends.astype(np.int64)
        require((np.diff(ends) >= 0).all(), "piece_offsets", "do not ascend")
        require(ends[-1] <= pieces_size, "piece_offsets", f"{ends[-1]} is above pieces_size")
        if merges is not None:
            options["merges"] = _read_merges(starts, merges)
        names = _FLAGS[kind]
        for name in {name for known in _FLAGS.values() for name in known} - {"", "cut_at_spaces"}:
            options[name] = name in names and bool(flags >> names.index(name) & 1)
        content = text.tobytes()
        tokenizer = cls(
            [content[a:b] for a, b in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)],
            rank_array,
            type_array,
            bos_id,
            eos_id,
            unk_id,
            **options,
        )
        tokenizer.check()
        for name, got in tables.items():
            # Images of edge-llm before it knew special tokens have none in the table.
            if name == "special_ids" and kind == Kind.SENTENCEPIECE and n_specials == 0:
                continue
            require(
                np.array_equal(got, getattr(tokenizer, name)),
                name.replace("sorted_ids", "sorted").replace("special_ids", "specials"),
                "does not agree with the pieces",
            )
        cut = kind == Kind.SENTENCEPIECE and bool(flags & 8)
        require(not cut or tokenizer.cut_at_spaces, "TOKN flags", "cut_at_spaces is not true")
        return tokenizer


def _read_merges(starts: np.ndarray, entries: np.ndarray) -> np.ndarray:
    """`Tokenizer.merges` from `merge_starts` and `merges`."""
    n = len(entries)
    counts = np.diff(starts.astype(np.int64))
    require(
        starts[0] == 0 and starts[-1] == n and (counts >= 0).all(),
        "merge_starts",
        f"do not ascend from 0 to n_merges = {n}",
    )
    left = np.repeat(np.arange(len(counts), dtype=np.uint64), counts)
    right, joined = entries >> np.uint64(44), entries >> np.uint64(24) & np.uint64(0xFFFFF)
    order = np.argsort(entries & np.uint64(0xFFFFFF), kind="stable")
    ranks = (entries & np.uint64(0xFFFFFF))[order]
    require(np.array_equal(ranks, np.arange(n)), "merges", f"their ranks are not 0 to {n - 1}")
    key = left << np.uint64(20) | right
    require((key[1:] > key[:-1]).all(), "merges", "do not ascend")
    return np.stack([left, right, joined], axis=1)[order].astype(np.uint32)


def alphabet() -> dict[str, int]:
    """The characters by which GPT-2 writes bytes, so that every token is printable, and these."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {
        chr(256 + i): byte for i, byte in enumerate(rest)
    }


_BYTES = alphabet()


def from_bpe(
    tokens: Sequence[str],
    merges: Sequence[str | Sequence[str]],
    types: Sequence[int] | None = None,
    split: str | Split = Split.GPT2,
    *,
    bos_id: int = -1,
    eos_id: int = -1,
    unk_id: int = -1,
    add_bos: bool = False,
    ignore_merges: bool = False,
    normalizer: Normalizer = Normalizer.NONE,
) -> Tokenizer:
    """A byte-level BPE vocabulary from lists, as GGUF's metadata and tokenizer.json have them.

    Args:
        tokens: by id. Normal ones are in GPT-2's alphabet ("Ġthe"), others as text has them.
        merges: by rank, "Ġ t" or ("Ġ", "t"). Of a pair that is there twice, the last counts.
        types: TokenType of each; None: all are normal.
        split: a Split or its name in lower case.
        bos_id, eos_id, unk_id: -1 if there is none. A byte without a token becomes unk_id.
        add_bos: a prompt begins with bos_id.
        ignore_merges: what the split gives is not merged if it is a token already (Llama 3).
        normalizer: what is done to text first (Qwen 2: NFC).

    Raises:
        ValueError: naming the token or the merge that is wrong.
    """
    if isinstance(split, str):
        known = {pattern.name.lower(): pattern for pattern in Split}
        require(split in known, "split", f"no pattern {split!r}, there are {', '.join(known)}")
        split = known[split]
    if types is None:
        types = [TokenType.NORMAL] * len(tokens)
    require(len(types) == len(tokens), "types", f"has {len(types)} entries for {len(tokens)}")
    pieces, ids = [], {}
    for token, (text, kind) in enumerate(zip(tokens, types, strict=True)):
        ids.setdefault(text, token)
        if kind != TokenType.NORMAL:
            pieces.append(text.encode())
            continue
        strange = next((character for character in text if character not in _BYTES), None)
        require(
            strange is None,
            f"token {token}",
            f"{text!r} is no text of byte-level BPE, where {strange!r} stands for no byte",
        )
        pieces.append(bytes(_BYTES[character] for character in text))
    pairs: dict[tuple[int, int], int] = {}
    for rank, merge in enumerate(merges):
        parts = merge.split(" ") if isinstance(merge, str) else list(merge)
        require(len(parts) == 2, f"merge {rank}", f"{merge!r} is no pair of tokens")
        for text in (*parts, "".join(parts)):
            require(text in ids, f"merge {rank}", f"{merge!r}: there is no token {text!r}")
        left, right = (ids[text] for text in parts)
        pairs.pop((left, right), None)
        pairs[left, right] = ids["".join(parts)]
    rows = [(left, right, joined) for (left, right), joined in pairs.items()]
    return Tokenizer(
        pieces,
        np.empty(0, np.uint32),
        np.array(types, np.uint8),
        bos_id,
        eos_id,
        unk_id,
        add_bos=add_bos,
        add_space_prefix=False,
        byte_fallback=False,
        kind=Kind.BPE,
        split=split,
        merges=np.array(rows, np.uint32).reshape(-1, 3),
        ignore_merges=ignore_merges,
        normalizer=normalizer,
    )


def from_wordpiece(
    tokens: Sequence[str],
    types: Sequence[int],
    *,
    lowercase: bool,
    strip_accents: bool,
    bos_id: int = -1,
    eos_id: int = -1,
    unk_id: int = -1,
) -> Tokenizer:
    """A WordPiece vocabulary, as BERT's vocab.txt and tokenizer.json have it.

    Args:
        tokens: by id; those that go on with a word begin with "##".
        types: TokenType of each. Only normal ones are found in words.
        lowercase, strip_accents: what is done to text first.
        bos_id, eos_id: what stands around a text, "[CLS]" and "[SEP]".
        unk_id: what a word becomes that is not of these tokens.
    """
    require(len(types) == len(tokens), "types", f"has {len(types)} entries for {len(tokens)}")
    pieces = []
    for text, kind in zip(tokens, types, strict=True):
        if kind != TokenType.NORMAL:
            pieces.append(text.encode())
        elif text.startswith("##") and len(text) > 2:
            pieces.append(text[2:].encode())
        else:  # words begin with a space, so that pieces in a row are text
            pieces.append(b" " + text.encode())
    return Tokenizer(
        pieces,
        np.empty(0, np.uint32),
        np.array(types, np.uint8),
        bos_id,
        eos_id,
        unk_id,
        add_bos=False,
        add_space_prefix=True,
        byte_fallback=False,
        kind=Kind.WORDPIECE,
        lowercase=lowercase,
        strip_accents=strip_accents,
    )
