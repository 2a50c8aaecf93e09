"""Small language models on a microcontroller.

    import llm

    model = llm.load("/rom/model.llm")
    gen = llm.Generator(model, temperature=0.8, seed=1)
    for piece in gen.generate("Once upon a time", max_tokens=100):
        print(piece, end="")
    gen.stream("Once upon a time")  # the same, to the terminal

`llm.help()` says more at the REPL. The signatures, with their types and exceptions, are in
`__init__.pyi`.
"""

from . import hal
from .generator import Generator, digest
from .model import Model, Tokenizer, load

__all__ = [
    "Generator",
    "Governor",
    "Job",
    "Limits",
    "Metrics",
    "Model",
    "Scheduler",
    "Tokenizer",
    "chat",
    "digest",
    "help",
    "kernels",
    "load",
    "metrics",
    "version",
]

version = hal.engine.version
kernels = hal.engine.kernels


def __getattr__(name):
    # These take RAM only where they are used.
    if name == "Governor":
        from .governor import Governor

        return Governor
    if name == "Limits":
        from .limits import Limits

        return Limits
    if name == "Metrics":
        from .meter import Metrics

        return Metrics
    if name in ("Job", "Scheduler"):
        from .scheduler import Job, Scheduler

        return Job if name == "Job" else Scheduler
    raise AttributeError(f"module 'llm' has no attribute {name!r}")


def metrics(gen, *, window=256, temperature=None, power=None):
    """Measures the texts of a generator from now on. See `__init__.pyi`."""
    from .meter import Metrics

    return Metrics(gen, window=window, temperature=temperature, power=power)


def chat(model, stream=None, *, max_tokens=200, stop=None, **settings):
    """Talks with a model at the terminal, or at a stream. See `__init__.pyi`."""
    from .talk import chat

    chat(model, stream, max_tokens, stop, settings)


def help():
    """Prints a page on how to use the package."""
    from .manual import TEXT

    print(TEXT, end="")
