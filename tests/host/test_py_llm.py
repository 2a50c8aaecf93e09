"""The package `llm` on CPython: its stubs, its files, its texts and its streams."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import edge_llm.engine
import edge_llm.llm as llm
import pytest
from edge_llm.llm import generator
from edge_llm.llm.manual import TEXT
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "py" / "llm"
VECTORS = ROOT / "tests" / "vectors"

# -------------------------------------------------------------------------------------- the stubs

Function = ast.FunctionDef | ast.AsyncFunctionDef
STUBS = {"__init__": llm, "_llm": edge_llm.engine}


def stub(name: str) -> list[ast.stmt]:
    return ast.parse((PACKAGE / f"{name}.pyi").read_text()).body


def is_type_only(node: ast.ClassDef) -> bool:
    bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
    return bool(bases & {"TypedDict", "Protocol"})


def parameters(node: Function) -> list[tuple[str, str, str]]:
    """(name, kind, default) of each parameter, as the stub has them."""
    a = node.args
    found = []
    positional = [*a.posonlyargs, *a.args]
    defaults = [None] * (len(positional) - len(a.defaults)) + list(a.defaults)
    for arg, default in zip(positional, defaults, strict=True):
        found.append((arg.arg, "positional", ast.unparse(default) if default else ""))
    if a.vararg:
        found.append((a.vararg.arg, "rest", ""))
    for arg, default in zip(a.kwonlyargs, a.kw_defaults, strict=True):
        found.append((arg.arg, "keyword", ast.unparse(default) if default else ""))
    if a.kwarg:
        found.append((a.kwarg.arg, "other keywords", ""))
    return found


def real_parameters(function: Callable[..., Any]) -> list[tuple[str, str, str]]:
    kinds = {
        inspect.Parameter.POSITIONAL_OR_KEYWORD: "positional",
        inspect.Parameter.VAR_POSITIONAL: "rest",
        inspect.Parameter.KEYWORD_ONLY: "keyword",
        inspect.Parameter.VAR_KEYWORD: "other keywords",
    }
    return [
        (p.name, kinds[p.kind], "" if p.default is p.empty else repr(p.default).replace('"', "'"))
        for p in inspect.signature(function).parameters.values()
    ]


def callables(name: str) -> list[tuple[str, Function]]:
    """Every function and method of a stub, by its dotted name."""
    found = []
    for node in stub(name):
        if isinstance(node, Function):
            found.append((node.name, node))
        elif isinstance(node, ast.ClassDef) and not is_type_only(node):
            members = [item for item in node.body if isinstance(item, Function)]
            found += [(f"{node.name}.{item.name}", item) for item in members]
    return found


@pytest.mark.parametrize("module", STUBS)
def test_stub_has_the_parameters_of_the_implementation(module: str) -> None:
    for name, node in callables(module):
        real = STUBS[module]
        for part in name.split("."):
            real = getattr(real, part)
        if name.endswith("__exit__"):
            continue  # named one by one in a stub, taken together in the code
        assert real_parameters(real) == parameters(node), name


@pytest.mark.parametrize("module", STUBS)
def test_stub_names_everything_that_is_public(module: str) -> None:
    real = STUBS[module]
    classes = {
        node.name: node
        for node in stub(module)
        if isinstance(node, ast.ClassDef) and not is_type_only(node)
    }
    for name, node in classes.items():
        in_stub = {item.name for item in node.body if isinstance(item, Function)}
        in_stub |= {
            item.target.id
            for item in node.body
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
        }
        public = {key for key in vars(getattr(real, name)) if not key.startswith("_")}
        assert public <= in_stub, name


def test_stub_names_the_attributes_of_objects() -> None:
    model = llm.load(VECTORS / "tiny-int4.llm")
    for name, thing in (
        ("Generator", llm.Generator(model)),
        ("Tokenizer", llm.Tokenizer(model)),
        ("Governor", llm.Governor()),
        ("Limits", llm.Limits()),
        ("Metrics", llm.metrics(llm.Generator(model))),
    ):
        (node,) = (n for n in stub("__init__") if isinstance(n, ast.ClassDef) and n.name == name)
        in_stub = {item.target.id for item in node.body if isinstance(item, ast.AnnAssign)}
        assert {key for key in vars(thing) if not key.startswith("_")} == in_stub


def test_stub_lists_what_the_package_exports() -> None:
    (exported,) = (
        node.value
        for node in stub("__init__")
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__"
    )
    assert ast.literal_eval(exported) == llm.__all__
    assert all(hasattr(llm, name) for name in llm.__all__)


def test_typed_dicts_are_what_is_returned() -> None:
    model = llm.load(VECTORS / "tiny-int4.llm")
    streamed = llm.load(VECTORS / "tiny-int4.llm", stream=True)
    gen = llm.Generator(model)
    list(gen.generate("the", max_tokens=2))
    for module, name, got in (
        ("_llm", "Config", model.config()),
        ("_llm", "Memory", model.memory()),
        ("_llm", "StreamStats", streamed.stream_stats()),
        ("__init__", "Stats", gen.stats()),
        ("__init__", "Figures", llm.metrics(gen).as_dict()),
    ):
        (node,) = (n for n in stub(module) if isinstance(n, ast.ClassDef) and n.name == name)
        fields = [item.target.id for item in node.body if isinstance(item, ast.AnnAssign)]
        assert list(got) == fields


def test_the_c_module_has_what_the_stub_has(unix: Callable[..., str]) -> None:
    classes = ("Model", "Sequence", "Sampler", "Decoder")
    script = "import _llm\nprint([n for n in dir(_llm)])\n"
    for name in classes:
        script += f"print([n for n in dir(_llm.{name})])\n"
    script += "model = _llm.Model(open(IMAGE, 'rb').read())\n"
    attributes = [
        item.target.id
        for node in stub("_llm")
        if isinstance(node, ast.ClassDef) and node.name in ("Model", "_Tokens")
        for item in node.body
        if isinstance(item, ast.AnnAssign)
    ]
    script += f"print([getattr(model, n) for n in {attributes}])\n"
    out = unix(script, IMAGE=str(VECTORS / "tiny-int4.llm")).splitlines()
    names = [set(ast.literal_eval(line)) for line in out[:5]]
    hidden = {"__name__", "__class__", "__bases__", "__dict__", "__del__"}
    ours = [found - hidden for found in names]
    assert ours[0] == {"version", "kernels", *classes}
    for got, name in zip(ours[1:], classes, strict=True):
        stubs = (name, "_Tokens") if name in ("Model", "Sequence") else (name,)
        methods = {key.split(".")[1] for key, _ in callables("_llm") if key.startswith(stubs)}
        assert got == methods - {"__init__"}
    model = edge_llm.engine.Model((VECTORS / "tiny-int4.llm").read_bytes())
    assert ast.literal_eval(out[5]) == [getattr(model, name) for name in attributes]


# -------------------------------------------------------------------------------------- the files


def test_package_json_and_manifest_list_every_file() -> None:
    files = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")}
    on_boards = files - {"hal/cpython.py", "hal/circuitpython.py"}  # those of MicroPython
    urls = json.loads((ROOT / "py" / "package.json").read_text())["urls"]
    assert sorted(map(tuple, urls)) == sorted((f"llm/{file}",) * 2 for file in on_boards)
    listed: list[Any] = []
    manifest = (ROOT / "py" / "manifest.py").read_text()
    exec(manifest, {"package": lambda name, files: listed.append((name, set(files)))})
    assert listed == [("llm", on_boards)]


def test_versions_agree() -> None:
    package = json.loads((ROOT / "py" / "package.json").read_text())
    assert package["version"] == llm.version == edge_llm.engine.version


def test_what_is_seldom_used_takes_no_ram(unix: Callable[..., str]) -> None:
    script = (
        "import llm, sys\nprint(sorted(sys.modules))\nllm.Governor()\nprint(sorted(sys.modules))"
    )
    first, then = map(ast.literal_eval, unix(script).splitlines())
    always = {"generator", "hal", "hal.micropython", "hal.shared", "model", "terminal"}
    assert {name for name in first if name.startswith("llm.")} == {
        f"llm.{name}" for name in always
    }
    assert set(then) - set(first) == {"llm.governor", "llm.limits", "llm.power"}


def test_only_relative_imports_and_no_hardware_outside_hal() -> None:
    standard = {"asyncio", "hashlib", "json", "struct", "array", "sys", "select"}
    for path in [*PACKAGE.glob("*.py"), PACKAGE / "hal" / "__init__.py"]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                assert {alias.name for alias in node.names} <= standard, path
            if isinstance(node, ast.ImportFrom):
                assert node.level > 0 or node.module in standard, path


def test_the_manual_names_real_arguments() -> None:
    sections = {
        "llm.load": llm.load,
        "llm.Generator": llm.Generator,
        "llm.Governor": llm.Governor,
    }
    known = {
        name
        for function in (*sections.values(), llm.Generator.stream)
        for name in inspect.signature(function).parameters
    }
    named = set(re.findall(r"(\w+)=", TEXT)) - {"end"}  # which is print's
    assert named and named <= known
    for match in re.findall(r"(\w+)=([\w.\"]+)  ", TEXT):
        defaults = [
            repr(inspect.signature(function).parameters[match[0]].default)
            for function in (*sections.values(), llm.Generator.stream)
            if match[0] in inspect.signature(function).parameters
        ]
        assert match[1].replace('"', "'") in defaults, match


# -------------------------------------------------------------------------------------- the texts


class FakeModel:
    """A model whose tokens are the pieces of a script, one after the other."""

    bos_id = 0
    eos_id = 1
    policy = "error"

    def __init__(self, pieces: list[str], context: int = 10_000) -> None:
        self.pieces = ["<bos>", "<eos>", *pieces]
        self.context = context
        self.n_tokens = 0
        self.next = 2
        self._n_runs = 0

    def encode(self, text: str) -> list[int]:
        return [0] * (1 + len(text))

    def reuse(self, tokens: list[int]) -> int:
        self.n_tokens = 0
        return 0

    def eval(self, tokens: int | list[int]) -> None:
        self.n_tokens += 1 if isinstance(tokens, int) else len(tokens)
        assert self.n_tokens <= self.context

    def sample(self, sampler: object) -> int:
        token = self.next if self.next < len(self.pieces) else self.eos_id
        self.next += 1
        return token


class FakeDecoder:
    def __init__(self, model: FakeModel, start: bool = True, ansi: str | None = None) -> None:
        self.model = model

    def feed(self, token: int) -> str:
        return self.model.pieces[token]

    def finish(self) -> str:
        return ""


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        generator.hal,
        "engine",
        SimpleNamespace(Sampler=lambda **settings: None, Decoder=FakeDecoder),
    )


texts = st.text("abc é", max_size=6)


@pytest.mark.usefixtures("fake")
class TestStops:
    @given(
        st.lists(texts, max_size=12),
        st.lists(st.text("abc é", min_size=1, max_size=5), max_size=3),
    )
    def test_the_text_ends_before_the_first_stop_string(
        self, pieces: list[str], stops: list[str]
    ) -> None:
        # The first to be complete; of those that are complete with the same piece, the leftmost.
        want, reason, whole = None, "end", ""
        for piece in pieces:
            whole += piece
            ends = [whole.find(stop) for stop in stops if stop in whole]
            if ends:
                want, reason = whole[: min(ends)], "stop"
                break
        gen = llm.Generator(FakeModel(pieces), seed=0)
        given_out = list(gen.generate("x", stop=stops))
        assert "".join(given_out) == (whole if want is None else want)
        assert "" not in given_out
        assert gen.stop_reason == reason

    @given(st.lists(texts, max_size=12), st.text("abc é", min_size=1, max_size=5))
    def test_only_what_could_begin_a_stop_string_is_held_back(
        self, pieces: list[str], stop: str
    ) -> None:
        gen = llm.Generator(FakeModel(pieces), seed=0)
        shown = ""
        for piece in gen.generate("x", stop=stop):
            shown += piece
            if gen.stop_reason is None:
                produced = "".join(pieces[: len(gen.ids)])
                held = produced[len(shown) :]
                assert stop.startswith(held) and len(held) < len(stop)


@pytest.mark.usefixtures("fake")
def test_a_stop_string_does_not_divide_a_color() -> None:
    pieces = ["a", "\x1b[31m", "b", "\x1b[0m", "c", "\x1b[1m"]
    for stop, want in (
        ("b", ["a", "\x1b[31m", "\x1b[0m"]),  # what was open is closed
        ("1", ["a", "\x1b[0m"]),
        ("[0", ["a", "\x1b[31m", "b", "\x1b[0m"]),
        ("mbx", ["a", "\x1b[31mb", "\x1b[0mc", "\x1b[1m"]),
        ("3x", ["a", "\x1b[31m", "b", "\x1b[0m", "c", "\x1b[1m"]),
    ):
        gen = llm.Generator(FakeModel(pieces), seed=0, ansi="color")
        assert list(gen.generate("x", stop=stop)) == want
    gen = llm.Generator(FakeModel(pieces), seed=0, ansi="raw")
    assert "".join(gen.generate("x", stop="31")) == "a\x1b["


@pytest.mark.usefixtures("fake")
def test_reasons_to_end() -> None:
    pieces = list("abcdefgh")
    gen = llm.Generator(FakeModel(pieces, context=5), seed=0)
    assert list(gen.generate("x")) == list("abcd")  # 2 tokens of prompt, 3 more, and 1 not put in
    assert gen.stop_reason == "context"
    gen = llm.Generator(FakeModel(pieces), seed=0)
    assert list(gen.generate("x", max_tokens=3)) == list("abc")
    assert (gen.stop_reason, gen.ids) == ("max_tokens", [2, 3, 4])
    assert list(gen.generate("x")) == list("defgh")
    assert gen.stop_reason == "end"
    model = FakeModel(pieces)
    model.pieces[4] = "<another text begins>"
    model.bos_id = 4
    gen = llm.Generator(model, seed=0)
    assert list(gen.generate("x")) == list("ab")
    assert (gen.stop_reason, gen.ids) == ("end", [2, 3])


@pytest.mark.usefixtures("fake")
def test_an_empty_prompt_needs_a_begin_of_text_token() -> None:
    model = FakeModel(list("ab"))
    model.encode = lambda text: []  # type: ignore[method-assign]
    gen = llm.Generator(model, seed=0)
    assert list(gen.generate()) == ["a", "b"]
    assert gen.stats()["prompt_tokens"] == 1
    model.bos_id = -1
    with pytest.raises(ValueError, match="prompt: is empty"):
        gen.generate("")


@pytest.mark.usefixtures("fake")
def test_stats_measure_the_first_token_and_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([1000, 1250, 1350, 1450, 1550, 1900])
    monkeypatch.setattr(generator.hal, "ticks_ms", lambda: next(clock))
    gen = llm.Generator(FakeModel(list("abcd")), seed=0)
    list(gen.generate("x"))
    stats = gen.stats()
    assert (stats["first_token_ms"], stats["tokens_per_s"]) == (250, 10.0)
    assert list(clock) == []
    clock = iter([5000, 5100])
    list(gen.generate("x"))
    stats = gen.stats()
    assert (stats["tokens"], stats["first_token_ms"], stats["tokens_per_s"]) == (0, 100, 0.0)


# ------------------------------------------------------------------------------------ the streams


def test_a_pipe_that_is_full_is_waited_for() -> None:
    # A raw stream that does not block returns None, or a part, when the pipe is full.
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    text = "é語😀x" * 30_000
    got = bytearray()

    def read() -> None:
        while chunk := os.read(read_end, 10_000):
            got.extend(chunk)

    reader = threading.Thread(target=read)
    with open(write_end, "wb", buffering=0) as stream:
        threading.Timer(0.2, reader.start).start()
        llm.hal.write(stream, text)
    reader.join(10)
    os.close(read_end)
    assert got.decode() == text


def test_stdout_is_the_stream_if_none_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    gen = llm.Generator(llm.load(VECTORS / "tiny-int4.llm"), temperature=0)
    stats = gen.stream("the", max_tokens=4, echo=True)
    assert capsys.readouterr().out == "theDDDD"
    assert stats["tokens"] == 4
    llm.help()
    assert capsys.readouterr().out == TEXT


def test_a_file_is_read_in_place() -> None:
    with open(VECTORS / "tiny-int4.llm", "rb") as file:
        assert type(llm.hal.view(file)).__name__ == "mmap"


def test_a_buffer_in_use_cannot_be_resized() -> None:
    data = bytearray((VECTORS / "tiny-int4.llm").read_bytes())
    model = llm.load(data)
    with pytest.raises(BufferError):
        data.append(0)
    model.close()
    data.append(0)
