"""Texts among other tasks: what a generator's `agenerate` and `astream` do."""

import asyncio

from .terminal import break_off, steps


class Pieces:
    """An asynchronous iterator of the pieces of a text. Before each, and whenever the model has
    computed for long enough, other tasks run."""

    def __init__(self, pieces):
        self._pieces = pieces

    def __aiter__(self):
        return self

    async def __anext__(self):
        while True:
            await asyncio.sleep(0)
            try:
                piece = next(self._pieces)
            except StopIteration:
                raise StopAsyncIteration from None
            if piece:
                return piece


async def pour(gen, pieces, terminal, stream, token_pin):
    """As `terminal.pour`, with other tasks running in between. A stream of asyncio's own is
    waited for as they want it."""
    drain = getattr(stream, "drain", None)
    try:
        for ms in steps(gen, pieces, terminal, token_pin):
            if drain:
                await drain()
            await asyncio.sleep(ms / 1000 if ms else 0)
    except BaseException as error:
        for ms in break_off(gen, terminal, error):
            await asyncio.sleep(ms / 1000)
        raise
