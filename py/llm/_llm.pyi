"""The engine as a module: `_llm` in MicroPython, `edge_llm.engine` on CPython, over core/llm.h.

An image is read where it lies. RAM is taken once, when a model is made; after that the only things
allocated are the objects that a call returns. Errors of the engine arrive with its message:

- ValueError: the image is damaged or too new, an argument is out of range, the context is full,
  the model is closed, or its buffer was resized after the model was made;
- UnicodeError: text is not UTF-8 (a plain ValueError on a port that has no UnicodeError);
- MemoryError: not enough RAM; the message says how many bytes are needed and how many are free;
- OSError: the file or device that weights come from or pages spill to failed; nothing has changed;
- TypeError: an argument is of the wrong type (a float where an int is wanted, say);
- RuntimeError: a callback or a stream used the model in the middle of `eval`, or of a state.

A model may be used from one thread at a time. Two models are independent.
"""

from array import array
from collections.abc import Buffer
from collections.abc import Sequence as Sequence_
from types import TracebackType
from typing import Any, Protocol, TypedDict

version: str
"""Release of the engine: LLM_VERSION."""

def kernels() -> tuple[str, ...]:
    """The kernel sets that this machine can run, best first."""

class Config(TypedDict):
    """What the image says: section CONF, and what its matrices are made of."""

    vocab_size: int
    dim: int
    hidden_dim: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    context: int  # positions the model was trained for
    norm_eps: float
    rope_theta: float
    rope: str  # "neighbours" or "halves"
    tied: bool
    dtype: str  # of the matrices: "f32", "int8" or "int4"; joined by "+" in that order when mixed
    n_parameters: int  # elements of all tensors but rope_phase, without padding

class Memory(TypedDict):
    """Where the bytes are. The first three are read in place, or from a file; the rest is RAM."""

    image: int  # the whole image
    weights: int  # section DATA of it
    tokenizer: int  # section TOKN of it
    object: int  # the Model object: the engine's llm_model_t and what the binding adds
    tensors: int  # this and the next five: llm_plan_t
    sequences: int  # which page is where
    kv: int  # the pool of pages
    activations: int
    logits: int
    tokens: int
    stream: int  # of an image in a file: all of it but the matrices, and the buffers; else 0
    ram: int  # object + tensors + sequences + kv + activations + logits + tokens + stream
    kv_used: int  # of kv now
    spill: int  # the slower region
    spill_used: int  # of it now

class StreamStats(TypedDict):
    """How the weights of a model arrive that are read from a file."""

    bytes: int  # read for tokens so far
    waited_ms: int  # spent waiting for them; reading, where nothing can be read in the background
    total_ms: int  # that evaluating took, waiting and computing
    waiting: float  # waited_ms / total_ms
    range: int  # bytes of weights that are read at once now
    latency_us: int  # of a read
    bytes_per_s: int  # after that

class File(Protocol):
    """What weights can be read from."""

    def seek(self, offset: int, whence: int = 0, /) -> int: ...
    def readinto(self, buf: Buffer, /) -> int | None: ...

class _Tokens:
    """What a model's main sequence and its others can do."""

    n_tokens: int
    """Tokens evaluated since the start: position of the next one."""

    def eval(self, tokens: int | Sequence_[int]) -> None:
        """Appends one token, or a list, tuple or array of them; logits of the last are then ready.

        Where the context is full the policy decides: the window slides (see `event`), or
        ValueError. Nothing changes if a token is out of range (ValueError), not an int
        (TypeError), or they do not fit into the context (ValueError). MemoryError: other sequences
        hold the pool. OSError: weights are read from a file, and that failed; the block was not
        appended, and it can be tried again. An exception from outside (KeyboardInterrupt) leaves
        whole blocks evaluated: `n_tokens` says how far it came. No tokens: no effect.
        """

    def eval_step(self, tokens: int | Sequence_[int], ms: int) -> int:
        """Goes on with `eval(tokens)` for about `ms` milliseconds and returns how many of them
        have got through: call it again with the others until there are none. The same bits.

        It ends between two layers, or the two halves of one: later by the time of half a layer,
        for `block` tokens if there are so many. If anything but `sample` is done with the model
        meanwhile, the block that is under way is lost and begins again. ms: 0 to 65535.
        """

    def sample(self, sampler: Sampler) -> int:
        """Chooses the next token from the logits, which are used up. `eval` appends it.

        ValueError if there are no logits: nothing evaluated since the start, sampled, rewound, or
        another sequence was evaluated since (its logits lie there now).
        """

    def logits(self, buf: Buffer | None = None) -> array[float]:
        """A copy of the logits, `vocab_size` floats: a new array("f"), or `buf` (writable).

        ValueError if there are none, or `buf` has another size.
        """

    def rewind(self, n: int) -> None:
        """Keeps the first `n` tokens and forgets the rest and the logits.

        ValueError if n > n_tokens, or the last of these tokens have fallen out of the window. What
        is in a compressed page is evaluated again by the next `eval`.
        """

    def reuse(self, tokens: Sequence_[int]) -> int:
        """Keeps what the cache and `tokens` begin with in common, and forgets the rest.

        Returns how many tokens that is, fewer than there are tokens (unless there are none): so
        `eval(tokens[n:])` then leaves the logits that evaluating all of them in an empty cache
        would, to the bit. Of a window that has slid, only the first 4 tokens can be kept.
        """

    def tokens(self) -> list[int]:
        """The ids in the cache: all, or the first 4 and those of the window once it has slid."""

    def save_state(self, file: Any) -> None:
        """Writes the tokens with their keys and values to a binary file (or any stream), in small
        pieces: docs/state-format.md. Exceptions of the file pass through.
        """

    def load_state(self, file: Any) -> None:
        """Reads what `save_state` wrote, on whatever target and in whatever layout, in place of
        what the cache holds. There are no logits then: `reuse` and `eval` go on from it.

        ValueError: damaged, cut short, a later version, of another model or kind of cache, or its
        tokens do not fit; MemoryError: other sequences hold the pool; exceptions of the file. The
        cache is empty then.
        """

    def fork(self) -> Sequence:
        """A new sequence with the same tokens, without logits. Pages are shared until one of the
        two writes. ValueError if all sequences are in use.
        """

class Model(_Tokens):
    """An image and the working memory to run it; its own tokens are the main sequence."""

    def __init__(
        self,
        data: Buffer | File,
        *,
        context: int = 0,
        block: int = 0,
        cache: str | None = None,
        kv: str = "auto",
        policy: str = "slide",
        sequences: int = 0,
        ram: int = 0,
        spill: Any = None,
        kernels: str | None = None,
        cores: int = 0,
        stream: bool | int = False,
        verify: bool = True,
    ) -> None:
        """Opens the image at the start of `data`, which is kept and must stay where it is.

        context: positions to make room for; 0: as many as the model was trained for.
        block: tokens of a prompt computed together, 1 to 16, between which Ctrl-C is heard; 0: 8.
        cache: "int8", "f32" or "int4" keys and values; None: f32 if every matrix is, else int8.
        kv: "static": one page of the whole context; "paged": pages of 64 positions; "auto": static
          up to a context of 512. The same bits.
        policy: what happens when the context is full. "slide": the oldest token but the first 4
          falls out. "error": ValueError. "compress": old pages are compressed to 4 bits, so that
          up to twice as many positions stay in the same RAM, at most those trained for; then
          "slide".
        sequences: that `sequence()` and `fork()` can give out. Up to 16 can be evaluated together.
        ram: bytes that all but the object may take. What the fixed parts leave of them is the pool
          of pages; if it cannot hold the context, old pages are compressed to 4 bits once 85 % of
          it is used. 0: as much as the context needs.
        spill: where full old pages go that the pool has no room for: a writable buffer (slower
          RAM) at a multiple of 16, which must not be resized, or a file open for reading and
          writing. Results are the same. A page is written once and then read for every token;
          without `ram` 512 positions stay in RAM.
        kernels: a name that `kernels()` lists; None: the best.
        cores: how many compute, to the same bits; 0: all of a chip, one of a desk. The others
          start with the first matrix that is large enough for them, and are released when the last
          model that may use them is closed. ValueError above what there is: 2 on an ESP32 or
          ESP32-S3, 16 threads on a desk, else 1.
        stream: `data` is a file, and the matrices are read from it range by range, each token
          anew, to the same bits; an int is the most bytes that are read at once, up to 131072,
          True stands for 32768. It takes three times as much RAM, and the image's tables. A desk
          reads in the background, MicroPython between two products. The file is the model's until
          that is closed; a Python object that uses the model while it is read gets RuntimeError.
        verify: check the checksum of every section now, which reads the whole image.

        Raises ValueError, TypeError, MemoryError: needs one free block of `memory()["ram"]` bytes,
        or `ram` is less than the least that will do; the message then has both numbers and the
        contexts that would fit. OSError: the file cannot be read; the message says how many bytes
        where.
        """

    context: int
    """Positions that a token sees at most, itself included."""
    block: int
    """Tokens of a prompt computed together."""
    cache: str
    """How keys and values are kept: "int8", "f32" or "int4"."""
    kv: str
    """Where: "static" or "paged"."""
    policy: str
    """What happens when the context is full: "slide", "error" or "compress"."""
    kernels: str
    """Name of the kernel set in use."""
    cores: int
    """How many cores compute."""
    vocab_size: int
    """Ids are 0 to vocab_size - 1."""
    bos_id: int
    """Begin of text, -1 if there is none."""
    eos_id: int
    """End of text, -1 if there is none."""
    add_bos: bool
    """A prompt begins with bos_id."""

    def sequence(self) -> Sequence:
        """A new sequence, empty. ValueError if all are in use."""

    def eval_batch(self, sequences: Sequence_[Sequence | Model], tokens: Sequence_[int]) -> None:
        """Appends one token to each of several sequences, the model itself standing for its main
        one, in one pass over the weights; each then has its logits. The same bits as one after the
        other.

        ValueError: a sequence twice, of another model, more than there is room for; and as `eval`.
        """

    def event(self) -> tuple[str, int] | None:
        """What has happened for want of room since it was last asked, a kind at a time, or None:
        ("slide", n): n tokens fell out of a window; ("compress", n): n pages were compressed;
        ("spill", n): n pages moved to the slower region.
        """

    def config(self) -> Config: ...
    def memory(self) -> Memory: ...
    def card(self) -> str:
        """The card, JSON for people. UnicodeError if it is not UTF-8."""

    def hash(self) -> bytes:
        """The 32 bytes of SHA-256 that the image carries, as written there."""

    def verify(self) -> None:
        """Checks the checksum of every section. ValueError names the one that is wrong."""

    def stream_stats(self) -> StreamStats:
        """How the weights arrive. ValueError if they are in memory."""

    def encode(
        self, text: str | Buffer, bos: bool | None = None, special: bool = False
    ) -> list[int]:
        """Ids of `text`. bos: put bos_id first if there is one; None: if the tokenizer says so
        (`add_bos`). special: the name of a control token in the text ("<|im_end|>") is that token,
        else it is text like any other.

        Takes 4 bytes for each byte of text, and 37 for each of the longest word, of the memory of
        the activations, or for the call of the heap where that is too small. UnicodeError if bytes
        are not UTF-8.
        """

    def piece(self, token: int) -> bytes:
        """The bytes of a token as they appear in text: none for control tokens. ValueError if out
        of range.
        """

    def close(self) -> None:
        """Frees the RAM at once. Any later use but `close` raises ValueError."""

    def __enter__(self) -> Model: ...
    def __exit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

class Sequence(_Tokens):
    """A sequence of a model beside its main one. `Model.sequence` and `fork` make one; it is a
    context manager, which closes it.
    """

    def close(self) -> None:
        """Gives its place and pages back. Any later use but `close` raises ValueError."""

    def __enter__(self) -> Sequence: ...
    def __exit__(self, *exception: object) -> None: ...

class Sampler:
    """How the next token is chosen, and the state of its random numbers."""

    def __init__(
        self,
        *,
        temperature: float = 0.8,
        top_k: int = 0,
        top_p: float = 0.9,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        repeat_last_n: int = 64,
        seed: int = 0,
    ) -> None:
        """temperature: 0 to 100, below 0.001 the likeliest token always; top_k: 0 is all; top_p:
        above 0 to 1, 1 is all; min_p: 0 to 1, 0 is all; repetition_penalty: above 0 to 100, 1 is
        none, over the last `repeat_last_n` (at most 4096) tokens; seed: 0 to 2**64 - 1.
        ValueError names a setting that is out of range, NaN included.
        """

class Decoder:
    """Turns ids into text, in whole characters however their bytes are split over tokens, and
    without escape sequences but those that `ansi` names.
    """

    def __init__(self, model: Model, *, start: bool = True, ansi: str | None = None) -> None:
        """start: the ids begin a text, so the space that the tokenizer puts before text is dropped
        from the first of them that has bytes; False: they go on after a prompt.
        ansi: which escape sequences and control characters (ECMA-48) pass.
          None: line feed and tab; all others are removed, C1 (U+0080 to U+009F) and whatever
          belongs to a sequence included, so that a terminal can only print what comes out.
          "color": colours and styles too (SGR of at most 64 bytes).
          "raw": everything.
          A sequence that passes comes out whole, from one call, if it has at most 64 bytes. One
          that has no end is given up after 256 bytes: what follows is text again.
        """

    def feed(self, token: int) -> str:
        """The characters that `token` completes, maybe none. What is not UTF-8 becomes U+FFFD.
        ValueError if out of range.
        """

    def finish(self) -> str:
        """Ends the text: an incomplete character becomes U+FFFD. With "color" an incomplete
        sequence is dropped and colour that is open is reset; with "raw" what there is passes. The
        next `feed` begins a new text as `__init__` did.
        """
