"""Text from a model."""

from array import array

from . import hal
from .terminal import Terminal, pour

USED = "the model has been used for something else meanwhile"

# Milliseconds after which a stream is listened to, though the token is not there yet.
LISTEN_MS = 100

# The terminal's own colours and style: SGR without a parameter but 0.
RESET = "\x1b[0m"


class Generator:
    """Writes texts with a model. Each begins afresh; the random numbers go on from one to the
    next.
    """

    def __init__(
        self,
        model,
        *,
        temperature=0.8,
        top_k=0,
        top_p=0.9,
        min_p=0.0,
        repetition_penalty=1.0,
        repeat_last_n=64,
        seed=None,
        ansi=None,
        governor=None,
        summarize=None,
    ):
        self.model = model
        if summarize not in (None, "extract") and not callable(summarize):
            raise ValueError("summarize: must be None, 'extract' or a function")
        self._summarize = summarize
        self._n_condensed = 0  # tokens by which summaries have shortened the cache
        self.governor = governor
        # Each is told when a text begins, of its tokens, and when it has ended.
        self._watchers = [governor] if governor else []
        self.ansi = ansi
        self._decoder = hal.engine.Decoder(model, ansi=ansi)  # says at once if there is no such
        self.seed = hal.random_seed() if seed is None else seed
        self._sampler = hal.engine.Sampler(
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            repetition_penalty=repetition_penalty,
            repeat_last_n=repeat_last_n,
            seed=self.seed,
        )
        self._settings = f"temperature={temperature}, top_k={top_k}, top_p={top_p}, min_p={min_p}"
        self.ids = []
        self.stop_reason = None
        self._stop = None  # why the text is to end now
        self._n_prompt = 0
        self._n_evaluated = 0  # of the prompt, the rest was in the cache
        self._end_id = None  # the token that ended the last text by itself
        self._times = [0, 0, 0]

    def __repr__(self):
        return f"<Generator {self._settings}, seed={self.seed} of {self.model!r}>"

    def generate(self, prompt="", *, max_tokens=None, stop=None, echo=False):
        """An iterator of pieces of the text that follows `prompt`. See `__init__.pyi`."""
        return self._begin(prompt, max_tokens, stop, echo, False)

    def agenerate(self, prompt="", *, max_tokens=None, stop=None, echo=False, yield_ms=20):
        """As `generate`, for `async for`: other tasks run in between. See `__init__.pyi`."""
        from .aio import Pieces

        return Pieces(self._begin(prompt, max_tokens, stop, echo, True, ms=yield_ms))

    def stop(self):
        """Ends the text that is being written, before its next token."""
        self._stop = "stopped"

    def _begin(self, prompt, max_tokens, stop, echo, every, ids=None, job=None, ms=None):
        # The iterator of pieces; with `every`, one for every token, which may be empty. `ids` are
        # the tokens to go on with after those in the cache, in place of a prompt. A job has a
        # sequence of its own, and before it asks for the next piece it evaluates its `due` there.
        # With `ms`, None comes whenever it has computed for so many milliseconds without a piece.
        if max_tokens is not None and max_tokens < 0:
            raise ValueError("max_tokens: must be 0 or more")
        stops = () if stop is None else (stop,) if isinstance(stop, str) else tuple(stop)
        for string in stops:
            if not isinstance(string, str):
                raise TypeError("stop: must be a str, or several")
            if not string:
                raise ValueError("stop: a string is empty")
        model = self.model
        more = ids is not None
        if not more:
            ids = model.encode(prompt)
        if not ids:
            if model.bos_id < 0:
                raise ValueError("prompt: is empty, and the model has no begin-of-text token")
            ids = [model.bos_id]
        room = model.context - (model.n_tokens if more and model.policy == "error" else 0)
        if len(ids) > room:
            raise ValueError(f"prompt: has {len(ids)} tokens, the context has room for {room}")
        if not isinstance(prompt, str):
            prompt = bytes(prompt).decode()
        if not job:
            self._stop = None
        pieces = self._generate(prompt, ids, max_tokens, stops, echo, every, more, job, ms)
        return self._watch(pieces) if self._watchers else pieces

    def _watch(self, pieces):
        watchers = tuple(self._watchers)
        try:
            for watcher in watchers:
                watcher._begin(self)
            yield from pieces
        finally:
            for watcher in watchers:
                watcher._end(self)

    def _generate(self, prompt, prompt_ids, max_tokens, stops, echo, every, more, job, ms):
        model = self.model
        cache = job.sequence if job else model
        if not job:
            model._n_runs += 1
        run = model._n_runs
        start = model.n_tokens if more else 0
        if max_tokens is not None and (self._summarize or model.policy != "error"):
            end = -1  # a number of tokens may go past the context, where the policy lets it
            room = max_tokens
        else:
            end = model.context + (0 if model.policy == "error" else start)
            room = end - start - len(prompt_ids) + 1
            if max_tokens is not None:
                room = min(room, max_tokens)
        self.ids = ids = [0] * room
        del ids[:]  # MicroPython keeps the room, so that the list does not grow between tokens
        self.stop_reason = None
        self._n_condensed = 0
        self._n_prompt = len(prompt_ids)
        self._times = times = [hal.ticks_ms()] * 3
        if echo and prompt:
            yield prompt
        if max_tokens == 0:
            self.stop_reason = "max_tokens"
            return

        watchers = self._watchers
        since = hal.ticks_us() if watchers else 0
        reused = 0 if more else cache.reuse(prompt_ids)
        rest = prompt_ids[reused:]
        self._n_evaluated = len(rest)
        if job:
            job.due = rest
            yield ""
        else:
            yield from self._read(rest, ms, run)
        n_tokens = start + len(prompt_ids)
        ends = (model.bos_id, model.eos_id)  # some models part texts by the one, some by the other
        self._decoder = decoder = hal.engine.Decoder(
            model, start=not (prompt or more), ansi=self.ansi
        )
        held = ""
        while True:
            reason = self._stop
            if not reason:
                token = cache.sample(self._sampler)
                now = hal.ticks_ms()
                if not ids:
                    times[1] = now
                if token in ends:
                    reason = "end"
                    self._end_id = token
                else:
                    times[2] = now
                    ids.append(token)
                    if watchers:
                        us = hal.ticks_us()
                        took = hal.ticks_diff(us, since)
                        for watcher in watchers:
                            if len(ids) > 1:
                                watcher._token(us, took)
                            else:
                                watcher._first(us, took)
                    held += decoder.feed(token)
                    if len(ids) == max_tokens:
                        reason = "max_tokens"
                    elif n_tokens == end:
                        reason = "context"
            if reason:
                held += decoder.finish()
            if stops:
                piece, held, stopped = _split(held, stops, self.ansi == "color")
                if stopped:
                    reason = "stop"
                    if self.ansi == "color":
                        piece += RESET  # what closes the colour may come after the stop string
                elif reason:
                    piece += held
            else:
                piece, held = held, ""
            self.stop_reason = reason
            if job and not reason:
                if watchers:
                    since = hal.ticks_us()
                job.due = token
                if self._summarize and n_tokens >= model.context:
                    job.due = self._condense(cache, token)
                    n_tokens = len(job.due) - 1
                n_tokens += 1
            if piece or every:
                yield piece
            if reason:
                return
            if job:
                if cache.n_tokens != n_tokens:
                    raise RuntimeError(USED)
                continue
            self._check(run, n_tokens)
            if watchers:
                since = hal.ticks_us()
            if self._summarize and n_tokens >= model.context:
                rest = self._condense(model, token)
                n_tokens = len(rest) - 1
                yield from self._read(rest, ms, run)
            elif ms is None:
                model.eval(token)
            else:
                while not model.eval_step(token, ms):
                    yield None
                    if self._stop:
                        break
                    self._check(run, n_tokens)
            n_tokens += 1

    def _read(self, tokens, ms, run):
        # Evaluates tokens; with `ms`, None comes whenever it has computed for so long.
        model = self.model
        if ms is None:
            model.eval(tokens)
            return
        done = model.eval_step(tokens, ms)
        while done < len(tokens):
            yield None
            if self._stop:
                return
            self._check(run)
            if done:
                tokens = tokens[done:]
            done = model.eval_step(tokens, ms)

    def _condense(self, cache, token):
        # The tokens to go on with in an empty cache, a summary among them, and `token` after them.
        from .summary import condense

        before = cache.tokens()
        after = condense(self.model, before, self._summarize)
        self._n_condensed += cache.n_tokens - len(after)
        cache.rewind(0)
        return after + [token]

    def _check(self, run, n_tokens=None):
        model = self.model
        if model._n_runs != run or n_tokens is not None and model.n_tokens != n_tokens:
            raise RuntimeError(USED)

    def stream(
        self,
        prompt="",
        stream=None,
        *,
        max_tokens=None,
        stop=None,
        echo=False,
        token_pin=None,
        buffer=256,
    ):
        """Writes the text that follows `prompt` to a stream and returns `stats()`. See
        `__init__.pyi`.
        """
        pieces = self._begin(prompt, max_tokens, stop, echo, True, ms=LISTEN_MS)
        try:
            pour(self, pieces, Terminal(stream, buffer, hal.has_keys()), token_pin)
        finally:
            pieces.close()  # MicroPython does not, and who watches must hear of the end
        return self.stats()

    async def astream(
        self,
        prompt="",
        stream=None,
        *,
        max_tokens=None,
        stop=None,
        echo=False,
        token_pin=None,
        buffer=256,
        yield_ms=20,
    ):
        """As `stream`, while other tasks run. See `__init__.pyi`."""
        from .aio import pour

        pieces = self._begin(prompt, max_tokens, stop, echo, True, ms=yield_ms)
        try:
            await pour(self, pieces, Terminal(stream, buffer, hal.has_keys()), stream, token_pin)
        finally:
            pieces.close()
        return self.stats()

    def stats(self):
        """What the last text took, as a dict: see `__init__.pyi`."""
        start, first, last = self._times
        ms = hal.ticks_diff(last, first)
        return {
            "prompt_tokens": self._n_prompt,
            "tokens": len(self.ids),
            "first_token_ms": hal.ticks_diff(first, start),
            "tokens_per_s": (len(self.ids) - 1) * 1000 / ms if ms > 0 else 0.0,
            "stop_reason": self.stop_reason,
            "digest": digest(self.ids),
        }


def digest(ids):
    """16 hexadecimal digits that tell one sequence of token ids from another."""
    # SHA-256 of the ids as 32-bit little-endian integers, as they lie in memory on every target.
    return hal.sha256(array("I", ids)).digest()[:8].hex()


def _split(text, stops, color):
    """What of `text` can be shown, what must wait since a stop string may begin there, and
    whether a whole stop string is in it, in which case the rest is dropped. With `color`, its
    escape sequences are not divided."""
    end = -1
    for stop in stops:
        at = text.find(stop)
        if at >= 0 and (end < 0 or at < end):
            end = at
    if end >= 0:
        return text[: _before_escape(text, end) if color else end], "", True
    wait = 0
    for stop in stops:
        for n in range(min(len(stop) - 1, len(text)), wait, -1):
            if text.endswith(stop[:n]):
                wait = n
                break
    end = len(text) - wait
    if color:
        end = _before_escape(text, end)
    return text[:end], text[end:], False


def _before_escape(text, end):
    """`end`, or where the colour sequence begins that `end` divides."""
    at = text.rfind("\x1b", 0, end)
    return at if at >= 0 and text.find("m", at, end) < 0 else end
