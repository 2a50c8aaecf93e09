"""One minute of fuzzing: tests/fuzz/Makefile says what there is and how to run it for longer."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "fuzz"
ROOT = FOLDER.parents[1]
SECONDS = 60  # in all


def make(*arguments: str) -> str:
    """Run a target of tests/fuzz/Makefile; returns what it prints."""
    done = subprocess.run(
        ["make", "-s", "-C", FOLDER, f"PYTHON={sys.executable}", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={name: value for name, value in os.environ.items() if not name.startswith("MAKE")},
    )
    if done.returncode == 0:
        return done.stdout
    artifact = re.search(r"Test unit written to (\S+)", done.stdout)
    if artifact:
        target = Path(arguments[0]).stem
        path = (FOLDER / artifact[1]).resolve().relative_to(ROOT)
        how = f"to repeat it: build/fuzz/{target} {path}"
    else:
        how = f"make -C tests/fuzz {' '.join(arguments)}"
    # The report begins after the last line of progress.
    report = re.split(r"(?m)^#\d+\t.*\n", done.stdout)[-1]
    pytest.fail(f"{how}\n{report}", pytrace=False)


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    make("all")


@pytest.mark.parametrize("target", ["fuzz_image", "fuzz_tokenizer", "fuzz_text"])
def test_fuzz(target: str) -> None:
    output = make(f"{target}.run", f"SECONDS={SECONDS}")
    runs = re.search(r"stat::number_of_executed_units: (\d+)", output)
    # Far fewer than any machine makes: the target did run on what it was given.
    assert runs and int(runs[1]) > 500, output[-2000:]
