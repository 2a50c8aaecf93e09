"""Writes the traces: what sensors show over some minutes, as a logger would have recorded it.

They are made up from simple physics (no board was at hand), with the noise and the steps of the
sensors: docs/power.md. Run it to write them anew; the same seed gives the same files.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


def warm_day(rng: random.Random) -> list[tuple[float, float]]:
    """A chip's temperature, once a second: 0.5 degrees of noise, steps of half a degree. The sun
    comes to the case twice, and goes."""
    times = [0, 60, 140, 200, 280, 340, 420, 600]
    degrees = [45, 68, 76, 74, 60, 72, 55, 54]
    return [
        (second, round(2 * (np.interp(second, times, degrees) + rng.gauss(0, 0.25))) / 2)
        for second in range(600)
    ]


def cell(rng: random.Random) -> list[tuple[float, float]]:
    """A lithium cell under load, twice a second, in steps of 10 mV: it falls slowly, a radio takes
    0.3 V for three seconds now and then, and at 380 s it is empty."""
    rows = []
    for half in range(1000):
        second = half / 2
        volts = 3.2 - 0.0003 * second - max(0.0, second - 330) * 0.006
        if any(start <= second < start + 3 for start in (60, 150, 230)):
            volts -= 0.3
        rows.append((second, round(max(2.0, volts + rng.gauss(0, 0.004)), 2)))
    return rows


def main() -> None:
    """Writes all of them."""
    for name, head, rows in (
        ("warm-day", "seconds,celsius", warm_day(random.Random(1))),
        ("cell", "seconds,volts", cell(random.Random(2))),
    ):
        lines = [head, *(f"{time},{value}" for time, value in rows)]
        (HERE / f"{name}.csv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
