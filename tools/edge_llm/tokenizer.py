"""The tokenizer of an image: the section `TOKN` of docs/image-format.md."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from .checks import require

NO_TOKEN = 0xFFFFFFFF

_TOKN = struct.Struct("<IIiiiI8I8s")


class TokenType(IntEnum):
    """What a token is."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    BYTE = 4


@dataclass(frozen=True)
class Tokenizer:
    """A SentencePiece BPE vocabulary: the section `TOKN`.

    What the section holds beyond these fields (`sorted`, `byte_ids`, `cut_at_spaces`) follows from
    them.
    """

    pieces: list[bytes]  # by id
    ranks: np.ndarray  # uint32 [n_tokens], merge priority, lowest first
    types: np.ndarray  # uint8 [n_tokens], TokenType
    bos_id: int = -1
    eos_id: int = -1
    unk_id: int = -1
    add_bos: bool = True
    add_space_prefix: bool = True
    byte_fallback: bool = True

    @property
    def sorted_ids(self) -> np.ndarray:
        """uint32: ids of the normal pieces by their bytes, the lowest id of equal ones."""
        normal = np.flatnonzero(self.types == TokenType.NORMAL).tolist()
        first: dict[bytes, int] = {}
        for token in normal:
            first.setdefault(self.pieces[token], token)
        return np.array([first[piece] for piece in sorted(first)], "<u4")

    @property
    def byte_ids(self) -> np.ndarray:
        """uint32 [256]: the token of each byte, NO_TOKEN where there is none."""
        ids = np.full(256, NO_TOKEN, "<u4")
        for token in np.flatnonzero(self.types == TokenType.BYTE)[::-1].tolist():
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
        require(len(self.ranks) == n, "ranks", f"has {len(self.ranks)} entries for {n} tokens")
        require(len(self.types) == n, "types", f"has {len(self.types)} entries for {n} tokens")
        for field in ("bos_id", "eos_id", "unk_id"):
            value = getattr(self, field)
            require(-1 <= value < n, field, f"{value} is not a token of {n}, nor -1")
        for token, kind in enumerate(self.types.tolist()):
            require(1 <= kind <= 4, "types", f"token {token} is of the unknown type {kind}")
            if kind == TokenType.BYTE:
                size = len(self.pieces[token])
                require(size == 1, "pieces", f"byte token {token} has {size} bytes")

    def to_bytes(self) -> bytes:
        """The section `TOKN`."""
        self.check()
        sizes = np.array([len(piece) for piece in self.pieces], np.int64)
        sorted_ids = self.sorted_ids
        blocks = {
            "piece_offsets": np.concatenate([[0], np.cumsum(sizes)]).astype("<u4").tobytes(),
            "ranks": self.ranks.astype("<u4").tobytes(),
            "sorted": sorted_ids.tobytes(),
            "byte_ids": self.byte_ids.tobytes(),
            "types": self.types.astype("u1").tobytes(),
            "pieces": b"".join(self.pieces),
        }
        at, offsets = _TOKN.size, {}
        for name, block in blocks.items():  # the u32 arrays come first, so all are aligned
            offsets[name] = at
            at += len(block)
        flags = (
            self.add_bos
            | self.add_space_prefix << 1
            | self.byte_fallback << 2
            | self.cut_at_spaces << 3
        )
        header = _TOKN.pack(
            1,
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
            len(sorted_ids),
            offsets["byte_ids"],
            bytes(8),
        )
        return header + b"".join(blocks.values())

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
            reserved,
        ) = _TOKN.unpack_from(section)
        require(kind == 1, "TOKN kind", f"{kind} is unknown to format version 1")
        require(
            n_tokens == vocab_size,
            "n_tokens",
            f"the tokenizer has {n_tokens} tokens, vocab_size is {vocab_size}",
        )
        for field, value in (("bos_id", bos_id), ("eos_id", eos_id), ("unk_id", unk_id)):
            require(-1 <= value < n_tokens, field, f"{value} is not a token of {n_tokens}, nor -1")
        require(flags <= 15, "TOKN flags", f"{flags:#x} has reserved bits set")
        require(not any(reserved), "TOKN reserved", "is not zero")
        require(n_sorted <= n_tokens, "n_sorted", f"{n_sorted} is above n_tokens = {n_tokens}")

        def array(field: str, at: int, count: int, dtype: str) -> np.ndarray:
            item = np.dtype(dtype).itemsize
            require(at % item == 0, field, f"offset {at} is not a multiple of {item}")
            require(
                at + count * item <= len(section),
                field,
                f"{count * item} bytes at {at} end past TOKN ({len(section)} bytes)",
            )
            return np.frombuffer(section, dtype, count, at)

        text = array("pieces", pieces, pieces_size, "u1").tobytes() if deep else b""
        array("pieces", pieces, pieces_size, "u1")
        ends = array("piece_offsets", piece_offsets, n_tokens + 1, "<u4").astype(np.int64)
        rank_array = array("ranks", ranks, n_tokens, "<u4")
        type_array = array("types", types, n_tokens, "u1")
        sorted_array = array("sorted", sorted_, n_sorted, "<u4")
        byte_array = array("byte_ids", byte_ids, 256, "<u4")
        if not deep:
            return None

        require((np.diff(ends) >= 0).all(), "piece_offsets", "do not ascend")
        require(ends[-1] <= pieces_size, "piece_offsets", f"{ends[-1]} is above pieces_size")
        tokenizer = cls(
            [text[a:b] for a, b in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)],
            rank_array,
            type_array,
            bos_id,
            eos_id,
            unk_id,
            bool(flags & 1),
            bool(flags & 2),
            bool(flags & 4),
        )
        tokenizer.check()
        for field, got, want in (
            ("sorted", sorted_array, tokenizer.sorted_ids),
            ("byte_ids", byte_array, tokenizer.byte_ids),
        ):
            require(np.array_equal(got, want), field, "does not agree with the pieces")
        cut = bool(flags & 8)
        require(not cut or tokenizer.cut_at_spaces, "TOKN flags", "cut_at_spaces is not true")
        return tokenizer
