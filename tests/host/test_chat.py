"""`llm.chat` as someone sees it: keys typed at a terminal emulator, and what is on its screen."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
import tty
import unicodedata
from collections.abc import Callable, Iterator
from fcntl import ioctl
from pathlib import Path

import pyte
import pytest
from edge_llm import engine
from edge_llm.romfs import write_romfs
from mpremote.transport_serial import SerialTransport
from qemu import Board

ROOT = Path(__file__).resolve().parents[2]
VECTORS = ROOT / "tests" / "vectors"
MODEL = VECTORS / "tiny-int4.llm"
ON_CPYTHON = "import sys, edge_llm.llm; sys.modules['llm'] = edge_llm.llm\n"

UP, DOWN, RIGHT, LEFT = "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D"
HOME, END, DELETE = "\x1b[H", "\x1b[F", "\x1b[3~"


class Person:
    """Sits at a terminal: types, and waits for what is to appear."""

    def __init__(self, read: Callable[[], bytes], write: Callable[[bytes], object]) -> None:
        self._read, self._write = read, write
        self.screen = pyte.Screen(80, 60)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = b""

    def type(self, text: str) -> None:
        self._write(text.encode())

    def look(self) -> None:
        """Reads what has come."""
        data = self._read()
        self.raw += data
        self._stream.feed(data)

    def lines(self) -> list[str]:
        """The lines of the screen, without the empty ones at its end."""
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip().split("\n")

    def wait(self, done: Callable[[], bool], seconds: float = 20) -> None:
        """Looks until `done`."""
        end = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < end, "\n".join(self.lines())
            self.look()

    def wait_prompt(self, typed: str = "") -> None:
        """Waits until the last line is the prompt, with `typed` after it."""
        self.wait(lambda: self.lines()[-1] == f"> {typed}".rstrip())

    def say(self, text: str) -> list[str]:
        """Types a line and Enter; returns the lines of the answer."""
        self.wait_prompt()
        n = len(self.lines())
        self.type(text)
        self.wait_prompt(text)
        self.type("\r")
        self.wait(lambda: len(self.lines()) > n and self.lines()[-1] == ">")
        return self.lines()[n:-1]


def read_fd(fd: int) -> bytes:
    if not select.select([fd], [], [], 0.1)[0]:
        return b""
    try:
        return os.read(fd, 4096)
    except OSError:  # the other end is closed
        return b""


# A model that answers with a checksum of what it was told: short, since its context is.
ECHO = """
import llm, time
class Echo(llm.Model):
    def encode(self, text, bos=None):
        checksum = sum([(i + 1) * ord(char) for i, char in enumerate(text)]) % 65536
        self.answer = list((b"%04x" % checksum) * REPEAT)
        return super().encode("a", bos)
    def sample(self, sampler):
        super().sample(sampler)
        time.sleep(SLOWLY)
        return 3 + self.answer.pop(0) if self.answer else self.eos_id
with open({model!r}, "rb") as file:
    model = Echo(file.read())
"""


def source(arguments: str, policy: str = "slide") -> str:
    """A program that chats with a model."""
    opening = f"import llm\nmodel = llm.load({str(MODEL)!r}, policy={policy!r})\n"
    return opening + f"llm.chat(model, STREAM, {arguments})\nprint('ended')\n"


def echo(slowly: float = 0, repeat: int = 1) -> str:
    """A program that chats with the model above: seconds a token, times the answer."""
    opening = f"SLOWLY, REPEAT = {slowly}, {repeat}\n" + ECHO.format(model=str(MODEL))
    arguments = "max_tokens=None"
    return opening + f"llm.chat(model, STREAM, {arguments})\nprint('ended')\n"


def command(port: str, program: str) -> list[str]:
    if port == "cpython":
        return [
            sys.executable,
            "-c",
            ON_CPYTHON + "UNBUFFERED = {'buffering': 0}\nSTREAM = None\n" + program,
        ]
    path = ROOT / "build" / port / "micropython"
    if not path.is_file():
        pytest.fail(f"no {path}: run `make {port}`")
    return [str(path), "-c", "UNBUFFERED = {}\nSTREAM = None\n" + program]


@contextlib.contextmanager
def at_a_terminal(arguments: list[str], folder: Path) -> Iterator[Person]:
    """A person at the terminal of a program; the program must end well."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execv(arguments[0], arguments)
    ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 60, 80, 0, 0))
    person = Person(lambda: read_fd(fd), lambda data: os.write(fd, data))
    try:
        yield person
        end = time.monotonic() + 10
        while (done := os.waitpid(pid, os.WNOHANG))[0] == 0:
            assert time.monotonic() < end, person.lines()
            person.look()
        person.look()
        assert done[1] == 0, person.lines()
        pid = 0
    finally:
        if pid:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
        os.close(fd)


@contextlib.contextmanager
def at_a_serial_line(port: str, program: str, folder: Path) -> Iterator[Person]:
    """A person at the other end of a serial line that a program has opened."""
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    program = program.replace("STREAM", f"open({os.ttyname(theirs)!r}, 'r+b', **UNBUFFERED)")
    with subprocess.Popen(
        command(port, program), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd=folder
    ) as process:
        try:
            person = Person(lambda: read_fd(ours), lambda data: os.write(ours, data))
            yield person
            assert process.wait(10) == 0
            person.look()
            assert process.stdout is not None and process.stdout.read() == b"ended\n"
        finally:
            process.kill()
    os.close(theirs)
    os.close(ours)


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    rom = tmp_path_factory.mktemp("rom") / "rom.romfs"
    write_romfs(rom, [MODEL])
    with Board(rom) as board:
        yield board


@contextlib.contextmanager
def at_the_board(board: Board, program: str) -> Iterator[Person]:
    """A person at the REPL of the emulated board."""
    transport = SerialTransport(board.port, timeout=1)
    try:
        transport.enter_raw_repl(timeout_overall=20)
        transport.exec_raw_no_follow("STREAM = None\n" + program.replace(str(VECTORS), "/rom"))
        transport.serial.timeout = 0.1

        def read() -> bytes:
            data = transport.serial.read(max(1, transport.serial.in_waiting))
            return data.replace(b"\x04", b"")

        person = Person(read, transport.serial.write)
        yield person
        shown, error = transport.follow(10)
        person._stream.feed(shown)
        assert error == b"", error
        transport.exit_raw_repl()
    finally:
        transport.close()


@contextlib.contextmanager
def at_a_uart_of_the_board(program: str, folder: Path) -> Iterator[Person]:
    """A person at the other end of machine.UART(1) of an emulated board."""
    rom = folder / "rom.romfs"
    write_romfs(rom, [MODEL])
    program = "import machine\nSTREAM = machine.UART(1)\n" + program.replace(str(VECTORS), "/rom")
    with (
        Board(rom, options=["-serial", f"unix:{folder}/line,server=on,wait=off"]) as board,
        socket.socket(socket.AF_UNIX) as line,
    ):
        board.run("")  # QEMU has made the socket by now
        line.connect(f"{folder}/line")
        printed: list[str] = []
        other_end = threading.Thread(target=lambda: printed.append(board.run(program)))
        other_end.start()
        yield Person(lambda: read_fd(line.fileno()), line.sendall)
        other_end.join(20)
    assert printed == ["ended\n"]


RUNTIMES = ["cpython", "unix", "board", "unix-serial"]


@pytest.fixture(params=RUNTIMES)
def chat(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., object]:
    """chat(program): a person at a program that chats, everywhere."""
    port, _, serial = request.param.partition("-serial")

    def start(program: str) -> object:
        if port == "board-uart":
            return at_a_uart_of_the_board(program, tmp_path)
        if port == "board":
            return at_the_board(request.getfixturevalue("device"), program)
        if request.param.endswith("-serial"):
            return at_a_serial_line(port, program, tmp_path)
        return at_a_terminal(command(port, program), tmp_path)

    return start


def conversation(texts: list[str], n_tokens: int, **settings: float) -> list[str]:
    """What a model answers, by the engine alone: every text goes on where the last one ended."""
    model = engine.Model(MODEL.read_bytes())
    sampler = engine.Sampler(**settings)
    answers = []
    token = None
    for text in texts:
        if token is not None:
            model.eval(token)
        if text:
            model.eval(model.encode(text, bos=model.n_tokens == 0))
        decoder = engine.Decoder(model, start=False)
        answer = ""
        for i in range(n_tokens):
            if i > 0:
                model.eval(token)
            token = model.sample(sampler)
            if token in (model.bos_id, model.eos_id):
                break
            answer += decoder.feed(token)
        answers.append(answer + decoder.finish())
    return answers


def shown(text: str) -> str:
    """What a screen shows of a text."""
    screen = pyte.Screen(80, 60)
    pyte.Stream(screen).feed(text.replace("\n", "\r\n"))
    return "\n".join(line.rstrip() for line in screen.display).rstrip()


@pytest.mark.parametrize(
    "chat", [*RUNTIMES, "unix-asan", "cpython-serial", "board-uart"], indirect=True
)
def test_a_conversation_is_one_text(chat: Callable[..., object]) -> None:
    texts = ["then the hen", "", "the", "on the"]
    want = conversation(texts, 9, temperature=1.2, seed=4)
    assert len(set(want)) == 4
    with chat(source("temperature=1.2, seed=4, max_tokens=9")) as person:
        for text, answer in zip(texts, want, strict=True):
            assert "\n".join(person.say(text)).rstrip() == shown(answer)
        person.type("\x04")


def told(text: str) -> list[str]:
    """What Echo answers to `text`."""
    return [f"{sum((i + 1) * ord(char) for i, char in enumerate(text)) % 65536:04x}"]


# What is typed, the line on the screen, and the column of the cursor in it.
EDITS = [
    ("abc", "abc", 3),
    ("abc" + LEFT + "d", "abdc", 3),
    ("abc" + LEFT * 9 + "d" + RIGHT + "e", "daebc", 3),
    ("abc" + RIGHT + "d", "abcd", 4),
    ("abc" + HOME + "d" + END + "e", "dabce", 5),
    ("abc\x01d\x05e", "dabce", 5),
    ("abc\x1b[1~d\x1b[4~e\x1b[7~f\x1b[8~g\x1bOHh\x1bOFi", "hfdabcegi", 9),
    ("abc\x02\x02\x06d", "abdc", 3),
    ("abc\x7f\x08d", "ad", 2),
    ("abc" + HOME + "\x7f" + DELETE + "\x04", "c", 0),
    ("abc" + DELETE, "abc", 3),
    ("abc def" + LEFT * 3 + "\x0b", "abc", 4),
    ("abc def" + LEFT * 3 + "\x15", "def", 0),
    ("abc  def\x17", "abc", 5),
    ("abc  def \x17\x17", "", 0),
    ("a\tb\x07\x1b[5~\x1bx\x1b[1;5Cc", "a bc", 4),  # keys without a meaning
    ("é語😀" + LEFT + "x", "é語x😀", 4),
    ("e\u0301x" + LEFT + "y", "e\u0301yx", 2),
    ("語語" + HOME + DELETE + END + "z", "語z", 3),
    ("a" * 76 + "b", "a" * 76 + "b", 77),
    ("a" * 76 + "bc", "a" * 75 + "bc", 77),  # more than fits: the end is shown
    ("a" * 100 + "b" + HOME, "a" * 77, 0),
    ("a" * 100 + "b" + HOME + RIGHT * 80, "a" * 77, 77),
    ("語" * 40 + "x" + HOME, "語" * 38, 0),
]


def test_editing(chat: Callable[..., object]) -> None:
    with chat(echo()) as person:
        person.wait_prompt()
        row = len(person.lines()) - 1
        for typed, line, column in EDITS:
            person.type(typed)

            def done(line: str = line, column: int = column) -> bool:
                cursor = person.screen.cursor
                shown = unicodedata.normalize("NFC", person.lines()[-1])
                want = unicodedata.normalize("NFC", f"> {line}".rstrip())
                return shown == want and (cursor.x, cursor.y) == (2 + column, row)

            person.wait(done)
            person.type("\x15" + END + "\x15")
            person.wait_prompt()
        person.type("\x04")


def test_what_was_typed_is_what_the_model_is_told(chat: Callable[..., object]) -> None:
    with chat(echo()) as person:
        assert person.say("a b") == told("a b")
        assert person.say("é語😀") == told("é語😀")
        # A line that is longer than the screen is wide is shown whole in the end.
        long = "x" * 90 + "y"
        person.type(long + "\r")
        person.wait(lambda: person.lines()[-2:] == [*told(long), ">"])
        assert "> " + long in "".join(person.lines())
        # A character that arrives in pieces.
        for byte in "😀".encode():
            person._write(bytes([byte]))
            time.sleep(0.003)
        person.wait_prompt("😀")
        person.type("\x7f/unknown\r")
        person.wait(lambda: "/unknown: unknown, /help lists what there is" in person.lines())
        person.type("/quit\r")


@pytest.mark.parametrize("newline", ["\r", "\n", "\r\n"])
@pytest.mark.parametrize("marked", [True, False])
def test_a_paste_is_one_text(chat: Callable[..., object], marked: bool, newline: str) -> None:
    text = "one\n\n  two é\nthree"
    pasted = text.replace("\n", newline)
    with chat(echo()) as person:
        person.wait_prompt()
        assert 2004 << 5 in person.screen.mode  # the terminal was asked to mark a paste
        person.type(f"\x1b[200~{pasted}\x1b[201~" if marked else pasted)
        person.wait_prompt(text.replace("\n", "\u21b5"))
        n = len(person.lines())
        person.type("!" + newline)
        person.wait(lambda: person.lines()[-2:] == [*told(text + "!"), ">"])
        lines = person.lines()[n - 1 : -1]
        assert lines == [*f"> {text}!".split("\n"), *told(text + "!")]
        # Its history has it as one line too.
        person.type(UP)
        person.wait_prompt(text.replace("\n", "\u21b5") + "!")
        person.type("\x15")
        # One that ends with a line feed needs no Enter, unless it was marked.
        person.wait_prompt()
        person.type(f"a{newline}b{newline}")
        person.wait(lambda: person.lines()[-2:] == [*told("a\nb"), ">"])
        person.type("\x04")
    assert 2004 << 5 not in person.screen.mode


def test_history(chat: Callable[..., object]) -> None:
    with chat(echo()) as person:
        for text in ("one", "two", "two", "three"):
            person.say(text)
        for key, line in (
            ("un", "un"),
            (UP, "three"),
            (UP, "two"),
            (UP, "one"),
            (UP, "one"),
            (DOWN, "two"),
            (LEFT + "X", "twXo"),
            ("\x0e", "three"),
            (DOWN, "un"),
            (DOWN, "un"),
            ("\x10", "three"),
        ):
            person.type(key)
            person.wait_prompt(line)
        person.type("s\r")
        person.wait(lambda: person.lines()[-2:] == [*told("threes"), ">"])
        person.type("\x04")


@pytest.mark.parametrize("chat", [*RUNTIMES, "board-uart"], indirect=True)
def test_esc_and_ctrl_c_stop_a_text(chat: Callable[..., object]) -> None:
    with chat(echo(0.03, 8)) as person:
        for key in ("\x1b", "\x03"):
            person.wait_prompt()
            person.type("ab\r")
            person.wait(lambda: person.lines()[-1].startswith(told("ab")[0]))
            person.type(UP)  # does not
            person.wait(lambda: person.lines()[-1].startswith(told("ab")[0] * 3))
            person.type(key)
            person.wait(lambda: person.lines()[-1] == ">")
            assert person.lines()[-2] in told("ab")[0] * 8
            assert len(person.lines()[-2]) < 4 * 8
            assert person.say("/reset") == []
        assert person.say("abc") == [told("abc")[0] * 8]
        # In a line Ctrl-C drops it.
        person.type("cd")
        person.wait_prompt("cd")
        person.type("\x03")
        person.wait(lambda: person.lines()[-2:] == ["> cd", ">"])
        person.type("e")
        person.wait_prompt("e")
        person.type("\x03\x04")


def test_commands(chat: Callable[..., object]) -> None:
    with chat(source("temperature=0, max_tokens=12", policy="error")) as person:
        person.wait_prompt()
        first = person.lines()[:-1]
        assert person.say("/help") == first and "  /help" in "\n".join(first)
        assert person.say("/temp") == ["temperature 0"]
        answer = person.say("then the hen")
        (tokens, context, ram) = person.say("/stats")
        assert re.match(
            r"12 tokens, \d+\.\d a second, the first after \d+ ms; 7 were given", tokens
        )
        assert context == "context: 19 of 64 tokens"
        assert int(re.fullmatch(r"RAM: ([\d,]+) bytes", ram)[1].replace(",", "")) > 10_000
        assert person.say("then the hen") != answer
        assert person.say("/stats")[1] == "context: 37 of 64 tokens"
        assert person.say("/temp 0.7") == ["temperature 0.7"]
        assert person.say("/temp") == ["temperature 0.7"]
        assert person.say("/temp 101") == ["temperature: must be 0 to 100"]
        assert person.say("/temp") == ["temperature 0.7"]
        assert person.say("/temp 0") == ["temperature 0.0"]
        assert person.say("/reset") == []
        assert person.say("/stats")[1] == "context: 0 of 64 tokens"
        assert person.say("then the hen") == answer
        person.say("then the hen")
        person.say("then the hen")
        assert person.say("then the hen")[-1] == "[the context is full: /reset]"
        assert person.say("the")[0].startswith("prompt: has ")
        assert person.say("/reset") == []
        assert person.say("then the hen") == answer
        person.type("/quit\r")


def test_a_conversation_goes_on_past_the_context(chat: Callable[..., object]) -> None:
    texts = ["then the hen", "on the", "", "then", "the hen", ""]
    want = conversation(texts, 20, temperature=1.2, seed=4)
    with chat(source("temperature=1.2, seed=4, max_tokens=20")) as person:
        for text, answer in zip(texts, want, strict=True):
            assert "\n".join(person.say(text)).rstrip() == shown(answer)
        assert re.match(r"context: 64 of 64 tokens, \d\d have fallen out", person.say("/stats")[1])
        person.type("\x04")


def test_states(chat: Callable[..., object]) -> None:
    with chat(source("temperature=0, max_tokens=12")) as person:
        assert person.say("/save") == ["/save: needs the name of a file"]
        assert "absent" in person.say("/load absent.state")[0]
        person.say("the")
        context = person.say("/stats")[1]
        assert person.say("/save a.state") == []
        person.say("then")
        assert person.say("/load a.state") == []
        # The token that was said last was not in the cache yet.
        n = int(context.split()[1]) - 1
        assert person.say("/stats")[1] == f"context: {n} of 64 tokens"
        answer = person.say("then")
        assert person.say("/load a.state") == []
        assert person.say("then") == answer != []
        assert person.say("/load /") != []
        person.type("/quit\r")


def test_through_mpremote(device: Board, tmp_path: Path) -> None:
    mpremote = str(Path(sys.executable).with_name("mpremote"))
    with at_a_terminal([mpremote, "connect", device.port, "repl"], tmp_path) as person:

        def is_ready() -> bool:
            person.type("\r")
            return person.lines()[-1] == ">>>"

        person.wait(is_ready)
        person.type(f"import llm; llm.chat(llm.load('/rom/{MODEL.name}'), temperature=0)\r")
        person.wait_prompt()
        person.type("the" + LEFT + "x")
        person.wait_prompt("thxe")
        person.type("\x7f\r")
        person.wait(lambda: len(person.lines()) > 10 and person.lines()[-1] == ">")
        person.type("\x04")
        person.wait(lambda: person.lines()[-1] == ">>>")
        person.type("\x1d")


def test_a_pipe_ends_a_chat(tmp_path: Path) -> None:
    for port in ("cpython", "unix"):
        done = subprocess.run(
            command(port, echo()),
            input=b"ab\n",
            capture_output=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert told("ab")[0] in done.stdout.decode() and b"ended" in done.stdout
