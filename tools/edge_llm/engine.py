"""The engine on CPython: the same interface as the boards' module `_llm`, over the same C code.

The interface is documented in py/llm/_llm.pyi. Here, the environment variable LLM_KERNELS names
the kernel set of models that are not told one.
"""

from __future__ import annotations

import operator
import os
import time
import weakref
from array import array
from collections.abc import Iterable
from typing import Any

from ._engine import ffi, lib
from .stream import Source

version: str = ffi.string(lib.LLM_VERSION).decode()

_ROPES = {lib.LLM_ROPE_NEIGHBOURS: "neighbours", lib.LLM_ROPE_HALVES: "halves"}
_CACHES = {
    None: lib.LLM_CACHE_AUTO,
    "int8": lib.LLM_CACHE_INT8,
    "f32": lib.LLM_CACHE_F32,
    "int4": lib.LLM_CACHE_INT4,
}
_LAYOUTS = {
    "auto": lib.LLM_LAYOUT_AUTO,
    "static": lib.LLM_LAYOUT_STATIC,
    "paged": lib.LLM_LAYOUT_PAGED,
}
_POLICIES = {
    "slide": lib.LLM_POLICY_SLIDE,
    "error": lib.LLM_POLICY_ERROR,
    "compress": lib.LLM_POLICY_COMPRESS,
}
_EVENTS = {
    lib.LLM_EVENT_SLIDE: "slide",
    lib.LLM_EVENT_COMPRESS: "compress",
    lib.LLM_EVENT_SPILL: "spill",
}
_DTYPES = {lib.LLM_F32: "f32", lib.LLM_INT8: "int8", lib.LLM_INT4: "int4"}
_ANSI = {None: lib.LLM_ANSI_NONE, "color": lib.LLM_ANSI_COLOR, "raw": lib.LLM_ANSI_RAW}
_MATRICES = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
_UINT32_MAX = 2**32 - 1
_VERIFY_SIZE = 1 << 20  # bytes read at once to verify an image that is not in memory


def kernels() -> tuple[str, ...]:
    """The kernel sets that this machine can run, best first."""
    names = []
    while (found := lib.llm_kernels_at(len(names))) != ffi.NULL:
        names.append(_kernels_name(found))
    return tuple(names)


class _Store:
    """A file as the engine's llm_store_t. Exceptions wait in `error` until the engine returns."""

    def __init__(self, file: Any, model: Model, seeks: bool) -> None:
        self.error: BaseException | None = None
        self._file = file
        self._model = model
        self._seeks = seeks
        self._handle = ffi.new_handle(self)
        self.store = ffi.new("llm_store_t *")
        self.store.context = self._handle
        self.store.read = lib.edge_llm_read
        self.store.write = lib.edge_llm_write

    def transfer(self, name: str, offset: int, data: memoryview) -> int:
        self._model._busy = True
        try:
            if self._seeks:
                self._file.seek(offset)
            while data:
                if name == "read":
                    piece = self._file.read(len(data))
                    n = len(piece)
                    data[:n] = piece
                else:
                    n = self._file.write(data)
                if not n:
                    return lib.LLM_IO_END if name == "read" else lib.LLM_IO_FAILED
                data = data[n:]
        except BaseException as error:
            self.error = error
            return lib.LLM_IO_FAILED
        finally:
            self._model._busy = False
        return lib.LLM_IO_OK

    def call(self, function: Any, *arguments: Any) -> None:
        """Call the engine; an exception of the file comes before its own."""
        try:
            _call(function, *arguments)
        except OSError:
            if self.error is None:
                raise
        error, self.error = self.error, None
        if error is not None:
            raise error


@ffi.def_extern(onerror=None, error=lib.LLM_IO_FAILED)
def edge_llm_read(context: Any, offset: int, data: Any, size: int) -> int:
    """llm_store_t.read"""
    return ffi.from_handle(context).transfer("read", offset, memoryview(ffi.buffer(data, size)))


@ffi.def_extern(onerror=None, error=lib.LLM_IO_FAILED)
def edge_llm_write(context: Any, offset: int, data: Any, size: int) -> int:
    """llm_store_t.write"""
    return ffi.from_handle(context).transfer("write", offset, memoryview(ffi.buffer(data, size)))


class _Tokens:
    """What a model's main sequence and its others can do."""

    def _get(self) -> tuple[Any, Any]:
        """The engine's model and sequence; raises ValueError once closed."""
        raise NotImplementedError

    def _owner(self) -> Model:
        raise NotImplementedError

    @property
    def n_tokens(self) -> int:
        return self._get()[1].n_tokens

    def eval(self, tokens: int | Iterable[int]) -> None:
        self._evaluate(tokens, None)

    def eval_step(self, tokens: int | Iterable[int], ms: int) -> int:
        return self._evaluate(tokens, _uint(ms, "ms", 0xFFFF))

    def _evaluate(self, tokens: int | Iterable[int], ms: int | None) -> int:
        """Block by block, so that Ctrl-C is heard in between, or part by part for about `ms`
        milliseconds. Returns how many tokens got through.
        """
        model, sequence = self._get()
        if hasattr(tokens, "__index__"):
            tokens = [tokens]
        ids = array("I", [_token(token, model) for token in tokens])
        n = len(ids)
        done = ffi.new("size_t *")
        function = lib.llm_sequence_eval if ms is None else lib.llm_sequence_eval_part
        start = time.monotonic()
        while ids:
            rest = ffi.from_buffer("uint32_t[]", ids)
            self._owner()._run(function, model, sequence, rest, len(ids), done)
            ffi.release(rest)
            ids = ids[done[0] :]
            if ms is not None and time.monotonic() - start >= ms / 1000:
                break
        return n - len(ids)

    def sample(self, sampler: Sampler) -> int:
        token = ffi.new("uint32_t *")
        _call(lib.llm_sequence_sample, *self._get(), sampler._sampler, token)
        return token[0]

    def logits(self, buf: Any = None) -> Any:
        model, sequence = self._get()
        logits = lib.llm_sequence_logits(model, sequence)
        if logits == ffi.NULL:
            raise ValueError(
                "logits: there are none, evaluate a token first (sampling uses them up)"
            )
        size = 4 * model.image.config.vocab_size
        if buf is None:
            buf = array("f", bytes(size))
        try:
            target = ffi.from_buffer(buf, require_writable=True)
        except BufferError:
            raise TypeError("buf: is read-only") from None
        if len(target) != size:
            raise ValueError(f"buf: has {len(target)} bytes, must have {size}")
        ffi.memmove(target, logits, size)
        return buf

    def rewind(self, n: int) -> None:
        model, sequence = self._get()
        n = _uint(n, "n", sequence.n_tokens, "n_tokens ")
        _call(lib.llm_sequence_rewind, model, sequence, n)

    def reuse(self, tokens: Iterable[int]) -> int:
        model, sequence = self._get()
        ids = array("I", [_token(token, model) for token in tokens])
        content = ffi.from_buffer("uint32_t[]", ids)
        return lib.llm_sequence_reuse(model, sequence, content, len(ids))

    def tokens(self) -> list[int]:
        model, sequence = self._get()
        n = lib.llm_sequence_n_cached(model, sequence)
        return [lib.llm_sequence_token(model, sequence, i) for i in range(n)]

    def save_state(self, file: Any) -> None:
        model, sequence = self._get()
        store = _Store(file, self._owner(), seeks=False)
        store.call(lib.llm_sequence_save, model, sequence, store.store)

    def load_state(self, file: Any) -> None:
        model, sequence = self._get()
        store = _Store(file, self._owner(), seeks=False)
        store.call(lib.llm_sequence_load, model, sequence, store.store)

    def fork(self) -> Sequence:
        model, sequence = self._get()
        fork = Sequence(self._owner())
        lib.llm_sequence_fork(model, fork._sequence, sequence)
        return fork


class Model(_Tokens):
    """An image and the working memory to run it."""

    def __init__(
        self,
        data: Any,
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
        options = ffi.new("llm_options_t *")
        options.context = _uint(context, "context", _UINT32_MAX)
        options.block = _uint(block, "block", _UINT32_MAX)
        options.sequences = _uint(sequences, "sequences", lib.LLM_MAX_SEQUENCES)
        # All of them at once, as far as one pass takes them.
        options.batch = min(options.sequences, lib.LLM_MAX_BLOCK)
        options.cache = _value(cache, _CACHES, "cache: must be None, 'int8', 'f32' or 'int4'")
        options.layout = _value(kv, _LAYOUTS, "kv: must be 'auto', 'static' or 'paged'")
        options.policy = _value(
            policy, _POLICIES, "policy: must be 'slide', 'error' or 'compress'"
        )
        options.ram = _uint(ram, "ram", 256 ** ffi.sizeof("size_t") - 1)
        self._busy = False
        self._store = None
        self._spill = None  # holds the buffer, which then cannot be resized
        if spill is not None:
            self._set_spill(options.spill, spill)
        options.kernels = _find_kernels(kernels)
        options.stream = 0 if stream is True else _uint(stream, "stream", lib.LLM_STREAM_MAX)
        cores = _uint(cores, "cores", lib.llm_port_cores())
        image = ffi.new("llm_image_t *")
        plan = ffi.new("llm_plan_t *")
        self._model = ffi.new("llm_model_t *")
        self._data = None
        self._source: Source | None = None
        self._tables: Any = b""  # of an image in a file: what is in RAM of it
        if stream:
            self._source = data if isinstance(data, Source) else Source(data)
            self._open_source(image, bool(verify))
            if options.ram:
                options.ram = max(options.ram - len(self._tables), 1)
        else:
            self._data = ffi.from_buffer(data)  # holds the buffer, which then cannot be resized
            _call(lib.llm_image_open, image, self._data, len(self._data), bool(verify))
        _call(lib.llm_plan, image, options, plan)
        self._ram = _allocate(plan.total)
        _call(lib.llm_model_init, self._model, image, options, self._ram, plan.total)
        lib.llm_port_parallel(ffi.addressof(self._model, "parallel"), cores)
        self._release = weakref.finalize(self, _release, self._model, self._source)

    def _open_source(self, image: Any, verify: bool) -> None:
        """Open the image behind `self._source`; its tables are read into RAM."""
        source = self._source.struct, self._source.size
        size = ffi.new("size_t *")
        self._run(lib.llm_image_resident, *source, size)
        self._tables = _allocate(size[0])
        self._run(lib.llm_image_open_source, image, *source, verify, self._tables, size[0])

    def _set_spill(self, region: Any, spill: Any) -> None:
        try:
            self._spill = ffi.from_buffer(spill, require_writable=True)
        except TypeError:
            self._store = _Store(spill, self, seeks=True)
            region.store = self._store.store[0]
            region.size = 2**64 - 1  # it grows
        else:
            region.memory = self._spill
            region.size = len(self._spill)

    def _run(self, function: Any, *arguments: Any) -> None:
        """Call the engine for something that may need the spill region or the weights' file."""
        call = _call if self._store is None else self._store.call
        if self._source is None:
            call(function, *arguments)
            return
        self._busy = True
        try:
            call(function, *arguments)
        except OSError:
            error, self._source.error = self._source.error, None
            if error is not None:
                raise error from None
            raise
        finally:
            self._busy = False

    def _open(self) -> Any:
        """The engine's model; raises ValueError once closed."""
        if self._model is None:
            raise ValueError("model: is closed")
        if self._busy:
            raise RuntimeError("model: used by its own stream")
        return self._model

    def _get(self) -> tuple[Any, Any]:
        model = self._open()
        return model, model.kv.sequences

    def _owner(self) -> Model:
        return self

    def sequence(self) -> Sequence:
        return Sequence(self)

    def eval_batch(self, sequences: list[Any], tokens: list[int]) -> None:
        model = self._open()
        if len(sequences) != len(tokens):
            raise ValueError("tokens: must be as many as sequences")
        pairs = [sequence._get() for sequence in sequences]
        if any(other != model for other, _ in pairs):
            raise ValueError("sequences: one is of another model")
        items = ffi.new("llm_sequence_t *[]", [sequence for _, sequence in pairs])
        ids = ffi.new("uint32_t[]", [_token(token, model) for token in tokens])
        done = ffi.new("bool *")
        while not done[0]:
            self._run(lib.llm_model_eval_batch, model, items, ids, len(ids), done)

    def event(self) -> tuple[str, int] | None:
        n = ffi.new("uint32_t *")
        kind = lib.llm_model_event(self._open(), n)
        return (_EVENTS[kind], n[0]) if kind != lib.LLM_EVENT_NONE else None

    @property
    def context(self) -> int:
        return self._open().plan.context

    @property
    def block(self) -> int:
        return self._open().plan.block

    @property
    def cache(self) -> str:
        return _name(self._open().plan.cache, _CACHES)

    @property
    def kv(self) -> str:
        return _name(self._open().plan.layout, _LAYOUTS)

    @property
    def policy(self) -> str:
        return _name(self._open().plan.policy, _POLICIES)

    @property
    def kernels(self) -> str:
        return _kernels_name(self._open().kernels)

    @property
    def cores(self) -> int:
        return self._open().parallel.n_cores

    @property
    def vocab_size(self) -> int:
        return self._open().image.config.vocab_size

    @property
    def bos_id(self) -> int:
        return self._open().image.tokenizer.bos_id

    @property
    def eos_id(self) -> int:
        return self._open().image.tokenizer.eos_id

    @property
    def add_bos(self) -> bool:
        return self._open().image.tokenizer.add_bos

    def config(self) -> dict[str, Any]:
        model = self._open()
        config = model.image.config
        matrices = [model.token_embd]
        n_vectors = 1 + 2 * config.n_layers  # norms
        if not config.tied:
            matrices.append(model.output)
        for i in range(config.n_layers):
            layer = model.layers[i]
            matrices += [getattr(layer, name) for name in _MATRICES]
        used = {matrix.dtype for matrix in matrices}
        return {
            "vocab_size": config.vocab_size,
            "dim": config.dim,
            "hidden_dim": config.hidden_dim,
            "n_layers": config.n_layers,
            "n_heads": config.n_heads,
            "n_kv_heads": config.n_kv_heads,
            "head_dim": config.head_dim,
            "context": config.context,
            "norm_eps": config.norm_eps,
            "rope_theta": config.rope_theta,
            "rope": _ROPES[config.rope],
            "tied": config.tied,
            "dtype": "+".join(name for dtype, name in _DTYPES.items() if dtype in used),
            "n_parameters": sum(tensor.rows * tensor.cols for tensor in matrices)
            + n_vectors * config.dim,
        }

    def memory(self) -> dict[str, int]:
        model = self._open()
        tokenizer = model.image.tokenizer
        plan = model.plan
        kv = model.kv
        ram = {
            "object": ffi.sizeof("llm_model_t"),
            "tensors": plan.tensors,
            "sequences": plan.sequence_tables,
            "kv": plan.kv,
            "activations": plan.activations,
            "logits": plan.logits,
            "tokens": plan.tokens,
            "stream": len(self._tables) + plan.stream,
        }
        return {
            "image": model.image.size,
            "weights": model.image.tensor_data_size,
            "tokenizer": tokenizer.size,
            **ram,
            "ram": sum(ram.values()),
            "kv_used": (kv.n_units[0] - kv.n_free[0]) * kv.unit_size,
            "spill": kv.n_units[1] * kv.unit_size,
            "spill_used": (kv.n_units[1] - kv.n_free[1]) * kv.unit_size,
        }

    def card(self) -> str:
        image = self._open().image
        return ffi.unpack(image.card, image.card_size).decode() if image.card_size else ""

    def hash(self) -> bytes:
        return bytes(ffi.buffer(self._open().image.hash, 32))

    def verify(self) -> None:
        image = ffi.addressof(self._open(), "image")
        size = _VERIFY_SIZE if self._source else 0
        self._run(lib.llm_image_verify, image, _allocate(size), size)

    def stream_stats(self) -> dict[str, Any]:
        stream = self._open().stream
        if stream == ffi.NULL:
            raise ValueError("stream: the weights are in memory")
        return {
            "bytes": stream.bytes,
            "waited_ms": stream.waited // 1000,
            "total_ms": stream.total // 1000,
            "waiting": stream.waited / stream.total if stream.total else 0.0,
            "range": stream.range_size,
            "latency_us": int(stream.latency),
            "bytes_per_s": int(stream.rate * 1e6),
        }

    def encode(self, text: Any, bos: bool | None = None, special: bool = False) -> list[int]:
        model = self._open()
        tokenizer = ffi.addressof(model.image, "tokenizer")
        content = ffi.from_buffer("char[]", text.encode() if isinstance(text, str) else text)
        size = len(content)
        scratch_size = lib.llm_encode_scratch(tokenizer, content, size, bool(special))
        scratch = _allocate(scratch_size)
        capacity = tokenizer.tokens_per_byte * size + 2
        ids = ffi.new("uint32_t[]", capacity)
        n = ffi.new("size_t *")
        bos = tokenizer.add_bos if bos is None else bool(bos)
        _call(
            lib.llm_encode,
            tokenizer,
            content,
            size,
            bos,
            bool(special),
            ids,
            capacity,
            n,
            scratch,
            scratch_size,
        )
        return ffi.unpack(ids, n[0]) if n[0] else []

    def piece(self, token: int) -> bytes:
        model = self._open()
        return _piece(model, _token(token, model))

    def close(self) -> None:
        if self._model is not None:
            self._open()  # not while it is busy
            self._release()
        self._model = self._ram = self._data = self._spill = self._store = None
        self._source = self._tables = None

    def __enter__(self) -> Model:
        self._open()
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class Sequence(_Tokens):
    """A sequence of a model beside its main one."""

    def __init__(self, model: Model) -> None:
        opened = model._open()
        self._model = model
        self._sequence = lib.llm_sequence_open(opened)
        if self._sequence == ffi.NULL:
            raise ValueError(
                f"sequences: all {opened.plan.sequences} are in use, close one or load the model "
                "with more"
            )

    def _get(self) -> tuple[Any, Any]:
        model = self._model._open()
        if self._sequence is None:
            raise ValueError("sequence: is closed")
        return model, self._sequence

    def _owner(self) -> Model:
        return self._model

    def close(self) -> None:
        if self._sequence is not None and self._model._model is not None:
            lib.llm_sequence_close(self._model._open(), self._sequence)
        self._sequence = None

    def __enter__(self) -> Sequence:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


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
        self._sampler = ffi.new("llm_sampler_t *")
        self._sampler.temperature = temperature
        self._sampler.top_k = _uint(top_k, "top_k", _UINT32_MAX)
        self._sampler.top_p = top_p
        self._sampler.min_p = min_p
        self._sampler.repetition_penalty = repetition_penalty
        self._sampler.repeat_last_n = _uint(repeat_last_n, "repeat_last_n", _UINT32_MAX)
        self._sampler.state = _uint(seed, "seed", 2**64 - 1)
        _call(lib.llm_sampler_check, self._sampler)


class Decoder:
    """Turns ids into text, in whole characters however their bytes are split over tokens, and
    without escape sequences but those that `ansi` names.
    """

    def __init__(self, model: Model, *, start: bool = True, ansi: str | None = None) -> None:
        self._model = model
        self._start = start
        self._text = ffi.new("llm_text_t *", {"ansi": _ansi(ansi)})
        self._begin()

    def _begin(self) -> None:
        prefixed = self._model._open().image.tokenizer.add_space_prefix
        self._drop_space = self._start and prefixed

    def feed(self, token: int) -> str:
        piece = self._model.piece(token)
        if piece and self._drop_space:
            self._drop_space = False
            piece = piece.removeprefix(b" ")
        out = ffi.new("uint8_t[]", _text_max(len(piece)))
        size = lib.llm_text_feed(self._text, ffi.from_buffer("uint8_t[]", piece), len(piece), out)
        return bytes(ffi.buffer(out, size)).decode()

    def finish(self) -> str:
        self._begin()
        out = ffi.new("uint8_t[]", _text_max(0))
        return bytes(ffi.buffer(out, lib.llm_text_finish(self._text, out))).decode()


def _release(model: Any, source: Source | None) -> None:
    """Give back what no garbage collector knows of."""
    if source is not None:
        source.close()
    lib.llm_port_parallel_end(ffi.addressof(model, "parallel"))


def _call(function: Any, *arguments: Any) -> None:
    """Call the engine and raise the exception for its error."""
    error = ffi.new("llm_error_t *")
    status = function(*arguments, error)
    if status == lib.LLM_OK:
        return
    message = ffi.string(error.message).decode(errors="replace")
    if status == lib.LLM_ERROR_MEMORY:
        raise MemoryError(message)
    if status == lib.LLM_ERROR_STORAGE:
        raise OSError(message)
    raise UnicodeError(message) if status == lib.LLM_ERROR_UTF8 else ValueError(message)


def _allocate(size: int) -> Any:
    """`size` bytes at a multiple of LLM_ALIGNMENT."""
    try:
        block = bytearray(size + lib.LLM_ALIGNMENT)
    except MemoryError:
        raise MemoryError(f"the model needs one block of {size} bytes of RAM") from None
    start = -int(ffi.cast("uintptr_t", ffi.from_buffer(block))) % lib.LLM_ALIGNMENT
    return ffi.from_buffer(memoryview(block)[start : start + size])


def _uint(value: Any, name: str, limit: int, what: str = "") -> int:
    message = f"{name}: must be an int from 0 to {what}{limit}"
    try:
        value = operator.index(value)
    except TypeError:
        raise TypeError(message) from None
    if not 0 <= value <= limit:
        raise ValueError(message)
    return value


def _token(token: int, model: Any) -> int:
    return _uint(token, "token", model.image.config.vocab_size - 1)


def _piece(model: Any, token: int) -> bytes:
    size = ffi.new("uint32_t *")
    piece = lib.llm_piece(ffi.addressof(model.image, "tokenizer"), token, size)
    return bytes(ffi.buffer(piece, size[0])) if size[0] else b""


def _text_max(size: int) -> int:
    """LLM_TEXT_MAX, a macro that cffi does not see."""
    return 3 * size + 3 + lib.LLM_SEQUENCE_HELD


def _ansi(name: str | None) -> int:
    if name is not None and not isinstance(name, str):
        raise TypeError("ansi: must be a str or None")
    if name not in _ANSI:
        raise ValueError(f"ansi: must be None, 'color' or 'raw', not '{name}'")
    return _ANSI[name]


def _value(name: str | None, values: dict[Any, int], what: str) -> int:
    """The engine's value for `name`."""
    if name not in values:
        if not isinstance(name, str):
            raise TypeError(what)
        raise ValueError(f"{what}, not '{name}'")
    return values[name]


def _name(value: int, values: dict[Any, int]) -> str:
    """The name of the engine's `value`."""
    return next(name for name, known in values.items() if known == value)


def _find_kernels(name: str | None) -> Any:
    if name is not None and not isinstance(name, str):
        raise TypeError("kernels: must be a str or None")
    source = "kernels"
    if name is None and os.environ.get("LLM_KERNELS"):
        source = "environment variable LLM_KERNELS"
        name = os.environ["LLM_KERNELS"]
    found = lib.llm_kernels_find(ffi.NULL if name is None else name.encode())
    if found == ffi.NULL:
        raise ValueError(f"{source}: no '{name}' on this machine, kernels() lists what there is")
    return found


def _kernels_name(found: Any) -> str:
    return ffi.string(lib.llm_kernels_name(found)).decode()
