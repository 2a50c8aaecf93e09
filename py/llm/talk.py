"""What `llm.chat` runs."""

from . import hal
from .editor import Editor
from .generator import LISTEN_MS, Generator
from .terminal import Terminal, pour

HELP = """\
Type a text and the model goes on with it; an empty line: it goes on by itself.
ESC stops it.
  /reset      begin anew             /save FILE  keep the state
  /temp 0.7   set the temperature    /load FILE  go on with it
  /stats      of the last text       /quit       end, as Ctrl-D does
  /help       this
"""


class Chat:
    """A conversation with a model at a terminal."""

    def __init__(self, model, stream, max_tokens, stop, settings):
        self._model = model
        self._max_tokens = max_tokens
        self._stop = stop
        self._settings = settings
        self._gen = Generator(model, **settings)
        self._pending = []  # tokens that were said and are not in the cache
        self._terminal = Terminal(stream, 256, True)
        self._terminal.crlf = stream is not None and stream is not hal.stdout()

    def run(self):
        """Reads lines and answers them until there are no more."""
        editor = Editor(self._terminal)
        self._print(HELP)
        while True:
            try:
                line = editor.read("> ")
                if line is None or self._obey(line):
                    return
            except KeyboardInterrupt:
                pass
            except (ValueError, OSError, MemoryError) as error:
                self._print(f"{error}\n")

    def _print(self, text):
        self._terminal.put(text)
        self._terminal.flush()

    def _obey(self, line):
        """Does what a line says; returns whether that is to end."""
        words = line.split()
        command = words[0] if line.startswith("/") else ""
        argument = words[1] if command and len(words) > 1 else ""
        if not command:
            self._say(line)
        elif command == "/quit":
            return True
        elif command == "/help":
            self._print(HELP)
        elif command == "/reset":
            self._model.rewind(0)
            self._pending = []
        elif command == "/stats":
            self._print(self._stats())
        elif command == "/temp":
            if argument:
                self._temperature(float(argument))
            self._print(f"temperature {self._settings.get('temperature', 0.8)}\n")
        elif command in ("/save", "/load"):
            self._file(command, argument)
        else:
            self._print(f"{command}: unknown, /help lists what there is\n")
        return False

    def _say(self, text):
        model = self._model
        n = model.n_tokens
        ids = self._pending + (model.encode(text, None if n == 0 else False) if text else [])
        if not ids and n > 0:
            # To go on, the last token is evaluated again: its logits may have been used up.
            ids = model.tokens()[-1:]
            model.rewind(n - 1)
            n -= 1
        gen = self._gen
        pieces = gen._begin("", self._max_tokens, self._stop, False, True, ids, ms=LISTEN_MS)
        try:
            pour(gen, pieces, self._terminal, None)
        finally:
            # What was said of `ids` and of the text may not have got into the cache.
            self._pending = (ids + gen.ids)[model.n_tokens + gen._n_condensed - n :]
            if gen.stop_reason == "end":
                self._pending.append(gen._end_id)
            self._print("\n")
        if gen.stop_reason == "context":
            self._print("[the context is full: /reset]\n")

    def _stats(self):
        model = self._model
        stats = self._gen.stats()
        n = model.n_tokens + len(self._pending)
        fallen = f", {n - model.context} have fallen out" if n > model.context else ""
        return (
            f"{stats['tokens']} tokens, {stats['tokens_per_s']:.1f} a second, "
            f"the first after {stats['first_token_ms']} ms; {stats['prompt_tokens']} were given\n"
            f"context: {min(n, model.context)} of {model.context} tokens{fallen}\n"
            f"RAM: {model.memory()['ram']:,} bytes\n"
        )

    def _temperature(self, temperature):
        settings = dict(self._settings)
        settings["temperature"] = temperature
        self._gen = Generator(self._model, **settings)
        self._settings = settings

    def _file(self, command, path):
        method = getattr(self._model, command[1:] + "_state", None)
        if method is None:
            raise ValueError(f"{command}: this version cannot")
        if not path:
            raise ValueError(f"{command}: needs the name of a file")
        try:
            with open(path, "wb" if command == "/save" else "rb") as file:
                method(file)
        except OSError as error:
            raise hal.with_path(error, path) from None
        if command == "/load":
            self._pending = []


def chat(model, stream, max_tokens, stop, settings):
    """See `llm.chat`."""
    conversation = Chat(model, stream, max_tokens, stop, settings)
    undo = hal.unbuffer()
    try:
        conversation.run()
    finally:
        undo()
