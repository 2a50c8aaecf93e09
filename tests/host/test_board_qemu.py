"""The emulated board itself: memory, faults, clock, files in flash, and `Board` that runs it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from qemu import FIRMWARE, Board, BoardError

RAM = range(0x20000000, 0x20000000 + 512 * 1024)
QEMU_PY = Path(sys.modules["qemu"].__file__ or "")


def test_ram_is_512_kb_in_all() -> None:
    with FIRMWARE.open("rb") as file:
        elf = ELFFile(file)
        symbols = {
            s.name: s["st_value"] for s in elf.get_section_by_name(".symtab").iter_symbols()
        }
        sections = [
            range(s["sh_addr"], s["sh_addr"] + s["sh_size"])
            for s in elf.iter_sections()
            if s["sh_flags"] & SH_FLAGS.SHF_ALLOC and s["sh_size"]
        ]
    in_ram = [s for s in sections if s.start >= RAM.start]
    assert len(in_ram) == 3  # stack, data, bss
    assert all(s[0] in RAM and s[-1] < symbols["_heap_start"] for s in in_ram)
    assert symbols["_estack"] - RAM.start == symbols["_stack_size"] == 24 * 1024
    assert symbols["_heap_end"] == RAM.stop
    assert symbols["_heap_end"] - symbols["_heap_start"] >= 450 * 1024


def test_heap_holds_one_block_of_250_kb(board: Board) -> None:
    script = (
        "import gc; b = bytearray(250 * 1024); b[-1] = 7; print(len(b), gc.mem_free() > 100000)"
    )
    assert board.run(script) == "256000 True\n"


def test_deep_recursion_is_an_exception(board: Board) -> None:
    with pytest.raises(BoardError, match="RuntimeError: maximum recursion depth exceeded"):
        board.run("def f(n):\n    return f(n + 1)\nf(0)")
    assert board.run("print('alive')") == "alive\n"


@pytest.mark.parametrize(
    ("what", "script"),
    [
        ("null pointer", "import machine; machine.mem32[0]"),
        ("code overwritten", "import machine; machine.mem32[0x1000] = 0"),
        ("beyond the RAM", "import machine; machine.mem32[0x20080000]"),
        (
            "The stack overflowed",
            "@micropython.asm_thumb\ndef f():\n    label(L)\n    push({r0, r1})\n    b(L)\nf()",
        ),
    ],
)
def test_bad_access_is_a_visible_fault(what: str, script: str) -> None:
    with Board() as board:
        with pytest.raises(BoardError) as error:
            board.run(script)
        assert "FATAL: CPU fault" in str(error.value)
        assert "PC 0" in str(error.value) or what in str(error.value)
        assert board.wait(5) == 1


def test_modules(board: Board) -> None:
    names = "array asyncio binascii gc hashlib json machine os select struct time uctypes vfs"
    board.run("".join(f"import {name}\n" for name in names.split()))
    assert board.run(
        "import hashlib, binascii; print(binascii.hexlify(hashlib.sha256(b'').digest())[:8])"
    ) == ("b'e3b0c442'\n")
    assert "QEMU_M7" in board.run("help()")


def test_hard_float(board: Board) -> None:
    assert board.run("import math; print(math.sqrt(2.0), 1e30 * 1e9, 7 / 3)") == (
        "1.414214 inf 2.333333\n"
    )


def test_rom_is_read_in_place(board: Board, romfs: Path) -> None:
    script = """
import os, uctypes
view = memoryview(open("/rom/data.bin", "rb"))
print(os.listdir("/rom"), len(view), bytes(view) == bytes(range(256)) * 4, uctypes.addressof(view))
from answer import ANSWER
print(ANSWER, open("/rom/hello.txt").read())
"""
    first, second, _ = board.run(script).split("\n", 2)
    listing, address = first.rsplit(" ", 1)
    assert sorted(eval(listing.split("]")[0] + "]")) == ["answer.py", "data.bin", "hello.txt"]
    assert listing.endswith(" 1024 True")
    assert int(address) == 0x60000000 + romfs.read_bytes().index(bytes(range(256)) * 4)
    assert second == "42 hello from ROM"


def test_without_image_there_is_no_rom() -> None:
    with Board() as board:
        assert board.run("import os; print(os.listdir('/'))") == "[]\n"


def test_image_too_large_or_empty(tmp_path: Path) -> None:
    image = tmp_path / "a.romfs"
    for size in (0, (14 << 20) + 1):
        with image.open("wb") as file:
            file.truncate(size)
        with pytest.raises(BoardError, match=f"{size} bytes"):
            Board(image)


def test_files_are_kept_over_resets(board: Board) -> None:
    board.run("open('a', 'w').write('kept')\nimport machine")
    with pytest.raises(BoardError):  # the machine resets under the script: no answer comes
        board.run("import machine; machine.reset()", seconds=0.5)
    assert board.run("print(open('a').read())") == "kept\n"
    assert board.run("import os; s = os.statvfs('/'); print(s[0] * s[2])") == f"{2 << 20}\n"


COUNT = """
import time
def work(n):
    s = 0
    for i in range(n):
        s ^= i
    return s
def count(n):
    start = time.ticks_cpu()
    work(n)
    return time.ticks_diff(time.ticks_cpu(), start)
count(1)
print(count(0), count(1000), count(1000), count(2000))
"""


def test_ticks_cpu_counts_instructions() -> None:
    with Board(icount=True) as board:
        nothing, once, again, twice = map(int, board.run(COUNT).split())
    assert nothing % 40 == once % 40 == 0  # the timer ticks every 40 instructions
    assert abs(once - again) <= 40
    assert 100_000 < once < 1_000_000
    assert abs((twice - nothing) - 2 * (once - nothing)) < 2 * (once - nothing) * 0.02


def test_sleep_and_time(board: Board) -> None:
    script = """
from time import sleep_ms, ticks_diff, ticks_us, time
start = ticks_us()
sleep_ms(50)
print(ticks_diff(ticks_us(), start), time())
"""
    slept, now = map(int, board.run(script).split())
    assert 50_000 <= slept < 5_000_000
    assert abs(now - time.time()) < 60


def test_output_streams(board: Board) -> None:
    seen: list[tuple[float, bytes]] = []
    board.run(
        "import time\nfor i in range(3):\n    print(i)\n    time.sleep_ms(200)",
        output=lambda data: seen.append((time.monotonic(), data)),
    )
    assert b"".join(data for _, data in seen).startswith(b"0\r\n1\r\n2\r\n")
    assert seen[-1][0] - seen[0][0] > 0.3


def test_silence_is_an_error(board: Board) -> None:
    with pytest.raises(BoardError, match="timeout"):
        board.run("while True: pass", seconds=1)
    assert board.run("print('alive')") == "alive\n"


def test_run_command(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("print(name * int(times))\nraise ValueError(name)\n")
    for options in ([], ["--brief"]):
        done = subprocess.run(
            [sys.executable, QEMU_PY, "run", *options, script, "name=x y", "times=2"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.stdout == "x yx y\n"
        assert done.returncode == 1
        if options:
            assert done.stderr == "x y\n"
        else:
            assert 'File "<stdin>", line 2' in done.stderr
            assert done.stderr.endswith("ValueError: x y\n")


def test_qemu_ends_with_its_starter() -> None:
    starter = subprocess.Popen(
        [sys.executable, QEMU_PY, "board"], stdout=subprocess.PIPE, text=True
    )
    assert starter.stdout is not None
    mpremote, *arguments = starter.stdout.readline().split()
    assert os.access(mpremote, os.X_OK)
    assert arguments[0] == "connect" and arguments[1].startswith("/dev/pts/")
    child = Path(f"/proc/{starter.pid}/task/{starter.pid}/children").read_text().split()[0]
    assert b"qemu-system-arm" in Path(f"/proc/{child}/cmdline").read_bytes()
    starter.send_signal(signal.SIGKILL)
    starter.wait()
    starter.stdout.close()
    end = time.monotonic() + 5
    while time.monotonic() < end and os.path.exists(f"/proc/{child}/cmdline"):
        if not Path(f"/proc/{child}/cmdline").read_bytes():
            break  # ended, not yet reaped
        time.sleep(0.05)
    else:
        assert not os.path.exists(f"/proc/{child}"), "QEMU outlived the program that started it"


def test_unix_port_mounts_romfs(unix: Callable[..., str], romfs: Path) -> None:
    script = """
import uctypes, vfs
image = open(path, "rb").read()
vfs.mount(vfs.VfsRom(image), "/rom")
view = memoryview(open("/rom/data.bin", "rb"))
print(uctypes.addressof(view) - uctypes.addressof(image), len(view))
"""
    offset = romfs.read_bytes().index(bytes(range(256)) * 4)
    assert unix(script, path=str(romfs)) == f"{offset} 1024\n"
