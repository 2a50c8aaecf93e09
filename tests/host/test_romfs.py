"""ROMFS images: alignment, structure, and that MicroPython's own VfsRom mounts them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from edge_llm.romfs import read_romfs, write_romfs
from hypothesis import given, settings
from hypothesis import strategies as st
from mpremote.romfs import make_romfs

Files = dict[str, bytes]


def lay_out(folder: Path, files: Files) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def contents(image: bytes) -> Files:
    return {
        name: image[offset : offset + size]
        for name, (offset, size) in read_romfs(image).items()
        if not name.endswith("/")
    }


@given(
    files=st.dictionaries(
        st.sampled_from(["a", "b.llm", "d/x", "d/e/y", "d/e/" + "n" * 200, "z/é.txt"]),
        st.binary(max_size=300) | st.just(bytes(70_000)),
        min_size=1,
    )
)
@settings(max_examples=60, deadline=None)
def test_every_file_is_there_and_aligned(files: Files, tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("romfs")
    lay_out(folder / "in", files)
    inputs = sorted((folder / "in").iterdir())
    size = write_romfs(folder / "out.romfs", inputs)
    image = (folder / "out.romfs").read_bytes()
    assert len(image) == size and size % 2 == 0
    assert contents(image) == files
    for name, (offset, _) in read_romfs(image).items():
        assert name.endswith("/") or offset % 64 == 0


def test_a_model_gets_little_padding(tmp_path: Path) -> None:
    (tmp_path / "m.llm").write_bytes(bytes(100_000))
    assert write_romfs(tmp_path / "out", [tmp_path / "m.llm"]) <= 100_000 + 64


def test_the_reader_reads_what_mpremote_builds(tmp_path: Path) -> None:
    files = {"a.txt": b"hello", "d/e.bin": bytes(1000), "empty": b""}
    lay_out(tmp_path / "in", files)
    image = make_romfs(str(tmp_path / "in"), mpy_cross=False)
    assert contents(image) == files


def test_the_reader_follows_indirect_data() -> None:
    # A file "f" whose record points at 3 bytes, 11 after the start of the payload.
    record = bytes([5, 6, 1]) + b"f" + bytes([3, 2, 3, 11]) + bytes([2, 4]) + b"-abc"
    image = b"\xd2\xcd\x31" + bytes([len(record)]) + record
    assert contents(image) == {"f": b"abc"}


@pytest.mark.parametrize(
    ("image", "what"),
    [
        (b"", "not a ROMFS image"),
        (b"\xd2\xcd\x32\0", "not a ROMFS image"),
        (b"\xd2\xcd\x31", "truncated"),
        (b"\xd2\xcd\x31\x05\x01\x00", "truncated"),
        (b"\xd2\xcd\x31\x02\x00\x00", "damaged: a record of kind 0"),
        (b"\xd2\xcd\x31\x02\x05\x09", "damaged"),
        (b"\xd2\xcd\x31\x04\x05\x02\x01f", "a file without data"),
    ],
)
def test_damage_is_refused(image: bytes, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        read_romfs(image)


def test_two_inputs_of_one_name_are_refused(tmp_path: Path) -> None:
    lay_out(tmp_path, {"a/m.llm": b"1", "b/m.llm": b"2"})
    with pytest.raises(ValueError, match="two inputs called m.llm"):
        write_romfs(tmp_path / "out", [tmp_path / "a" / "m.llm", tmp_path / "b" / "m.llm"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_a_missing_input_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError) as raised:
        write_romfs(tmp_path / "out", [tmp_path / "nothing"])
    assert raised.value.filename == str(tmp_path / "nothing")


VFS = """
import hashlib, os, uctypes, vfs
with open(path, "rb") as f:
    image = f.read()
base = uctypes.addressof(image)
vfs.mount(vfs.VfsRom(image), "/r")
def walk(folder):
    for name, kind, *_ in os.ilistdir(folder):
        full = folder + "/" + name
        if kind == 0x4000:
            walk(full)
        else:
            with open(full, "rb") as f:
                view = memoryview(f)
                digest = hashlib.sha256(view).digest().hex()
                print(full[2:], len(view), (uctypes.addressof(view) - base) % 64, digest)
walk("/r")
"""


def test_vfsrom_mounts_it(tmp_path: Path, unix: Callable[..., str]) -> None:
    files = {
        "m.llm": bytes(range(256)) * 300,
        "d/deep/er/n.bin": b"n" * 131,
        "d/x.py": b"print(1)\n",
        "empty": b"",
    }
    lay_out(tmp_path / "in", files)
    write_romfs(tmp_path / "out", sorted((tmp_path / "in").iterdir()))
    lines = unix(VFS, path=str(tmp_path / "out")).splitlines()
    assert sorted(lines) == sorted(
        f"/{name} {len(content)} 0 {hashlib.sha256(content).hexdigest()}"
        for name, content in files.items()
    )
