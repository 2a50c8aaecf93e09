"""Weights that are not mapped: the same bits, in the order they are needed, and honest errors."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import edge_llm.llm as llm
import pytest
from edge_llm import engine
from edge_llm.image import Config, Dtype
from oracle_models import make_image, random_planes
from storage import Storage

VECTORS = Path(__file__).resolve().parents[1] / "vectors"

# Odd widths, more rows than a buffer of scales holds, and every type of matrix.
MIXED = Config(1031, 72, 172, 3, 6, 2, 12, 64, tied=False)
DTYPES = (Dtype.INT4, Dtype.INT8, Dtype.F32)


def dtype_of(name: str, layer: int | None) -> Dtype:
    return DTYPES[(len(name) + (layer or 0)) % 3]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("stream") / "mixed.llm"
    return make_image(path, MIXED, dtype_of, random_planes(7))


@pytest.fixture(scope="module")
def images(mixed: bytes) -> list[bytes]:
    return [mixed, *(path.read_bytes() for path in sorted(VECTORS.glob("*.llm")))]


def logits(model: engine.Model) -> str:
    """A digest of the logits after a prompt of several blocks and after single tokens."""
    digest = hashlib.sha256()
    model.rewind(0)
    for part in [list(range(1, 20)), *range(20)]:
        model.eval(part)
        digest.update(bytes(model.logits()))
    return digest.hexdigest()


def in_memory(image: bytes) -> str:
    with engine.Model(image) as model:
        return logits(model)


@pytest.mark.parametrize("kernels", engine.kernels())
@pytest.mark.parametrize("stream", [True, 1, 1000, 5000, 131072])
def test_logits_are_those_of_the_image_in_memory(
    images: list[bytes], stream: bool | int, kernels: str
) -> None:
    for image in images:
        for background in (True, False):
            storage = Storage(image, jitter=3, background=background)
            with engine.Model(storage, stream=stream, kernels=kernels) as model:
                assert logits(model) == in_memory(image)


def test_two_cores_and_a_stream(mixed: bytes) -> None:
    with engine.Model(io.BytesIO(mixed), stream=1000, cores=2) as model:
        model._model.parallel.min_macs = 0
        assert logits(model) == in_memory(mixed)


def test_sequences_together(mixed: bytes) -> None:
    def texts(model: engine.Model) -> list[bytes]:
        sequences = [model.sequence() for _ in range(3)]
        for i, sequence in enumerate(sequences):
            sequence.eval([5 * i + 1, 2, 3])
        model.eval_batch(sequences, [7, 8, 9])
        return [bytes(sequence.logits()) for sequence in sequences]

    with engine.Model(mixed, sequences=3) as model:
        want = texts(model)
    with engine.Model(Storage(mixed), stream=2000, sequences=3) as model:
        assert texts(model) == want


def test_a_block_reads_each_weight_once(mixed: bytes) -> None:
    storage = Storage(mixed)
    with engine.Model(storage, stream=1000) as model:
        layers, head = model._model.layers, model._model.output
        names = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
        matrices = [getattr(layers[i], name) for i in range(3) for name in names]

        def size(matrix: Any) -> int:
            if matrix.dtype == engine.lib.LLM_F32:
                return 4 * matrix.rows * matrix.cols
            tiles, groups = -(-matrix.rows // 4), -(-matrix.cols // 32)
            code = 16 if matrix.dtype == engine.lib.LLM_INT4 else 32
            return tiles * 4 * (groups * (code + 1) + 4)

        for tokens, needs in (([1, 2, 3], [*matrices, head]), (4, [*matrices, head])):
            storage.log.clear()
            model.eval(tokens)
            n_tokens = len(tokens) if isinstance(tokens, list) else 1
            pieces = 3 if model._model.token_embd.dtype != engine.lib.LLM_F32 else 1
            log = storage.log[1 + pieces * n_tokens :]  # after the header and the embedding
            assert storage.log[0] == (0, 64)
            assert sum(n for _, n in log) == sum(size(matrix) for matrix in needs)
            ends = sorted((offset, offset + n) for offset, n in log)
            assert all(end <= start for (_, end), (start, _) in zip(ends, ends[1:], strict=False))
        # A prompt's first blocks do without the head, and so do its reads.
        storage.log.clear()
        model.eval(list(range(9)))
        assert sum(n for _, n in storage.log) < 2 * sum(size(m) for m in matrices) + size(
            head
        ) + 9 * 3 * size(model._model.token_embd)


# --------------------------------------------------------------------------------------- the size


def read_sizes(storage: Storage, model: engine.Model) -> set[int]:
    """Sizes of the reads of a token."""
    storage.log.clear()
    model.rewind(0)
    model.eval(1)
    return {size for _, size in storage.log}


WIDE = Config(512, 1024, 1024, 1, 8, 8, 128, 64, tied=True)
TILE = 4 * 1024 // 2  # bytes of codes of a tile of four rows of int4


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("stream") / "wide.llm"
    return make_image(path, WIDE, Dtype.INT4, random_planes(8))


def settle(storage: Storage, model: engine.Model) -> int:
    """Bytes of a range once the storage is known."""
    for _ in range(40):
        model.rewind(0)
        model.eval(1)
    return model.stream_stats()["range"]


@pytest.mark.parametrize(
    ("latency", "rate", "wanted"),
    [
        (100, 10, 16 * 100 * 10),  # sixteen latencies
        (50, 100, 16 * 50 * 100),
        (1000, 40, 131072),  # 640,000 are more than a buffer holds
        (10000, 1, 40000),  # 50 ms, less the latency
        (5000, 2, 90000),
        (60000, 1, 60000),  # a latency, if that alone is longer
        (500, 0.1, 16 * 500 * 0.1),  # slow: less than a tile
    ],
)
def test_ranges_are_as_large_as_the_storage_needs(
    wide: bytes, latency: float, rate: float, wanted: float
) -> None:
    storage = Storage(wide, latency=latency, rate=rate)
    with engine.Model(storage, stream=131072) as model:
        got = settle(storage, model)
        assert got == pytest.approx(wanted, rel=0.05)
        whole_tiles = max(got // TILE, 1) * TILE
        sizes = read_sizes(storage, model)
        assert whole_tiles in sizes and max(sizes) <= max(got, TILE)
        stats = model.stream_stats()
        assert stats["latency_us"] == pytest.approx(latency, rel=0.02)
        assert stats["bytes_per_s"] == pytest.approx(rate * 1e6, rel=0.05)


def test_ranges_shrink_while_the_storage_is_busy(wide: bytes) -> None:
    storage = Storage(wide, latency=300, rate=20, jitter=0.3)
    with engine.Model(storage, stream=131072) as model:
        quiet = settle(storage, model)
        storage.rate, storage.latency = 2, 600
        busy = settle(storage, model)
        storage.rate, storage.latency = 20, 300
        assert busy < quiet / 3
        assert settle(storage, model) == pytest.approx(quiet, rel=0.3)


def test_jitter_moves_the_size_but_not_the_bits(wide: bytes) -> None:
    want = in_memory(wide)
    seen = set()
    for seed in range(5):
        storage = Storage(wide, jitter=20, seed=seed)
        with engine.Model(storage, stream=131072) as model:
            assert logits(model) == want
            seen.add(model.stream_stats()["range"])
    assert len(seen) > 1


# ------------------------------------------------------------------------------------ the waiting


def waiting(image: bytes, **settings: float) -> tuple[float, float]:
    """The share of a token's time that is spent waiting, and that time in us."""
    storage = Storage(image, **settings)
    with engine.Model(storage, stream=131072) as model:
        storage.attach(model)
        settle(storage, model)
        before = dict(model.stream_stats())
        start = storage.time
        for _ in range(10):
            model.rewind(0)
            model.eval(1)
        after = model.stream_stats()
        spent = after["total_ms"] - before["total_ms"]
        assert spent == pytest.approx((storage.time - start) / 1000, abs=2)
        return (after["waited_ms"] - before["waited_ms"]) / spent, (storage.time - start) / 10


def test_reading_and_computing_overlap(wide: bytes) -> None:
    size = 7 * 1024 * 1024 // 2 + 512 * 1024 // 2
    # Twice as long to compute as to read: what is waited for is the first range and the latencies.
    share, spent = waiting(wide, latency=20, rate=10, compute=0.2)
    assert share < 0.05
    assert spent == pytest.approx(0.2 * size, rel=0.15)
    # Twice as long to read: half of it is waited for.
    share, spent = waiting(wide, latency=20, rate=10, compute=0.05)
    assert 0.45 < share < 0.6
    assert spent == pytest.approx(0.1 * size, rel=0.3)
    # Without a background, reading is waiting.
    share, spent = waiting(wide, latency=20, rate=10, compute=0.2, background=False)
    assert share == pytest.approx(1 / 3, abs=0.05)
    assert spent == pytest.approx(0.3 * size, rel=0.15)


# ------------------------------------------------------------------------------------- the errors


class Fault:
    """Lets the `n`-th read from now on fail."""

    def __init__(self, n: int, error: BaseException) -> None:
        self.left = n
        self.error = error

    def __call__(self, offset: int) -> None:
        self.left -= 1
        if self.left == 0:
            raise self.error


@pytest.mark.parametrize("background", [True, False])
def test_any_read_may_fail_and_the_model_goes_on(mixed: bytes, background: bool) -> None:
    storage = Storage(mixed, background=background)
    with engine.Model(storage, stream=700) as model:
        want = logits(model)
        model.rewind(0)
        model.eval(1)
        storage.log.clear()
        model.eval([2, 3])
        n_reads = len(storage.log)
        wanted = bytes(model.logits())
        assert n_reads > 100
        for n in [*range(1, 12), *range(12, n_reads, 17), n_reads]:
            model.rewind(1)
            storage.fail(Fault(n, OSError(5, "no card")))
            with pytest.raises(OSError, match="^.Errno 5. stream: .* bytes at [0-9]+: .*no card"):
                model.eval([2, 3])
            assert model.n_tokens == 1
            with pytest.raises(ValueError, match="logits"):
                model.logits()
            storage.fail()
            model.eval([2, 3])
            assert bytes(model.logits()) == wanted
        assert logits(model) == want


def test_ctrl_c_in_a_read(mixed: bytes) -> None:
    storage = Storage(mixed)
    with engine.Model(storage, stream=700) as model:
        want = logits(model)
        model.rewind(0)
        storage.fail(Fault(30, KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            model.eval([1, 2, 3])
        assert model.n_tokens == 0
        assert logits(model) == want


class File(io.BytesIO):
    """Gives as few bytes at a time as it likes."""

    def readinto(self, buffer: Any) -> int:
        return super().readinto(memoryview(buffer)[: max(len(buffer) // 3, 1)])


def test_a_file_that_gives_little_at_a_time(mixed: bytes) -> None:
    with engine.Model(File(mixed), stream=True) as model:
        assert logits(model) == in_memory(mixed)


def changed(change: Callable[[File], None], mixed: bytes) -> pytest.ExceptionInfo[OSError]:
    """What a token raises after the file has changed."""
    file = File(mixed)
    with engine.Model(file, stream=True) as model:
        model.eval(1)
        change(file)
        with pytest.raises(OSError, match="^stream: ") as raised:
            model.eval(2)
        assert model.n_tokens == 1
        file.seek(0)
        if not file.closed and file.getvalue() != mixed:
            file.truncate(0)
            file.write(mixed)
            model.eval(2)
        return raised


def test_a_file_that_is_cut(mixed: bytes) -> None:
    end = len(mixed) // 2
    raised = changed(lambda file: file.truncate(end), mixed)
    assert raised.match("stream: [0-9]+ bytes at [0-9]+: it ends at [0-9]+")


def test_another_image_in_its_place(mixed: bytes) -> None:
    other = (VECTORS / "tiny-int4.llm").read_bytes()

    def replace(file: File) -> None:
        file.seek(0)
        file.truncate(0)
        file.write(other)

    assert changed(replace, mixed).match("stream: it is not the image that was opened")


def test_a_file_that_is_closed(mixed: bytes) -> None:
    file = File(mixed)
    with engine.Model(file, stream=True) as model:
        file.close()
        with pytest.raises(OSError, match="^stream: 64 bytes at 0: .*closed"):
            model.eval(2)


def test_files_that_are_no_images(mixed: bytes) -> None:
    for content, kind, message in (
        (b"", ValueError, "header: 0 bytes are too few"),
        (bytes(1000), ValueError, "magic"),
        (mixed[:-64], ValueError, "truncated"),
        (mixed[:70], ValueError, "truncated"),
    ):
        with pytest.raises(kind, match=message):
            engine.Model(io.BytesIO(content), stream=True)


def test_damage_is_found_when_it_is_looked_for(mixed: bytes) -> None:
    damaged = bytearray(mixed)
    damaged[-300_000] ^= 1
    with pytest.raises(ValueError, match="section DATA: crc"):
        engine.Model(io.BytesIO(damaged), stream=True)
    with engine.Model(io.BytesIO(damaged), stream=True, verify=False) as model:
        with pytest.raises(ValueError, match="section DATA: crc"):
            model.verify()
        model.eval(1)
    file = io.BytesIO(mixed)
    with engine.Model(file, stream=True) as model:
        model.verify()
        file.seek(64)
        file.write(b"\xff" * 4)
        with pytest.raises(ValueError, match="header"):
            model.verify()


@pytest.mark.parametrize(
    ("stream", "kind"),
    [(-1, ValueError), (131073, ValueError), (1.5, TypeError), ("x", TypeError)],
)
def test_bad_sizes(mixed: bytes, stream: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="stream: must be"):
        engine.Model(io.BytesIO(mixed), stream=stream)


def test_the_ram_it_takes(wide: bytes) -> None:
    with engine.Model(wide) as model:
        memory = model.memory()
        assert memory["stream"] == 0
        with pytest.raises(ValueError, match="in memory"):
            model.stream_stats()
    streams = []
    for stream in (1, 4096, True, 131072):
        with engine.Model(io.BytesIO(wide), stream=stream) as model:
            got = model.memory()
            streams.append(got["stream"])
            assert got["ram"] == memory["ram"] + got["stream"]
            assert {**got, "stream": 0, "ram": 0} == {**memory, "stream": 0, "ram": 0}
    tables = memory["image"] - memory["weights"]
    assert tables < streams[0] < streams[1] < streams[2] < streams[3]
    assert streams[2] - streams[1] == pytest.approx(3 * (32768 - 4096), rel=0.1)


# ----------------------------------------------------------------------------------- `import llm`


def test_load_opens_and_closes_a_path(mixed: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.llm"
    path.write_bytes(mixed)
    model = llm.load(path, stream=True)
    assert logits(model) == in_memory(mixed)
    model.verify()
    file = model._file
    model.close()
    model.close()
    assert file.closed
    with pytest.raises(FileNotFoundError, match="absent"):
        llm.load(tmp_path / "absent.llm", stream=True)
    path.write_bytes(bytes(100))
    with pytest.raises(ValueError, match=r"model\.llm: magic"):
        llm.load(path, stream=True)


def test_a_file_of_the_callers_stays_open(mixed: bytes) -> None:
    file = io.BytesIO(mixed)
    with llm.load(file, stream=True):
        pass
    assert not file.closed


def test_verify_reads_the_whole_file(mixed: bytes) -> None:
    damaged = bytearray(mixed)
    damaged[-40] ^= 1  # in the hash
    with llm.load(io.BytesIO(damaged), stream=True) as model:
        with pytest.raises(ValueError, match="SHA-256"):
            model.verify()


@pytest.mark.parametrize("source", [3, None, b"bytes", object()])
def test_what_cannot_be_streamed(source: object) -> None:
    with pytest.raises(TypeError, match="stream: needs a path, a binary file or a block device"):
        llm.load(source, stream=True)


# --------------------------------------------------------------------------------- on MicroPython

USED = """
import llm
class File:
    def __init__(self, data):
        self.data = data
        self.at = 0
        self.action = None
        self.result = 0
    def seek(self, offset, whence=0):
        self.at = offset if whence == 0 else len(self.data)
        return self.at
    def readinto(self, buf):
        n = len(buf)
        buf[:] = self.data[self.at : self.at + n]
        self.at += n
        if self.action:
            self.action()
        return n if self.result == 0 else self.result
file = File(open(IMAGE, "rb").read())
model = llm.load(file, stream=1000)
model.eval([1, 2, 3])
want = bytes(model.logits())
for action in (
    lambda: model.eval(1),
    lambda: model.rewind(0),
    lambda: model.close(),
    lambda: model.memory(),
    lambda: model.n_tokens,
    lambda: 1 / 0,
):
    file.action = action
    try:
        model.eval(4)
    except Exception as error:
        print(type(error).__name__, error)
    file.action = None
    model.rewind(0)
    model.eval([1, 2, 3])
    assert bytes(model.logits()) == want
for bad in (-1, 2**40, None, "x", 100000):
    file.result = bad
    try:
        model.eval(4)
    except Exception as error:
        print(type(error).__name__, error.args[-1][:8])
"""


@pytest.mark.parametrize("port", ["unix", "unix_asan"])
def test_python_code_that_is_called_to_read(port: str, request: pytest.FixtureRequest) -> None:
    run = request.getfixturevalue(port)
    out = run(USED, IMAGE=str(VECTORS / "tiny-int4.llm")).splitlines()
    assert out[:5] == ["RuntimeError model: used by its own stream"] * 5
    assert out[5] == "ZeroDivisionError divide by zero"
    assert out[6:] == [
        "OSError stream: ",
        "OSError stream: ",
        "OSError stream: ",
        "TypeError can't co",
        "OSError stream: ",
    ]


NOTHING_GROWS = """
import gc, llm
before = ram = 0
def run(n):
    for i in range(n):
        if model.n_tokens == model.context:
            model.rewind(0)
        model.eval(i % 200)
with open(IMAGE, "rb") as file:
    model = llm.load(file, stream=700)
    run(3)
    gc.collect()
    before = gc.mem_alloc()
    run(100)
    gc.collect()
    print(gc.mem_alloc() - before)
    ram = model.memory()["ram"]
    gc.collect()
    before = gc.mem_alloc()
    model.close()
    gc.collect()
    print(ram - 3000 < before - gc.mem_alloc() <= ram + 100)
hold = []
try:
    while True:
        hold.append(bytearray(1000))
except MemoryError:
    for _ in range(5):
        hold.pop()
failed = set()
while True:  # with a little more each time
    try:
        llm.load(IMAGE, stream=1, block=16).close()
        break
    except MemoryError as error:
        text = error.args[0]
        failed.add(text[: text.find(" one block of")])
    for _ in range(3):
        hold.pop()
print(sorted(failed))
"""


@pytest.mark.parametrize("port", ["unix", "unix_asan"])
def test_the_heap_is_left_alone(port: str, request: pytest.FixtureRequest) -> None:
    run = request.getfixturevalue(port)
    out = run(NOTHING_GROWS, IMAGE=str(VECTORS / "tiny-int4.llm")).splitlines()
    assert out == ["0", "True", str(["the image's tables need", "the model needs"])]
