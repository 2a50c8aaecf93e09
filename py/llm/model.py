"""Models and their tokenizers."""

import json
import struct

from . import hal

MAGIC = b"\x89LLM\r\n\x1a\n"


class Model(hal.engine.Model):
    """A model that is ready to run: an image, read in place, and the RAM to run it. `load` makes
    one.
    """

    def __init__(
        self,
        data,
        *,
        context=0,
        cache=None,
        kv="auto",
        policy="slide",
        sequences=0,
        ram=0,
        spill=None,
        kernels=None,
        block=0,
        cores=0,
        stream=False,
        verify=True,
    ):
        super().__init__(
            data,
            context=context,
            cache=cache,
            kv=kv,
            policy=policy,
            sequences=sequences,
            ram=ram,
            spill=spill,
            kernels=kernels,
            block=block,
            cores=cores,
            stream=stream,
            verify=verify,
        )
        self._buffer = data
        self._file = None  # to be closed with the model
        self._closed = False
        self._n_runs = 0  # texts begun, so that one can tell that another has taken the cache

    def __repr__(self):
        if self._closed:
            return "<Model, closed>"
        try:
            name = json.loads(self.card())["name"]
        except (ValueError, KeyError, TypeError):
            name = "without a name"
        config = self.config()
        return (
            f"<Model {name}: {config['n_parameters']:,} parameters in {config['dtype']}, "
            f"context {self.context}, {self.memory()['ram']:,} bytes of RAM>"
        )

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def close(self):
        """Frees the RAM at once. Any later use but `close` and `repr` raises ValueError."""
        super().close()
        if self._file:
            self._file.close()
        self._closed = True
        self._buffer = self._file = None

    def _reader(self):
        """A function that returns the bytes of the image from one offset to another."""
        data = self._buffer
        if not hasattr(data, "readinto"):
            view = memoryview(data)
            return lambda start, end: view[start:end]

        def read(start, end):
            buf = bytearray(end - start)
            data.seek(start)
            if not _fill(buf, data):
                raise OSError(f"stream: ends before {end}")
            return buf

        return read

    def verify(self):
        """Checks every byte: the checksum of each section, then the SHA-256 of the image.

        Raises ValueError that names what is wrong. Time in proportion to the size.
        """
        super().verify()
        read = self._reader()
        # Section table: docs/image-format.md.
        (n_sections,) = struct.unpack_from("<I", read(0, 64), 16)
        table = read(64, 64 + 16 * n_sections)
        for i in range(n_sections):
            kind, end, _, _ = struct.unpack_from("<4sIII", table, 16 * i)
            if kind == b"HASH":
                break
        sha256 = hal.sha256()
        for at in range(0, end, 4096):
            sha256.update(read(at, min(at + 4096, end)))
        if sha256.digest() != self.hash():
            raise ValueError("section HASH: is not the SHA-256 of the image")


class Tokenizer:
    """The tokenizer of a model. `len` is the number of tokens; `bos` and `eos` are ids, or
    None.
    """

    def __init__(self, model):
        self._model = model
        self.bos = model.bos_id if model.bos_id >= 0 else None
        self.eos = model.eos_id if model.eos_id >= 0 else None

    def __len__(self):
        return self._model.vocab_size

    def __repr__(self):
        return f"<Tokenizer: {len(self)} tokens, bos {self.bos}, eos {self.eos}>"

    def encode(self, text, bos=False, special=False):
        """The ids of `text` (str, or UTF-8 in any buffer), after the begin-of-text token if
        `bos`. With `special`, names of control tokens in it are these tokens.
        """
        return self._model.encode(text, bos, special)

    def decode(self, ids):
        """The text of `ids`, escape sequences and all; control tokens have none, and what is not
        UTF-8 becomes U+FFFD.
        """
        decoder = hal.engine.Decoder(self._model, ansi="raw")
        return "".join([decoder.feed(token) for token in ids]) + decoder.finish()


def load(
    source,
    *,
    context=0,
    cache=None,
    kv="auto",
    policy="slide",
    sequences=0,
    ram=0,
    spill=None,
    kernels=None,
    block=0,
    cores=0,
    stream=False,
    verify=True,
):
    """Makes a model ready to run. See `__init__.pyi` for sources, arguments and exceptions."""
    if hasattr(source, "__fspath__"):
        source = source.__fspath__()
    file = None
    try:
        if stream:
            file, data = _stream(source)
        elif isinstance(source, str):
            data = _open(source)
        elif isinstance(source, int):
            data = _mapped(source)
        elif isinstance(source, tuple):
            data = _mapped(*source)
        else:
            data = source
        model = Model(
            data,
            context=context,
            cache=cache,
            kv=kv,
            policy=policy,
            sequences=sequences,
            ram=ram,
            spill=spill,
            kernels=kernels,
            block=block,
            cores=cores,
            stream=stream,
            verify=verify,
        )
        model._file, file = file, None
        return model
    except ValueError as error:
        if isinstance(source, str):
            raise ValueError(f"{source}: {error}") from None
        raise
    finally:
        if file:
            file.close()


def _stream(source):
    """What `source` is read from, piece by piece: the file that this opened or None, and what to
    read.
    """
    if isinstance(source, str):
        try:
            file = open(source, "rb")
        except OSError as error:
            raise hal.with_path(error, source) from None
        return file, file
    if hasattr(source, "readblocks"):
        from .blocks import BlockFile

        return None, BlockFile(source)
    if not hasattr(source, "readinto"):
        raise TypeError("stream: needs a path, a binary file or a block device")
    return None, source


def _open(path):
    """The bytes of a file: in place where that can be, else in RAM."""
    if path.startswith("partition:"):
        raise OSError("flash partitions cannot be mapped on this port: load a path or an address")
    try:
        data = _read(path)
    except OSError as error:
        raise hal.with_path(error, path) from None
    if not len(data):
        raise ValueError("the file is empty")
    return data


def _read(path):
    with open(path, "rb") as file:
        data = hal.view(file)
        if data is not None:
            return data
        file.read(1)  # fails for a directory, which some systems open and give a size
        size = file.seek(0, 2)
        file.seek(0)
        try:
            data = bytearray(size)
        except MemoryError:
            raise MemoryError(
                f"{path}: needs one block of {size} bytes of RAM, {hal.mem_free()} are free: "
                "put it into ROMFS, where it is read in place"
            ) from None
        if not _fill(data, file):
            raise OSError("ends before its size")
        return data


def _fill(buf, file):
    """Reads until `buf` is full; False if the file ends before."""
    rest = memoryview(buf)
    while rest:
        n = file.readinto(rest)
        if not n:
            return False
        rest = rest[n:]
    return True


def _mapped(address, size=None):
    """The bytes of an image in mapped flash; its header says how many if `size` is None."""
    for value in (address, size or 0):
        if not isinstance(value, int):
            raise TypeError("address, size: must be ints")
        if value < 0:
            raise ValueError("address, size: must be 0 or more")
    if address == 0 or address % 16 != 0:  # before anything is read there
        raise ValueError(f"address {address:#x}: must be a multiple of 16 and not 0")
    if size is None:
        header = hal.mapped(address, 64)
        if header[:8] != MAGIC:
            raise ValueError(f"address {address:#x}: no model image begins there")
        (size,) = struct.unpack_from("<I", header, 12)
    return hal.mapped(address, size)
