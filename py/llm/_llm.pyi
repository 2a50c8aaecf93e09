"""The engine as a module: `_llm` in MicroPython, `edge_llm.engine` on CPython, over core/llm.h.

An image is read where it lies. RAM is taken once, when a model is made; after that the only things
allocated are the objects that a call returns. Errors of the engine arrive with its message:

- ValueError: the image is damaged or too new, an argument is out of range, the context is full,
  the model is closed, or its buffer was resized after the model was made;
- UnicodeError: text is not UTF-8 (a plain ValueError on a port that has no UnicodeError);
- MemoryError: not enough RAM; the message says how many bytes are needed and how many are free;
- TypeError: an argument is of the wrong type (a float where an int is wanted, say);
- RuntimeError: a callback used the model in the middle of `eval`.

A model may be used from one thread at a time. Two models are independent.
"""

from array import array
from collections.abc import Buffer, Sequence
from types import TracebackType
from typing import TypedDict

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
    """Where the bytes are. The first three are read in place, the rest is RAM."""

    image: int  # the whole image
    weights: int  # section DATA of it
    tokenizer: int  # the tokenizer's tables in it
    object: int  # the Model object: the engine's llm_model_t and what the binding adds
    tensors: int  # this and the next four: llm_plan_t
    kv: int
    activations: int
    logits: int
    tokens: int
    ram: int  # object + tensors + kv + activations + logits + tokens

class Model:
    """An image and the working memory to run it."""

    def __init__(
        self,
        data: Buffer,
        *,
        context: int = 0,
        block: int = 0,
        cache: str | None = None,
        kernels: str | None = None,
        cores: int = 0,
        verify: bool = True,
    ) -> None:
        """Opens the image at the start of `data`, which is kept and must stay where it is.

        context: positions to make room for; 0: as many as the model was trained for.
        block: tokens of a prompt computed together, 1 to 16, between which Ctrl-C is heard; 0: 8.
        cache: "int8" or "f32" keys and values; None: f32 if every matrix is f32, else int8.
        kernels: a name that `kernels()` lists; None: the best.
        cores: how many compute, to the same bits; 0: all of a chip, one of a desk. The others
          start with the first matrix that is large enough for them, and are released when the last
          model that may use them is closed. ValueError above what there is: 2 on an ESP32 or
          ESP32-S3, 16 threads on a desk, else 1.
        verify: check the checksum of every section now, which reads the whole image.

        Raises ValueError, MemoryError (needs one free block of `memory()["ram"]` bytes),
        TypeError.
        """

    n_tokens: int
    """Tokens in the cache."""
    context: int
    """Positions there is room for."""
    block: int
    """Tokens of a prompt computed together."""
    cache: str
    """How keys and values are kept: "int8" or "f32"."""
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

    def eval(self, tokens: int | Sequence[int]) -> None:
        """Appends one token, or a list, tuple or array of them, to the cache; logits of the last
        are then ready.

        Nothing changes if a token is out of range (ValueError), not an int (TypeError), or they do
        not fit into the context (ValueError). An exception from outside (KeyboardInterrupt) leaves
        whole blocks evaluated: `n_tokens` says how far it came. No tokens: no effect.
        """

    def sample(self, sampler: Sampler) -> int:
        """Chooses the next token from the logits, which are used up. `eval` appends it.

        ValueError if there are no logits: nothing evaluated since the model was made, sampled or
        rewound.
        """

    def logits(self, buf: Buffer | None = None) -> array[float]:
        """A copy of the logits, `vocab_size` floats: a new array("f"), or `buf` (writable).

        ValueError if there are none, or `buf` has another size.
        """

    def rewind(self, n: int) -> None:
        """Keeps the first `n` tokens of the cache and forgets the rest and the logits. ValueError
        if n > n_tokens.
        """

    def tokens(self) -> list[int]:
        """The ids in the cache."""

    def config(self) -> Config: ...
    def memory(self) -> Memory: ...
    def card(self) -> str:
        """The card, JSON for people. UnicodeError if it is not UTF-8."""

    def hash(self) -> bytes:
        """The 32 bytes of SHA-256 that the image carries, as written there."""

    def verify(self) -> None:
        """Checks the checksum of every section. ValueError names the one that is wrong."""

    def encode(self, text: str | Buffer, bos: bool | None = None) -> list[int]:
        """Ids of `text`. bos: put bos_id first if there is one; None: if the tokenizer says so
        (`add_bos`).

        Takes scratch memory for the call: 4 bytes for each byte of text, and 37 for each of the
        longest word. UnicodeError if bytes are not UTF-8.
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
