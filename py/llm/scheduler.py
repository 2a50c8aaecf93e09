"""Several texts at once from one model."""

BATCH = 16  # sequences that Model.eval_batch takes


class Scheduler:
    """Writes texts side by side: one token of each in a pass over the weights, and prompts a block
    at a time in between. See `__init__.pyi`.
    """

    def __init__(self, model):
        self.model = model
        self.jobs = []  # those that are not done, in the order of their next turn
        self._free = []  # sequences without a job, with the tokens of the last
        try:
            while True:
                self._free.append(model.sequence())
        except ValueError:  # all are in use
            pass
        if not self._free:
            raise ValueError("model: has no free sequences, load it with sequences=2 or more")

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def submit(
        self, gen, prompt="", *, max_tokens=None, stop=None, echo=False, priority=0, on_text=None
    ):
        """Adds a text and returns its `Job`. See `__init__.pyi`."""
        if gen.model is not self.model:
            raise ValueError("gen: is of another model")
        job = Job(self, gen, priority, on_text)
        job._pieces = gen._begin(prompt, max_tokens, stop, echo, True, job=job)
        self.jobs.append(job)
        return job

    def step(self):
        """Does one turn: a token of each text of the highest priority, or of as many as the model
        evaluates together, and one block of a prompt. Returns whether there is more to do.
        """
        self._admit()
        jobs = [job for job in self.jobs if job.sequence]
        if not jobs:
            return False
        highest = max([job.priority for job in jobs])
        turn = [job for job in jobs if job.priority == highest]
        writing = [job for job in turn if isinstance(job.due, int)][:BATCH]
        for job in writing:  # to the end of the queue
            self.jobs.remove(job)
            self.jobs.append(job)
        self._write(writing)
        for job in turn:
            if isinstance(job.due, list):
                self._read(job)
                break
        return bool(self.jobs)

    def run(self):
        """Writes all texts to their ends."""
        while self.step():
            pass

    async def arun(self):
        """The same; the event loop runs after each turn."""
        import asyncio

        while self.step():
            await asyncio.sleep(0)

    def close(self):
        """Ends all texts ("stopped") and gives the sequences back."""
        for job in list(self.jobs):
            job._end("stopped")
        for sequence in self._free:
            sequence.close()
        self._free = []

    def _admit(self):
        # The highest priority first, of equals the longest waiting. A Generator writes one text at
        # a time, so that its random numbers go on from one to the next.
        while self._free:
            best = None
            busy = [job.gen for job in self.jobs if job.sequence]
            for job in self.jobs:
                if not job.sequence and job.gen not in busy:
                    if best is None or job.priority > best.priority:
                        best = job
                    busy.append(job.gen)
            if best is None:
                return
            best._start(self._free.pop())

    def _write(self, jobs):
        if not jobs:
            return
        try:
            self.model.eval_batch([job.sequence for job in jobs], [job.due for job in jobs])
        except (MemoryError, OSError, ValueError):
            for job in jobs:  # one by one: those that can go on do
                job._eval(job.due)
                job._next()
            return
        for job in jobs:
            job._next()

    def _read(self, job):
        n = self.model.block
        if not job.gen._stop:
            job._eval(job.due[:n])
            del job.due[:n]
        if job.gen._stop or not job.due:
            job._next()


class Job:
    """One text of a `Scheduler`. See `__init__.pyi`."""

    def __init__(self, scheduler, gen, priority, on_text):
        self.gen = gen
        self.priority = priority
        self.done = False
        self.stop_reason = None
        self.error = None
        self.ids = []
        self.sequence = None  # once it has begun
        self.due = None  # what is to be evaluated next: tokens of the prompt, later one token
        self._scheduler = scheduler
        self._on_text = on_text
        self._pieces = None
        self._text = []  # pieces that nobody has read

    def __iter__(self):
        """Pieces of the text; every turn of the scheduler serves the other texts too."""
        while True:
            text = self.read()
            if text:
                yield text
            if self.done:
                return
            self._scheduler.step()

    def read(self):
        """The text since the last call; raises what ended it before its time."""
        if self.error and not self._text:
            raise self.error
        text = "".join(self._text)
        self._text = []
        return text

    def stop(self):
        """Ends the text now."""
        if not self.done:
            self._end("stopped")

    def _start(self, sequence):
        self.sequence = sequence
        self.gen._stop = None
        while not self.done and self.due is None:  # an echo comes before the prompt
            self._next()

    def _eval(self, tokens):
        try:
            self.sequence.eval(tokens)
        except (MemoryError, OSError, ValueError) as error:
            self._fail(error)

    def _next(self):
        if self.done:
            return
        try:
            piece = next(self._pieces)
        except StopIteration:  # no text at all: max_tokens is 0
            return self._end(self.gen.stop_reason)
        except (MemoryError, OSError, ValueError, RuntimeError) as error:
            return self._fail(error)
        if piece:
            if self._on_text:
                self._on_text(piece)
            else:
                self._text.append(piece)
        if self.gen.stop_reason:
            self._end(self.gen.stop_reason)

    def _fail(self, error):
        if not self.done:
            self.error = error
            self._end("error")

    def _end(self, reason):
        self.done = True
        self.stop_reason = reason
        self._scheduler.jobs.remove(self)
        if self.sequence:
            self.ids = self.gen.ids
            self._pieces.close()
            self._scheduler._free.append(self.sequence)
            self.sequence = None
