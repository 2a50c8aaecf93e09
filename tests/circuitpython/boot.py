"""Makes CPython import as CircuitPython does: after `start`, `import llm` is the boards' package.

What `llm` and the script that is run import is either one of the fakes or a module that
CircuitPython has too, in the subset that is listed here; anything else is an ImportError. `_llm`
is the engine.
"""

from __future__ import annotations

import builtins
import importlib
import sys
from pathlib import Path
from types import ModuleType

PY = Path(__file__).resolve().parents[2] / "py"

FAKES = "board busio digitalio gc hashlib microcontroller os supervisor sys time".split()

# What CPython's modules have in common with CircuitPython's (docs/library, shared-bindings).
SHARED = {
    "array": "array",
    # The library `asyncio` of Adafruit's bundle.
    "asyncio": "CancelledError Event TimeoutError create_task gather run sleep wait_for",
    "binascii": "a2b_base64 b2a_base64 hexlify unhexlify crc32",
    "collections": "OrderedDict deque namedtuple",
    "errno": "EACCES EEXIST EINVAL EIO EISDIR ENOENT ENODEV ENOMEM ETIMEDOUT errorcode",
    "io": "BytesIO StringIO TextIOWrapper open",
    "json": "dump dumps load loads",
    "math": "ceil cos exp floor isnan log pi sin sqrt trunc",
    "random": "choice getrandbits randint random randrange seed uniform",
    "select": "POLLIN POLLOUT POLLERR POLLHUP poll select",
    "struct": "calcsize pack pack_into unpack unpack_from",
}


def fake(name: str) -> ModuleType:
    """A module of the fakes, for a test that plays the world outside of the board."""
    return importlib.import_module("fake." + name)


def start(chip: str = "ESP32-S3", missing: tuple[str, ...] = ()) -> None:
    """From now on `llm` and the main program import as on a board with `chip` (see `fake`), whose
    build leaves out the modules `missing`."""
    sys.path[:0] = [str(PY), str(Path(__file__).parent)]
    from edge_llm import engine

    importlib.import_module("fake").chip = chip
    modules: dict[str, ModuleType] = {"_llm": engine}
    for name in FAKES:
        modules[name] = fake(name)
    for name, members in SHARED.items():
        modules[name] = ModuleType(name)
        whole = importlib.import_module(name)
        for member in members.split():
            setattr(modules[name], member, getattr(whole, member))
    for name in missing:
        del modules[name]
    find = builtins.__import__

    def find_as_a_board(name, globals=None, locals=None, fromlist=(), level=0):
        caller = (globals or {}).get("__name__", "")
        if caller != "__main__" and caller.split(".")[0] != "llm":
            return find(name, globals, locals, fromlist, level)
        if level > 0 or name.split(".")[0] == "llm":
            return find(name, globals, locals, fromlist, level)
        if name not in modules:
            raise ImportError(f"no module named '{name}'")
        return modules[name]

    builtins.__import__ = find_as_a_board
