"""`llm` under a fake of CircuitPython, and the fake against CircuitPython's own stubs.

test_device.py runs the scripts of tests/device under it too.
"""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "tests" / "circuitpython"
HAL = ROOT / "py" / "llm" / "hal"
STUBBED = ("board", "busio", "digitalio", "hashlib", "microcontroller", "supervisor")

ON_CIRCUITPYTHON = f"""import sys
sys.path.insert(0, {str(HERE)!r})
import boot
boot.start({{}})
"""


def run(source: str, arguments: str = "", seconds: float = 60) -> str:
    """Runs a script as on a board; returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", ON_CIRCUITPYTHON.format(arguments) + source],
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# -------------------------------------------------------------------------- the fake is faithful


@pytest.fixture(scope="module")
def fakes() -> Iterator[dict[str, Any]]:
    sys.path.insert(0, str(HERE))
    yield {name: importlib.import_module(f"fake.{name}") for name in STUBBED}
    sys.path.remove(str(HERE))


def stub(name: str) -> list[ast.stmt]:
    """CircuitPython's stub of a module."""
    path = f"{name}-stubs/__init__.pyi"
    (found,) = (
        file for file in importlib.metadata.files("circuitpython-stubs") or () if str(file) == path
    )
    return ast.parse(found.read_text(encoding="utf-8")).body


def parameters(node: ast.FunctionDef) -> list[tuple[str, bool, str]]:
    """(name, keyword-only, default) of each parameter."""
    a = node.args
    defaults = [None] * (len(a.args) - len(a.defaults)) + list(a.defaults)
    pairs = [*zip(a.args, defaults, strict=True)]
    found = [(arg.arg, False, ast.unparse(value) if value else "") for arg, value in pairs]
    for arg, value in zip(a.kwonlyargs, a.kw_defaults, strict=True):
        found.append((arg.arg, True, ast.unparse(value) if value else ""))
    return found


def real_parameters(function: Any) -> list[tuple[str, bool, str]]:
    tree = ast.parse(inspect.cleandoc("\n" + inspect.getsource(function)))
    assert isinstance(tree.body[0], ast.FunctionDef)
    return parameters(tree.body[0])


def compare(fake: Any, nodes: list[ast.stmt], where: str) -> None:
    """What is public in a fake must be in the stub, with the same parameters."""
    documented: dict[str, Any] = {}
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            documented[node.name] = node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            documented[node.target.id] = node
    for name, thing in vars(fake).items():
        helper = name in ("only_instance", "claim", "release") or "only_instance" in repr(thing)
        if inspect.ismodule(thing) or helper or name.startswith("_") and name != "__init__":
            continue
        assert name in documented or where == "board", f"{where}.{name} is not documented"
        node = documented.get(name)
        if inspect.isclass(thing):
            assert isinstance(node, ast.ClassDef), name
            compare(thing, node.body, f"{where}.{name}")
        elif inspect.isfunction(thing):
            assert isinstance(node, ast.FunctionDef), f"{where}.{name}"
            assert real_parameters(thing) == parameters(node), f"{where}.{name}"
        elif isinstance(thing, property):
            read_only = "(read-only)" in ast.unparse(nodes[nodes.index(node) + 1 :][:1])
            assert thing.fset is None or not read_only, f"{where}.{name} is read-only"


@pytest.mark.parametrize("module", STUBBED)
def test_the_fake_has_only_what_is_documented(fakes: dict[str, Any], module: str) -> None:
    compare(fakes[module], stub(module), module)


def test_a_board_lacks_what_circuitpython_lacks() -> None:
    for name in ("machine", "uctypes", "ctypes", "mmap", "typing", "threading", "utime"):
        with_name = f"try:\n    import {name}\nexcept ImportError:\n    print('none')"
        assert run(with_name) == "none\n", name
    assert run("import time; print(hasattr(time, 'ticks_ms'), hasattr(time, 'sleep_ms'))") == (
        "False False\n"
    )
    assert run("import hashlib; print(hasattr(hashlib, 'sha256'))") == "False\n"


# ------------------------------------------------------------------------------- the package on it


@pytest.mark.parametrize("chip", ["ESP32-S3", "nRF52840"])
def test_hal(chip: str) -> None:
    source = f"wall = boot.fake('wall')\nCHIP = {chip!r}\n" + (HERE / "hal.py").read_text()
    assert run(source, repr(chip)) == "é\ndone\n"


@pytest.mark.parametrize("chip", ["ESP32-S3", "nRF52840"])
def test_governor_and_metrics(chip: str) -> None:
    image = ROOT / "tests" / "vectors" / "tiny-int4.llm"
    source = f"wall = boot.fake('wall')\nCHIP, IMAGE = {chip!r}, {str(image)!r}\n"
    assert run(source + (HERE / "governor.py").read_text(), repr(chip)) == "done\n"


def test_a_build_without_select_can_write() -> None:
    source = """
import llm, board, busio
class Full:
    def write(self, data):
        return None
llm.hal.write(Full(), "abc")
uart = busio.UART(board.TX)
llm.hal.write(uart, "abc")
print(bytes(byte for byte, rate in uart._sent))
"""
    assert run(source, "missing=('select',)") == "b'abc'\n"


def test_all_three_hals_have_what_the_package_documents() -> None:
    text = ast.get_docstring(ast.parse((HAL / "__init__.py").read_text())) or ""
    found = {}
    for name in ("micropython", "circuitpython", "cpython"):
        tree = ast.parse((HAL / f"{name}.py").read_text())
        (exported,) = (
            ast.literal_eval(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign) and node.targets[0].id == "__all__"  # type: ignore
        )
        found[name] = {
            node.name: [arg.arg for arg in node.args.args]
            for node in tree.body
            if isinstance(node, ast.FunctionDef)
        }
        assert [public for public in exported if public not in text] == [], name
        assert {key for key in found[name] if not key.startswith("_")} <= set(exported), name
        found[name]["exported"] = exported
    names = found.values()
    assert len({tuple(functions["exported"]) for functions in names}) == 1
    for key in found["cpython"]:
        assert len({tuple(f[key]) for f in names if key in f}) == 1, key
