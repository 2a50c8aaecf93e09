"""A stream that someone reads and types at: text out through a buffer, keys in."""

from . import hal

# How long an ESC is waited after for the rest of an arrow key, before it is the key ESC.
ESCAPE_MS = 30

# How long a stream that takes nothing is waited for once a text has been stopped.
STUCK_MS = 1000

# How long a stream that takes nothing is waited for before it is tried again.
WAIT_MS = 10

# Ends whatever string or sequence was broken off, then the colours.
CLOSE = "\x1b\\\x1b[0m"

# Keys by what ends their sequence, after ESC [ or ESC O.
_KEYS = {
    "A": "up",
    "B": "down",
    "C": "right",
    "D": "left",
    "H": "home",
    "F": "end",
    "1~": "home",
    "7~": "home",
    "4~": "end",
    "8~": "end",
    "3~": "delete",
    "200~": "paste",
    "201~": "pasted",
}


class Terminal:
    """Writes to a stream what it takes at once and keeps the rest, up to `size` bytes; reads keys
    from it.

    stream: the terminal if None. Files and what cannot be read from have no keys; nor has the
    terminal unless `keys`, for where it gives lines a program must have changed that first.
    """

    def __init__(self, stream, size, keys):
        if size < 1:
            raise ValueError("buffer: must be 1 or more")
        self._out = hal.stdout() if stream is None else stream
        terminal = self._out is hal.stdout()
        self._is_text = hal.is_text(self._out)
        self._buffer = bytearray(size)
        self.crlf = False  # whether a line feed needs a carriage return
        self._start = 0
        self.n = 0  # bytes of the buffer that are in use
        self.rest = b""  # what has no room in it
        self._poll = None if terminal or self._is_text else _poll(self._out)
        self._in = None if terminal else self._out
        self._got = b""  # bytes that were read but are no key yet
        self._has_keys = keys if terminal else not _is_file(stream)
        if self._has_keys:
            try:
                hal.waiting(self._in)
            except (OSError, AttributeError, TypeError, ValueError):
                self._has_keys = False

    def put(self, text):
        """Writes what the stream takes now of `text` and keeps the rest. Where that is more than
        the buffer holds, it is in `rest`: time to wait."""
        if self.crlf:
            text = text.replace("\n", "\r\n")
        if self._is_text:
            self._out.write(text)
            if hasattr(self._out, "flush"):  # CircuitPython's have none
                self._out.flush()
            return
        data = text.encode()
        if not self.n:
            n = self._out.write(data)
            if n == len(data):
                return
            data = data[self._taken(n, data) :]
        self.rest = self.rest + data if self.rest else data
        self._fill()

    def pump(self):
        """Writes what the stream takes now. Returns how many bytes are left."""
        while self.n:
            end = self._start + self.n
            data = memoryview(self._buffer)[self._start : end]
            n = self._taken(self._out.write(data), data)
            if not n:
                break
            self._start += n
            self.n -= n
            self._fill()
        return self.n + len(self.rest)

    def wait(self, ms):
        """Waits until the stream may take more, `ms` at most."""
        if self._poll:
            self._poll.poll(ms)
        else:
            hal.sleep_ms(1)

    def _taken(self, n, data):
        # A stream that takes nothing returns 0 or None. None from one that cannot be polled is
        # what a plain Python method returns: it took everything.
        if n is None:
            return 0 if self._poll else len(data)
        return n

    def _fill(self):
        buffer = self._buffer
        n = min(len(self.rest), len(buffer) - self.n)
        if n:
            if self._start:
                buffer[: self.n] = buffer[self._start : self._start + self.n]
                self._start = 0
            buffer[self.n : self.n + n] = self.rest[:n]
            self.n += n
            self.rest = self.rest[n:]

    def key(self):
        """The next key, None if none waits: a character, among them control characters, or a name
        that `_KEYS` has; "" for a key that has no meaning here."""
        if not self.waiting(0):
            return None
        byte = self._byte()
        if byte == 0x1B:
            return self._escape()
        if byte < 0x80:
            return chr(byte)
        # A character of several bytes: as many more as its first says.
        data = bytes([byte])
        for _ in range(1 if byte < 0xE0 else 2 if byte < 0xF0 else 3):
            byte = self._byte()
            if byte < 0:
                return ""
            if byte & 0xC0 != 0x80:
                self._got = bytes([byte]) + self._got
                return ""
            data += bytes([byte])
        try:
            return data.decode()
        except ValueError:  # UnicodeError
            return ""

    def _escape(self):
        byte = self._byte()
        if byte < 0:
            return "\x1b"
        if byte == 0x1B:
            self._got = b"\x1b" + self._got
            return "\x1b"
        if byte not in (0x5B, 0x4F):  # [ and O
            return ""  # a character with Alt
        name = ""
        while True:
            byte = self._byte()
            if not 0x20 <= byte < 0x7F:
                return ""
            name += chr(byte)
            if byte >= 0x40:
                # With a modifier, as in ESC [ 1 ; 5 C, the key is what it is without.
                return _KEYS.get(name if name[-1] == "~" else name[-1], "")

    def _byte(self):
        """The next byte, -1 if none comes within `ESCAPE_MS`."""
        if not self.waiting(ESCAPE_MS):
            return -1
        byte = self._got[0]
        self._got = self._got[1:]
        return byte

    def waiting(self, ms):
        """Whether something is typed within `ms`."""
        if not self._got and self._has_keys:
            start = hal.ticks_ms() if ms else 0
            while not hal.waiting(self._in):
                if not ms or hal.ticks_diff(hal.ticks_ms(), start) >= ms:
                    return False
                hal.sleep_ms(1)
            try:
                self._got = hal.read(self._in)
            except OSError:
                self._got = b""
            self._has_keys = len(self._got) > 0  # else the other end is closed
        return len(self._got) > 0

    def skip(self, byte):
        """Whether `byte` was typed next; then it is no key any more."""
        if not (self.waiting(0) and self._got.startswith(byte)):
            return False
        self._got = self._got[1:]
        return True

    @property
    def closed(self):
        """Whether no key will ever come."""
        return not (self._has_keys or self._got)

    def flush(self):
        """Waits until all has been written."""
        while self.pump():
            self.wait(WAIT_MS)


def pour(gen, pieces, terminal, token_pin):
    """Writes the pieces of a text as they come, one for every token, and obeys the keys ESC and
    Ctrl-C."""
    try:
        for ms in steps(gen, pieces, terminal, token_pin):
            if ms:
                terminal.wait(ms)
    except BaseException as error:
        for ms in break_off(gen, terminal, error):
            terminal.wait(ms)
        raise


def steps(gen, pieces, terminal, token_pin):
    """Does what `pour` does; yields whenever something else may be done, and for how long: the
    milliseconds after which the stream may take more."""
    toggle = _toggle(token_pin)
    n = 0
    for piece in pieces:
        if toggle and len(gen.ids) > n:
            toggle()
        n = len(gen.ids)
        if terminal.n:
            terminal.pump()
        if piece:
            terminal.put(piece)
        if terminal.waiting(0):
            _listen(gen, terminal)
        while terminal.rest and not gen._stop:
            yield WAIT_MS
            terminal.pump()
            _listen(gen, terminal)
        yield 0
    if gen._stop and gen.ansi == "raw":
        terminal.put(CLOSE)
    yield from _drain(gen, terminal)
    if gen._stop:  # also if that came when the last token had been chosen
        gen.stop_reason = gen._stop


def break_off(gen, terminal, error):
    """Ends a text that `error` has broken off, so that the terminal can be used."""
    if isinstance(error, OSError):
        return
    gen._stop = "interrupted"
    terminal.put(gen._decoder.finish() + (CLOSE if gen.ansi == "raw" else ""))
    yield from _drain(gen, terminal)
    gen.stop_reason = "interrupted" if isinstance(error, KeyboardInterrupt) else None


def _listen(gen, terminal):
    key = terminal.key()
    while key is not None:
        if key == "\x1b":
            gen.stop()
        elif key == "\x03":
            gen._stop = "interrupted"
        key = terminal.key()


def _drain(gen, terminal):
    """Writes what is left; but of a text that was stopped only what the stream still takes."""
    left = terminal.pump()
    since = hal.ticks_ms()
    while left:
        yield WAIT_MS
        _listen(gen, terminal)
        before = left
        left = terminal.pump()
        now = hal.ticks_ms()
        if left < before:
            since = now
        elif gen._stop and hal.ticks_diff(now, since) > STUCK_MS:
            return


def _toggle(pin):
    """What a token calls, None if there is nothing to call."""
    if pin is None or not hasattr(pin, "value"):
        toggle = getattr(pin, "toggle", pin)
        if pin is None or callable(toggle):
            return toggle
        raise TypeError("token_pin: must be a pin or something to call")
    state = [False]

    def toggle():
        state[0] = not state[0]
        hal.drive(pin, state[0])

    return toggle


def _poll(stream):
    """A poll object that says when a stream can be written to, None if that cannot be known."""
    try:
        import select

        poll = select.poll()
        poll.register(stream, select.POLLOUT)
        poll.poll(0)
    except (ImportError, OSError, AttributeError, TypeError, ValueError):
        return None
    return poll


def _is_file(stream):
    try:
        stream.seek(0, 1)
    except (OSError, AttributeError):
        return False
    return True
