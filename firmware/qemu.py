"""The emulated board QEMU_M7: starts QEMU with the firmware and runs code on it.

As a program (`qemu.py --help`) it gives the board's REPL, serves the board to `mpremote`, or runs
a script; tests and other programs use `Board`.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FIRMWARE = ROOT / "build" / "qemu_m7" / "firmware.elf"
ROMFS_ADDRESS = 0x60000000
ROMFS_SIZE = 14 << 20


class BoardError(Exception):
    """The board did not start, crashed, did not answer in time, or a script raised."""


class ScriptError(BoardError):
    """A script raised; the text is its traceback."""

    @property
    def message(self) -> str:
        """The last line, without the name of the exception."""
        return re.sub(r"^\w+: ", "", str(self).splitlines()[-1])


class Board:
    """One emulated board, a context manager: QEMU ends with the block, or with this process.

    `port` is the pty for `mpremote connect`. `romfs` is a ROMFS image of at most 14 MB, put at
    0x60000000. With `icount` an instruction takes 1 ns of virtual time, so that `time.ticks_cpu()`
    counts instructions and `time.ticks_us()` thousands of them, whatever the host does. `options`
    are further ones for QEMU.

    Raises `BoardError` when QEMU does not start.
    """

    def __init__(
        self,
        romfs: Path | None = None,
        icount: bool = False,
        firmware: Path = FIRMWARE,
        options: Sequence[str] = (),
    ) -> None:
        if not firmware.is_file():
            raise BoardError(f"no firmware at {firmware}: run `make firmware`")
        command = ["qemu-system-arm", "-M", "mps2-an500", "-nographic", "-monitor", "none"]
        command += ["-serial", "pty", "-semihosting", "-kernel", str(firmware)]
        if romfs is not None:
            if not 0 < romfs.stat().st_size <= ROMFS_SIZE:
                size = romfs.stat().st_size
                raise BoardError(f"{romfs} has {size} bytes; a ROMFS image has 1 to {ROMFS_SIZE}")
            file = str(romfs).replace(",", ",,")
            command += ["-device", f"loader,file={file},addr={ROMFS_ADDRESS:#x},force-raw=on"]
        if icount:
            command += ["-icount", "shift=0"]
        command += options
        self._held = -1
        self._qemu = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for the board, or for us
            preexec_fn=_die_with_parent,
        )
        try:
            self.port = self._find_port(seconds=10)
            # QEMU looks once a second whether anyone has opened the pty. Held open, it is at once.
            self._held = os.open(self.port, os.O_RDWR | os.O_NOCTTY)
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Board:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _find_port(self, seconds: float) -> str:
        """Returns the pty that QEMU names in its output."""
        assert self._qemu.stdout is not None
        output = b""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if select.select([self._qemu.stdout], [], [], 0.1)[0]:
                chunk = self._qemu.stdout.read1(4096)  # type: ignore[attr-defined]
                if not chunk:
                    break
                output += chunk
                match = re.search(rb"redirected to (\S+)", output)
                if match:
                    return match[1].decode()
        raise BoardError(f"QEMU did not start: {output.decode(errors='replace').strip()}")

    def stop(self) -> None:
        """Ends QEMU. May be called again."""
        self._qemu.kill()
        self._qemu.wait()
        if self._held >= 0:
            os.close(self._held)
            self._held = -1
        if self._qemu.stdout is not None:
            self._qemu.stdout.close()

    def wait(self, seconds: float | None = None) -> int | None:
        """Waits until QEMU ends by itself; returns its status, or None after `seconds`."""
        try:
            return self._qemu.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def crash(self) -> str:
        """Returns the last words of a firmware that crashed, or "" when it runs."""
        if self.wait(0.2) in (None, 0):
            return ""
        assert self._qemu.stdout is not None
        return "the firmware crashed: " + self._qemu.stdout.read().decode(errors="replace").strip()

    def run(
        self,
        script: str,
        seconds: float = 60,
        output: Callable[[bytes], object] | None = None,
        **variables: object,
    ) -> str:
        """Runs `script` on the board, from a soft reset, with `variables` as its globals.

        Returns what it printed, or passes it on to `output` as it comes and returns "".
        `seconds` is the longest silence. Raises `BoardError`; `ScriptError` when the script
        raises.
        """
        from mpremote.transport import TransportError
        from mpremote.transport_serial import SerialTransport
        from serial import SerialException

        lines = "".join(f"{name} = {value!r}\n" for name, value in variables.items())
        try:
            transport: Any = SerialTransport(self.port, timeout=1)
            try:
                transport.enter_raw_repl(timeout_overall=20)
                printed, error = transport.exec_raw(lines + script, seconds, output)
                transport.exit_raw_repl()
            finally:
                transport.close()
        except (TransportError, SerialException, OSError) as exc:
            raise BoardError(self.crash() or str(exc)) from exc
        if error:
            raise ScriptError(_own_lines(error.decode(errors="replace"), lines.count("\n")))
        return "" if output else printed.decode().replace("\r\n", "\n")


def _die_with_parent() -> None:
    """Asks Linux to kill this process when its parent ends, however that comes about."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _own_lines(traceback: str, shift: int) -> str:
    """Corrects the line numbers of a traceback for `shift` lines put before the script."""
    return re.sub(
        r'(File "<stdin>", line )(\d+)',
        lambda match: match[1] + str(int(match[2]) - shift),
        traceback.replace("\r\n", "\n").strip(),
    )


def _setting(text: str) -> tuple[str, str]:
    """Parses NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def _print_bytes(data: bytes) -> None:
    """Writes what the board prints at once, byte for byte but for its carriage returns."""
    sys.stdout.buffer.write(data.replace(b"\r", b"").replace(b"\x04", b""))
    sys.stdout.buffer.flush()


def main(argv: list[str] | None = None) -> int:
    """Runs the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description="The emulated board QEMU_M7.")
    parser.add_argument("--romfs", type=Path, help="ROMFS image to put at 0x60000000")
    parser.add_argument(
        "--icount", action="store_true", help="make virtual time count instructions"
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("repl", help="the board's REPL in this terminal")
    commands.add_parser("board", help="serve the board to mpremote until Ctrl-C")
    run = commands.add_parser("run", help="run a script; status 1 when it raises")
    run.add_argument("script", type=Path)
    run.add_argument(
        "settings",
        nargs="*",
        type=_setting,
        metavar="NAME=VALUE",
        help="a string that the script finds under NAME",
    )
    run.add_argument(
        "--brief", action="store_true", help="of what the script raises print the message only"
    )
    run.add_argument("--seconds", type=float, default=300, help="longest silence (%(default)s)")
    args = parser.parse_args(argv)
    try:
        with Board(args.romfs, args.icount) as board:
            if args.command == "repl":
                repl = [sys.executable, "-m", "mpremote", "connect", board.port, "repl"]
                status = subprocess.call(repl)
                if crash := board.crash():
                    raise BoardError(crash)
                return status
            if args.command == "board":
                mpremote = os.path.relpath(Path(sys.executable).with_name("mpremote"))
                print(f"{mpremote} connect {board.port}   (Ctrl-C ends the board)", flush=True)
                with contextlib.suppress(KeyboardInterrupt):
                    board.wait()
                    raise BoardError(board.crash() or "QEMU ended")
                return 0
            script = args.script.read_text()
            board.run(script, args.seconds, _print_bytes, **dict(args.settings))
            return 0
    except (BoardError, OSError) as error:
        brief = isinstance(error, ScriptError) and args.brief
        print(error.message if brief else error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
