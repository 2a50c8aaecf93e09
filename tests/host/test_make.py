"""What `make run` does with its settings. Nothing is built here."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def make_run(*settings: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs `make run` with what it would build held to be there, and `printf` for Python."""
    outer = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = [f"-o{path}" for path in ("build/qemu_m7/firmware.elf", "build/LICENSE.romfs")]
    return subprocess.run(
        ["make", "run", *done, "MODEL=LICENSE", r"PYTHON=printf '%s\n'", *settings],
        cwd=ROOT,
        env=outer | environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize(
    "prompt",
    [
        "Once upon a time",
        "",
        """He said "hi", and it's""",
        "$5 $$HOME $(PATH) ${PATH} `id` # not a comment",
        "a\\b \\n \\",
        "two\nlines\n",
        "Zoë 語 😀",
        "*",
        "-x=y",
    ],
)
def test_a_prompt_may_be_any_text(prompt: str) -> None:
    for done in (make_run(f"PROMPT={prompt}"), make_run(PROMPT=prompt)):
        assert (done.returncode, done.stderr) == (0, "")
        assert f"\nprompt={prompt}\ntokens=128\n" in done.stdout


@pytest.mark.parametrize("tokens", ["", "abc", "-1", "1.5", "1 2"])
def test_tokens_must_be_a_number(tokens: str) -> None:
    done = make_run(f"TOKENS={tokens}")
    assert done.returncode != 0 and done.stdout == ""
    assert done.stderr.startswith(f'TOKENS is how many tokens to write, a number, not "{tokens}"')


@pytest.mark.parametrize("model", ["a model.bin", "my models/stories260K.bin", ""])
def test_a_model_has_no_space_in_its_path(model: str) -> None:
    done = make_run(f"MODEL={model}")
    assert done.returncode != 0 and done.stdout == ""
    (message,) = done.stderr.splitlines()
    assert f'MODEL is a path without spaces, not "{model}"' in message


def test_a_model_that_is_not_there() -> None:
    done = make_run("MODEL=absent/model.bin")
    assert done.returncode != 0 and done.stdout == ""
    message, _ = done.stderr.splitlines()  # the second is make's own
    assert message.startswith("No absent/model.bin. MODEL=path names ")
    assert "stories260K.bin" in message and "Hugging Face" in message
