"""Draws docs/governor.svg: what the governor does on a simulated chip, with the traces of
tests/traces.

    python tests/bench/plot_governor.py

Needs matplotlib, which the project does not install: `.venv/bin/pip install matplotlib`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("svg")
matplotlib.rcParams.update({"svg.hashsalt": "governor", "svg.fonttype": "none", "font.size": 9})

import matplotlib.pyplot as plt  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/host"))

import edge_llm.llm as llm  # noqa: E402
import pytest  # noqa: E402
from simulator import Chip, SlowModel, generator  # noqa: E402
from test_metrics import trace  # noqa: E402

POWER = str(ROOT / "boards/ESP32_S3_N16R8/power.json")


class Run:
    """A chip with a model and a governor; `rows` gets (seconds, MHz, tokens a second, figure)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, compute: float, memory_us: float) -> None:
        self.chip = Chip().install(monkeypatch)
        self.model = SlowModel(self.chip, compute, memory_us)
        self.monkeypatch = monkeypatch
        self.rows: list[tuple[float, float, float, float]] = []

    def tell(self, seconds: float, figure: Any = None, **settings: Any) -> np.ndarray:
        """Makes text until `seconds`."""
        governor = llm.Governor(power=POWER, **settings)
        gen = generator(self.model, self.monkeypatch, governor=governor)
        last = self.chip.us
        for _ in gen.generate("x"):
            now = self.chip.us
            shown = figure(now / 1e6) if figure else 0.0
            self.rows.append((now / 1e6, self.chip.hz / 1e6, 1e6 / (now - last), shown))
            last = now
            if now > seconds * 1e6:
                break
        return np.array(self.rows)


def draw(axis: Any, rows: np.ndarray, title: str, label: str, column: int) -> Any:
    """The clock as steps, and another figure on an axis of its own."""
    axis.set_title(title, loc="left", fontsize=9)
    changes = np.flatnonzero(np.diff(rows[:, 1])) + 1
    steps = rows[[0, *changes, -1]]
    axis.step(steps[:, 0], steps[:, 1], where="post", color="#1f5fa8", linewidth=1.4)
    axis.set_ylim(0, 270)
    axis.set_yticks([80, 160, 240])
    axis.set_ylabel("MHz", color="#1f5fa8")
    axis.margins(x=0.01)
    other = axis.twinx()
    some = rows[:: max(1, len(rows) // 400)]
    other.plot(some[:, 0], some[:, column], color="#c2571a", linewidth=0.9)
    other.set_ylabel(label, color="#c2571a")
    return other


def runs(
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[tuple[np.ndarray, str, str, int, list[float]]]:
    """(rows, title, label of the other axis, its column, lines to draw there)"""
    run = Run(monkeypatch, 20e6, 400_000)
    rows = run.tell(60, min_tps=1.8)
    yield rows, "deadline, 1.8 tokens a second, three quarters memory", "tokens/s", 2, [1.8]

    run = Run(monkeypatch, 4e6, 5_000)
    queue = lambda: 4 if 15 < run.chip.us / 1e6 < 35 else 1  # noqa: E731
    rows = run.tell(60, min_tps=10, queue=queue)
    yield (
        rows,
        "deadline, 10 a second each, four requests from 15 s to 35 s",
        "tokens/s",
        2,
        [10, 40],
    )

    run = Run(monkeypatch, 20e6, 100_000)
    celsius = trace("warm-day.csv")
    heat = {"temperature": lambda: celsius(run.chip.us / 1e6), "max_temperature": 70}
    rows = run.tell(550, celsius, policy="performance", **heat)
    yield rows, "performance on a warm day, at most 70 degrees", "degrees C", 3, [70, 65]

    run = Run(monkeypatch, 20e6, 100_000)
    volts = trace("cell.csv")
    rows = run.tell(450, volts, policy="performance", battery=lambda: volts(run.chip.us / 1e6))
    yield rows, "performance on a cell that runs down", "volts", 3, [2.9, 3.0]


def main() -> None:
    """Draws."""
    figure, axes = plt.subplots(4, 1, figsize=(8, 9), constrained_layout=True)
    with pytest.MonkeyPatch.context() as monkeypatch:
        for axis, (rows, title, label, column, lines) in zip(axes, runs(monkeypatch), strict=True):
            other = draw(axis, rows, title, label, column)
            for line in lines:
                other.axhline(line, color="#c2571a", linewidth=0.6, linestyle=":")
            if column == 2:
                other.set_ylim(0, 1.25 * max(*lines, np.percentile(rows[:, 2], 95)))
    axes[-1].set_xlabel("seconds")
    figure.savefig(ROOT / "docs/governor.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
