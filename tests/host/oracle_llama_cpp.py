"""llama.cpp as an oracle and as a rival, through llama-cpp-python in a process of its own.

Building that package takes a quarter of an hour, so it is not among the requirements. To have it,
`pip install llama-cpp-python` into any environment, and name its Python in LLAMA_CPP_PYTHON
(unless it is the one that runs the tests).
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

WORKER = Path(__file__).with_name("llama_cpp_worker.py")
MISSING = "needs llama-cpp-python: name a Python that has it in LLAMA_CPP_PYTHON"


def python() -> str | None:
    """The interpreter that has llama-cpp-python, if one is known."""
    named = os.environ.get("LLAMA_CPP_PYTHON")
    if not named and importlib.util.find_spec("llama_cpp"):
        return sys.executable
    return named or None


class LlamaCpp:
    """A model in llama.cpp, on one thread; a context manager."""

    def __init__(self, model: Path, flash_attention: bool = True) -> None:
        interpreter = python()
        assert interpreter, MISSING
        self._process = subprocess.Popen(
            [interpreter, WORKER, model, str(int(flash_attention))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> LlamaCpp:
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.communicate()

    def _ask(self, **request: Any) -> Any:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "llama.cpp has ended"
        return json.loads(answer)

    def logits(self, tokens: list[int]) -> np.ndarray:
        """float32 [tokens, vocab_size]: what follows each token of a text."""
        with tempfile.TemporaryDirectory() as folder:
            output = f"{folder}/logits.npy"
            self._ask(logits=tokens, output=output)
            return np.load(output)

    def encode(self, text: str) -> list[int]:
        """The ids of a text, special tokens recognized, without BOS."""
        return self._ask(encode=text)

    def decode(self, n: int) -> float:
        """Seconds of processor time to write `n` tokens from an empty cache."""
        return self._ask(decode=n)
