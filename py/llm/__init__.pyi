"""Small language models on a microcontroller: what `import llm` gives.

Exceptions of the engine arrive with its message, which names what is wrong; see `_llm.pyi` for
the methods that `Model` has from there (`eval`, `sample`, `logits`, `rewind`, `memory` ...).
"""

from collections.abc import AsyncIterator, Buffer, Callable, Coroutine, Iterable, Iterator, Mapping
from os import PathLike
from typing import IO, Any, Protocol, TypedDict

from . import _llm

__all__ = [
    "Generator",
    "Governor",
    "Job",
    "Limits",
    "Metrics",
    "Model",
    "Scheduler",
    "Tokenizer",
    "chat",
    "digest",
    "help",
    "kernels",
    "load",
    "metrics",
    "version",
]

version: str
"""Release of the engine."""

def kernels() -> tuple[str, ...]:
    """The kernel sets that this machine can run, best first."""

def help() -> None:
    """Prints a page on how to use the package."""

def chat(
    model: Model,
    stream: Writable | IO[Any] | None = None,
    *,
    max_tokens: int | None = 200,
    stop: str | Iterable[str] | None = None,
    **settings: Any,
) -> None:
    """Talks with a model: reads a text, lets the model go on with it, and so on until `/quit`.

    stream: where someone sits: a second UART, say; None: the terminal.
    max_tokens, stop: where an answer ends at the latest, as in `Generator.generate`.
    settings: those of `Generator`.

    What is typed and what the model says is one text in the model's cache, only new tokens are
    evaluated. `/help` lists the commands, an empty line lets the model go on alone, ESC or Ctrl-C
    stops it. Lines are edited with the arrow keys, Home, End, Delete, Ctrl-A, Ctrl-E, Ctrl-K,
    Ctrl-U and Ctrl-W; up and down go through the last 20. A paste of several lines is one text:
    where the terminal does not mark it (bracketed paste), a line feed that something follows
    within 30 ms belongs to it. The terminal must read UTF-8 and have 80 columns.

    Lines that go to a stream end with carriage return and line feed. On a desk the terminal gives
    keys, not lines, as long as this runs; so far not on Windows.
    """

def load(
    source: str | PathLike[str] | Buffer | int | tuple[int, int] | _llm.File | BlockDevice,
    *,
    context: int = 0,
    cache: str | None = None,
    kv: str = "auto",
    policy: str = "slide",
    sequences: int = 0,
    ram: int = 0,
    spill: Any = None,
    kernels: str | None = None,
    block: int = 0,
    cores: int = 0,
    stream: bool | int = False,
    verify: bool = True,
) -> Model:
    """Makes a model ready to run.

    source:
      a path: read in place where the file system allows it (ROMFS; on a desk every file), else
      into RAM in one block; bytes, or anything else with the buffer protocol, that begins at a
      multiple of 16 bytes: read in place. It is kept, and must not be resized while the model is
      open; an address of mapped flash, or a tuple of it and how many bytes are mapped there: read
      in place. Nothing can check that memory is there: a wrong address may crash the board.
      With `stream`: a path, an open binary file (anything with `seek` and `readinto`) or a block
      device that the image begins at block 0 of.
    context: positions to make room for, at most those the model was trained for; 0: those.
    cache: "int8", "f32" or "int4" keys and values; None: "f32" if all weights are, else "int8".
    kv: "static", "paged" or "auto": how they lie in RAM. The same bits.
    policy: when the context is full: "slide", the oldest token but the first 4 falls out; "error",
      ValueError; "compress", old keys and values go to 4 bits to make room for more.
    sequences: how many `model.sequence()` and `fork()` can give out, beside the model's own.
    ram: bytes that the model may take beside the object; 0: as many as the context needs. With
      less, old keys and values go to 4 bits as the cache fills; `model.memory()` shows the split.
    spill: a writable buffer or a file, for old keys and values that the RAM has no room for.
    kernels: one of `kernels()`; None: the best.
    block: tokens of a prompt computed together, 1 to 16; Ctrl-C is heard between two blocks; 0: 8.
    cores: how many compute; the text is the same. 0: all of a chip, one of a desk (MicroPython for
      Unix included), where more gain something for large models only; 1 leaves a chip's second
      core to the radio.
    stream: read the matrices from `source` as they are needed, for each token anew, for a model
      that fits neither RAM nor mapped flash. The text is the same; the speed is the storage's. An
      int: bytes of weights to read at once at most, up to 131072; True: 32768. How many are is
      measured, see `Model.stream_stats`. RAM: three times that, and the image's tables.
    verify: check the checksum of every section now, which reads the whole image. `Model.verify`
      does it later, and more.

    Raises ValueError: not an image, a damaged one, a misaligned one, an argument out of range;
    MemoryError: with the bytes that are needed and free; OSError: no such file, one that cannot be
    read, a directory, or "partition:NAME" on a port that cannot map flash partitions; TypeError.
    The message names the path if `source` is one.
    """

class BlockDevice(Protocol):
    """A block device of MicroPython's: an SD card, a flash partition. Its `readblocks` may take an
    offset as well.
    """

    def readblocks(self, block: int, buf: Buffer, /) -> Any: ...
    def ioctl(self, op: int, arg: int, /) -> int | None: ...

class Model(_llm.Model):
    """A model that is ready to run: an image, read in place, and the RAM to run it.

    `repr` says what it is and the RAM it takes. It is a context manager, which closes it.
    """

    def __init__(
        self,
        data: Buffer | _llm.File,
        *,
        context: int = 0,
        cache: str | None = None,
        kv: str = "auto",
        policy: str = "slide",
        sequences: int = 0,
        ram: int = 0,
        spill: Any = None,
        kernels: str | None = None,
        block: int = 0,
        cores: int = 0,
        stream: bool | int = False,
        verify: bool = True,
    ) -> None:
        """As `load`, from a buffer, or from a file with `stream`."""

    def __enter__(self) -> Model: ...
    def __exit__(self, *exception: object) -> None: ...
    def close(self) -> None:
        """Frees the RAM at once. Any later use but `close` and `repr` raises ValueError."""

    def verify(self) -> None:
        """Checks every byte: the checksum of each section, then the SHA-256 of the image.

        ValueError names what is wrong. Time in proportion to the size.
        """

class Tokenizer:
    """The tokenizer of a model. `len` is the number of tokens."""

    bos: int | None
    """Id of the begin-of-text token."""
    eos: int | None
    """Id of the end-of-text token."""

    def __init__(self, model: _llm.Model) -> None: ...
    def __len__(self) -> int: ...
    def encode(self, text: str | Buffer, bos: bool = False, special: bool = False) -> list[int]:
        """The ids of `text` (bytes are UTF-8), after the begin-of-text token if `bos`.

        With `special`, the name of a control token in the text ("<|im_end|>") is that token, as in
        a chat template; without, it is text, which is what text from outside should be.

        UnicodeError names the offset of a byte that is not UTF-8; MemoryError if there is no room
        for 41 bytes for each byte of the text at worst.
        """

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`, escape sequences and all; control tokens have none, and what is not
        UTF-8 becomes U+FFFD.

        ValueError if an id is out of range.
        """

class Stats(TypedDict):
    """What a text took."""

    prompt_tokens: int
    tokens: int  # generated, without the end-of-text token
    first_token_ms: int  # from the call to the first token: evaluating the prompt
    tokens_per_s: float  # from the first token to the last; 0 if too fast to measure
    stop_reason: str | None  # see Generator.stop_reason
    digest: str  # of the ids generated

class Writable(Protocol):
    """A stream: machine.UART, a socket, a file, sys.stdout."""

    def write(self, data: bytes, /) -> int | None: ...

class Generator:
    """Writes texts with a model. Each begins afresh; the random numbers go on from one to the
    next.

    An exception, Ctrl-C, `stop()` or an iterator left half-way do no harm: the next text begins
    afresh.
    """

    model: Model
    seed: int
    """What the random numbers began with."""
    ansi: str | None
    """Which escape sequences pass."""
    governor: Governor | None
    """What sets the clock."""
    ids: list[int]
    """The tokens of the last text, without its prompt."""
    stop_reason: str | None
    """Why the last text ended: "end" (of text), "stop" (string), "max_tokens", "context",
    "stopped" (by `stop()`, or ESC) or "interrupted" (by Ctrl-C while it was streamed); None before
    it has, or if it was broken off.
    """

    def __init__(
        self,
        model: Model,
        *,
        temperature: float = 0.8,
        top_k: int = 0,
        top_p: float = 0.9,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        repeat_last_n: int = 64,
        seed: int | None = None,
        ansi: str | None = None,
        governor: Governor | None = None,
        summarize: Callable[[str], str] | str | None = None,
    ) -> None:
        """temperature: 0 to 100; 0: always the likeliest token.
        top_k: of the `top_k` likeliest tokens only; 0: all. top_p: of the likeliest that sum to
        this share only, above 0 to 1; 1: all. min_p: of those at least this share of the likeliest
        only, 0 to 1; 0: all. repetition_penalty: makes tokens among the last `repeat_last_n` less
        likely, above 0 to 100;
          1: not.
        seed: 0 to 2**64 - 1: the same seed, settings and prompts give the same texts on every
          machine; None: a new one.
        ansi: which escape sequences of the model's text pass to the terminal; None: none, and no
          control character but line feed and tab, so that a text cannot move the cursor, set a
          title or ask the terminal for anything; "color": colours and styles, which are reset at
          the end; "raw": everything. A carriage return is a control character: lines end with a
          line feed. See `_llm.Decoder`.
        governor: sets the processor's clock while text is made, and back when it has ended, by an
          exception too. On MicroPython an iterator that is left half-way is not closed by itself:
          close it, or put the loop into `with governor:`.
        summarize: where a text goes past the context, the window does not slide: the older half of
          the context gives way to a summary of it, of a quarter of the context at most, and all is
          read again, which takes as long as a prompt of that length. A function is given the text
          and returns the summary; "extract": the sentences whose words are the most frequent.

        ValueError names the setting that is out of range, NaN included.
        """

    def generate(
        self,
        prompt: str | Buffer = "",
        *,
        max_tokens: int | None = None,
        stop: str | Iterable[str] | None = None,
        echo: bool = False,
    ) -> Iterator[str]:
        """An iterator of pieces of the text that follows `prompt`, in whole characters and whole
        escape sequences (but for stop strings that begin within one when `ansi` is "raw").

        prompt: text, or UTF-8 bytes; may be empty if the model has a begin-of-text token.
        max_tokens: tokens to generate at most, past the context unless the model's policy is
          "error"; None: until the context is full.
        stop: a string, or several, at which the text ends; no part of it is given out. They are
          looked for in what `ansi` lets pass.
        echo: give out the prompt first.

        The text ends at the model's end-of-text token, a stop string, `max_tokens`, or when the
        context is full. `stop_reason` then says which.

        On a board nothing but the piece is allocated between two pieces, unless there are stop
        strings: then also what is held back, and a few short-lived objects a token. `ids` has its
        room, of 4 bytes a token, from the first piece on.

        Raises at once ValueError: the prompt is longer than the context (the message has both
        numbers), or empty without a begin-of-text token, `max_tokens` is negative, a stop string
        is empty, the model is closed; UnicodeError: the prompt is not UTF-8. Later, RuntimeError
        if the model was used for something else between two pieces.
        """

    def agenerate(
        self,
        prompt: str | Buffer = "",
        *,
        max_tokens: int | None = None,
        stop: str | Iterable[str] | None = None,
        echo: bool = False,
        yield_ms: int = 20,
    ) -> AsyncIterator[str]:
        """As `generate`, for `async for`: the event loop runs other tasks before each piece, and
        when the model has computed for `yield_ms` milliseconds without one: between two layers or
        the two halves of one. So the longest time without the loop is `yield_ms` and that of half
        a layer, for `block` tokens of a prompt (`load(..., block=1)` makes that shortest).

        A model writes one text at a time: where another begins meanwhile, RuntimeError.
        """

    def stop(self) -> None:
        """Ends the text that is being written, before its next token: `stop_reason` is "stopped".

        May be called from a loop over `generate`, another task or thread, or an interrupt (it
        takes no RAM). Without a text it does nothing.
        """

    def stream(
        self,
        prompt: str | Buffer = "",
        stream: Writable | IO[Any] | None = None,
        *,
        max_tokens: int | None = None,
        stop: str | Iterable[str] | None = None,
        echo: bool = False,
        token_pin: Callable[[], object] | Any = None,
        buffer: int = 256,
    ) -> Stats:
        """Writes the text that follows `prompt` to `stream`, the terminal if None, as it comes.

        token_pin: changes its level with every token (machine.Pin, digitalio.DigitalInOut), or is
        called (anything else; its `toggle` if it has one).
        buffer: bytes of text that wait for a stream that does not take it yet.
        The other arguments and the exceptions are those of `generate`.

        A stream gets UTF-8 bytes, each piece in one call (a text stream of CPython or
        CircuitPython gets str), and may take a part of them or nothing: the rest waits in the
        buffer while the next token is computed. Computing never waits for the stream before the
        buffer is full, then it waits until there is room; nothing is lost. A stream that has no
        other way than to wait itself (a board's terminal, busio.UART, a machine.UART that was
        given a timeout) holds a token up for the time of its own piece: about 6 bytes, 0.5 ms at
        115200 baud.

        ESC and Ctrl-C that arrive on the stream end the text before its next token, `stop_reason`
        is then "stopped" or "interrupted"; other keys are read and dropped. Looked at are streams
        that have `any()` or `in_waiting`, or can be polled; not files, and not the terminal of a
        desk, which gives lines and not keys. An ESC is one if nothing follows it within 30 ms,
        which is as long as is waited. Where Ctrl-C raises KeyboardInterrupt it does so here,
        `stop_reason` is "interrupted". However a text ends, what was written is closed: no
        incomplete character, colour reset, with "raw" a string ended. A text that was stopped is
        written to its end, unless the stream takes nothing for a second.
        """

    def astream(
        self,
        prompt: str | Buffer = "",
        stream: Writable | IO[Any] | None = None,
        *,
        max_tokens: int | None = None,
        stop: str | Iterable[str] | None = None,
        echo: bool = False,
        token_pin: Callable[[], object] | Any = None,
        buffer: int = 256,
        yield_ms: int = 20,
    ) -> Coroutine[Any, Any, Stats]:
        """As `stream`, to be awaited: the event loop runs as `agenerate` says, and while the
        stream is waited for. The `drain` of a stream of asyncio's own is awaited after each piece.

        A task that is cancelled leaves model and terminal usable.
        """

    def stats(self) -> Stats:
        """What the last text took, or takes so far."""

class Job:
    """One text of a `Scheduler`, which makes it. Iterating gives its pieces, as with
    `Generator.generate`, and serves the other texts too.
    """

    gen: Generator
    priority: int
    done: bool
    stop_reason: str | None
    """Why it ended: as `Generator.stop_reason`, or "error"; None before."""
    error: Exception | None
    """What it ended with if that is "error": MemoryError when the pool of pages is exhausted,
    OSError when a page cannot be kept where it spills to, RuntimeError if its sequence was used by
    another.
    """
    ids: list[int]
    """Its tokens, without the prompt, once it is done."""
    sequence: _llm.Sequence | None
    """What it is written in, from its first turn to its end."""
    due: int | list[int] | None
    """The tokens that its next turn evaluates."""

    def __init__(
        self,
        scheduler: Scheduler,
        gen: Generator,
        priority: int,
        on_text: Callable[[str], object] | None,
    ) -> None: ...
    def __iter__(self) -> Iterator[str]: ...
    def read(self) -> str:
        """The text since the last call, without waiting. Raises `error` once all is read."""

    def stop(self) -> None:
        """Ends the text at once: `stop_reason` is "stopped"."""

class Scheduler:
    """Writes texts of one model side by side, each the same as if it were alone, to the token.

    A turn evaluates one token of each text of the highest priority together, in one pass over the
    weights, and one block of the prompt that has waited longest, so that a long prompt holds
    nobody up for more than a block. Texts of lower priority wait meanwhile, where they are.

    It takes all sequences that the model was loaded with and that are free (`sequences=`); a text
    that finds none waits for one. They keep their tokens: what a prompt has in common with them is
    not evaluated again. A context manager, which closes it.
    """

    model: Model
    jobs: list[Job]
    """Those that are not done."""

    def __init__(self, model: Model) -> None:
        """ValueError: the model has no free sequences."""

    def __enter__(self) -> Scheduler: ...
    def __exit__(self, *exception: object) -> None: ...
    def submit(
        self,
        gen: Generator,
        prompt: str | Buffer = "",
        *,
        max_tokens: int | None = None,
        stop: str | Iterable[str] | None = None,
        echo: bool = False,
        priority: int = 0,
        on_text: Callable[[str], object] | None = None,
    ) -> Job:
        """Adds a text: settings and random numbers are those of `gen`, whose texts are written one
        after the other; the arguments, and what they raise, are those of `Generator.generate`.

        priority: the higher are written first. on_text: is called with each piece, which is then
        not kept for `read`; it may submit and stop texts. What it raises leaves `step`.
        """

    def step(self) -> bool:
        """Does one turn and returns whether there is more to do."""

    def run(self) -> None:
        """Writes all texts to their ends."""

    async def arun(self) -> None:
        """The same; the event loop runs after each turn."""

    def close(self) -> None:
        """Ends all texts ("stopped") and gives the sequences back."""

class Governor:
    """Sets the processor's clock from token to token, between `levels`, by a policy:

    - "performance": the highest level;
    - "deadline": the lowest level at which `min_tps` tokens a second are made. What a token takes
      at each level is measured; what does not get faster with the clock is memory;
    - "battery": the level at which a token takes the least energy if `power` is given, else the
      lowest.

    A prompt is done at the highest level but for "battery". The clock of the start, with its
    buses, comes back when the text has ended, in whatever way. As a context manager it works for
    all texts of the block, and between them goes to the lowest level.
    """

    policy: str
    power: Mapping[int, float] | None
    """Milliwatts by megahertz."""
    hz: int
    """The clock of now, 0 if it is not known."""
    levels: list[int]
    """In hertz, ascending. What the chip does not take is left out once it has refused it."""
    limits: Limits
    """Of battery and temperature, and what the user adds: their events are here."""

    def __init__(
        self,
        policy: str = "deadline",
        *,
        levels: Iterable[int] | None = None,
        min_tps: float = 1.1,
        power: Mapping[int, float] | str | None = None,
        queue: Callable[[], int] | None = None,
        battery: Callable[[], float | None] | None = None,
        min_volts: float = 2.9,
        temperature: Callable[[], float | None] | None = None,
        max_temperature: float = 80,
        peripherals: Iterable[Any] = (),
        uarts: Iterable[tuple[Any, int]] = (),
        bypass: Any = None,
    ) -> None:
        """levels: in hertz; None: those that are known of the chip, else the clock it has.
        min_tps: tokens a second for each request, 0.001 to 1000.
        power: milliwatts by megahertz, or the path of a boards/*/power.json.
        queue: how many requests wait or run; each is to have `min_tps`.
        battery: volts. Below `min_volts` the lowest level is held, until 0.1 V above it.
        temperature: degrees Celsius. Above `max_temperature` `step_down`, every 10 s as long as
          that lasts; 5 degrees below `step_up`. Both are looked at once a second; None: not known.
        peripherals: switched off while text is made. Each has active(on), or init() and deinit(),
          or is a function of `on`.
        uarts: pairs (UART, its rate), for chips on which a change of the clock changes that: what
          was written leaves first, then the rate is set anew.
        bypass: an output pin, or a function of `on`: on before the clock rises above the lowest
          level, off after it has come down to that.

        ValueError names the setting that is out of range, TypeError a peripheral that cannot be
        switched, OSError: there is no such file.
        """

    def __enter__(self) -> Governor: ...
    def __exit__(self, *exception: object) -> None: ...
    def idle(self) -> None:
        """Nothing is to be done: to the lowest level, until the next text. For a program that
        waits within a text; between texts it comes by itself.
        """

    def step_down(self) -> bool:
        """Takes the highest level that may be taken down to 80 % of itself or less. False if it is
        the lowest already.
        """

    def step_up(self) -> None:
        """Takes back the last `step_down`."""

    def residency(self) -> dict[int, int]:
        """Milliseconds at each level in hertz, while text was made or in a `with` block."""

    def times(self) -> dict[int, int]:
        """Microseconds that a token takes at each level in hertz: measured, else expected; 0 as
        long as nothing is known.
        """

class Event(TypedDict):
    """A limit that was crossed, or is kept again."""

    event: str  # the name of the limit
    value: float
    limit: float
    over: bool  # False: it is kept again
    steps: int  # how often its action was taken and not yet undone

class Limits:
    """Figures that are looked at between tokens, each with a limit and what is done about it.

    What an action or a callback raises does not end the text: see `error`. One that makes text
    itself is not disturbed by further looks. Ctrl-C passes.
    """

    error: Exception | None
    """What the last action or callback that failed has raised."""
    fired: int
    """Events so far."""

    def __init__(self) -> None: ...
    def add(
        self,
        name: str,
        read: Callable[[], float | None],
        *,
        above: float | None = None,
        below: float | None = None,
        back: float | None = None,
        act: Callable[[], object] | None = None,
        undo: Callable[[], object] | None = None,
        again: float = 10,
    ) -> None:
        """Looks at `read()`, once a second at most; None: nothing is known.

        above, below: the limit, one of them. When it is crossed `act` is called, and again every
          `again` seconds as long as that lasts, unless it returns False: it could do no more.
        back: what the figure must come back to before `undo` is called, once for each `act`, every
          `again` seconds; None: the limit itself.

        Each is an event. ValueError: not one limit, or `back` lies beyond it.
        """

    def on_event(self, callback: Callable[[Event], object]) -> Callable[[Event], object]:
        """Calls it with every event from now on, after the action."""

    def check(self) -> None:
        """Looks at all figures, unless that was less than a second ago. Governor and Metrics call
        it.
        """

class Figures(TypedDict):
    """What making text has taken. None where it is not known."""

    texts: int
    prompt_tokens: int  # that were evaluated: not those that the cache had
    prefill_ms: int  # for prompts, and the first token of each text
    prefill_tokens_per_s: float
    first_token_ms: int | None  # of the last text
    tokens: int
    decode_ms: int  # from the first token of each text to its last
    tokens_per_s: float
    token_ms_p50: float | None  # of the last tokens, as many as the window has; the time of the
    token_ms_p90: float | None  # model, without what the reader of the text takes
    token_ms_p99: float | None
    jitter_ms: float | None  # P99 less P50
    model_ram: int
    heap_peak: int  # bytes in use at most when asked, garbage included: that takes as long as two
    # tokens of a small model, so it is not looked at in between. 0 on a desk
    kv_used: int  # bytes of the cache, kv of Model.memory()
    kv_share: float  # of it
    mhz: int
    residency_ms: dict[str, int]  # by clock in megahertz, since measuring began
    temperature: float | None  # degrees Celsius
    temperature_per_min: float | None  # its rise over the last ten seconds or more
    energy_mj: float | None  # an estimate: residency times power
    energy_mj_per_token: float | None
    limits_fired: int

class Metrics:
    """What the texts of a generator take, in time, memory and power. `metrics` makes one."""

    gen: Generator
    limits: Limits
    """The governor's, if there is one."""
    power: Mapping[int, float] | None
    """Milliwatts by megahertz."""

    def __init__(
        self,
        gen: Generator,
        *,
        window: int = 256,
        temperature: Callable[[], float | None] | None = None,
        power: Mapping[int, float] | str | None = None,
    ) -> None:
        """As `metrics`."""

    def detach(self) -> None:
        """Measures no more; what was measured stays."""

    def limit(
        self,
        name: str,
        *,
        above: float,
        back: float | None = None,
        act: Callable[[], object] | None = None,
        undo: Callable[[], object] | None = None,
        again: float = 10,
    ) -> None:
        """A limit, as `Limits.add`, for one of the figures:

        "temperature" or "jitter_ms": unless told otherwise the governor's `step_down`, and its
        `step_up`; "kv_share": the model's `compress`, if it has one. ValueError: another name.
        """

    def residency(self) -> dict[int, int]:
        """Milliseconds by clock in hertz, since measuring began."""

    def as_dict(self) -> Figures:
        """All figures."""

    def emit(self, stream: Writable | IO[Any] | None = None) -> None:
        """Writes them to a stream, sys.stdout if None, as one line of JSON."""

    def prometheus(self) -> str:
        """The figures in Prometheus's text format, version 0.0.4."""

def metrics(
    gen: Generator,
    *,
    window: int = 256,
    temperature: Callable[[], float | None] | None = None,
    power: Mapping[int, float] | str | None = None,
) -> Metrics:
    """Measures the texts of a generator from now on.

    window: of how many tokens the times are kept, a multiple of 32 up to 4096.
    temperature: degrees Celsius; None: of the chip, where that is known.
    power: as for `Governor`, whose power is taken if None.
    """

def digest(ids: Iterable[int]) -> str:
    """16 hexadecimal digits that tell one sequence of token ids from another.

    The first 8 bytes of the SHA-256 of the ids as 32-bit little-endian integers.
    """
