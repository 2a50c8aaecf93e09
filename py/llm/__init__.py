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

__all__ = ["Generator", "Model", "Tokenizer", "digest", "help", "kernels", "load", "version"]

version = hal.engine.version
kernels = hal.engine.kernels


def help():
    """Prints a page on how to use the package."""
    from .manual import TEXT

    print(TEXT, end="")
