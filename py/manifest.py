# What a firmware freezes: `include` this file in the port's manifest.
# ruff: noqa: F821 (the functions are those of MicroPython's manifest files)
package(
    "llm",
    (
        "__init__.py",
        "aio.py",
        "blocks.py",
        "editor.py",
        "exposition.py",
        "generator.py",
        "governor.py",
        "limits.py",
        "manual.py",
        "meter.py",
        "model.py",
        "power.py",
        "scheduler.py",
        "summary.py",
        "talk.py",
        "terminal.py",
        "hal/__init__.py",
        "hal/micropython.py",
        "hal/shared.py",
    ),
)
