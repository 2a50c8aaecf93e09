"""A line of text that is typed at a terminal, with editing and history."""

from . import hal
from .terminal import ESCAPE_MS

# Columns of the terminal: no terminal is narrower, and longer lines are shown in part.
COLUMNS = 80

# Lines that are remembered.
HISTORY = 20

# Characters that take two columns, and none: the first and the last of each range.
_WIDE = (
    (0x1100, 0x115F),
    (0x2E80, 0x303E),
    (0x3041, 0xA4CF),
    (0xAC00, 0xD7A3),
    (0xF900, 0xFAFF),
    (0xFE30, 0xFE6F),
    (0xFF00, 0xFF60),
    (0xFFE0, 0xFFE6),
    (0x1F300, 0x1F64F),
    (0x1F680, 0x1F6FF),
    (0x1F900, 0x1F9FF),
    (0x20000, 0x3FFFD),
)
_NARROW = (
    (0x0300, 0x036F),
    (0x200B, 0x200F),
    (0x20D0, 0x20FF),
    (0xFE00, 0xFE0F),
)


class Editor:
    """Reads lines from a `Terminal`. A paste of several lines is one line."""

    def __init__(self, terminal):
        self._terminal = terminal
        self.history = []

    def read(self, prompt):
        """The next line, which may hold line feeds; None if there are no more: Ctrl-D in an empty
        line, or the other end is closed. Raises KeyboardInterrupt for Ctrl-C."""
        terminal = self._terminal
        self._prompt = prompt
        self._set("")
        self._from = 0  # the first character that is shown
        self._shown = None  # what is on the screen: as `_draw` makes it
        stale = True
        browsed = len(self.history)
        pasting = False
        terminal.put("\x1b[?2004h")  # a paste is to be marked
        try:
            while True:
                key = terminal.key()
                if key is None:
                    if stale:
                        self._draw()
                        stale = False
                    if terminal.closed:
                        return "".join(self._text) or None
                    hal.sleep_ms(2)
                    continue
                stale = True
                if key == "paste" or key == "pasted":
                    pasting = key == "paste"
                elif key == "\x03" and not pasting:
                    raise KeyboardInterrupt
                elif key == "\x04" and not pasting and not self._text:
                    return None
                elif key == "\r" or key == "\n":
                    more = terminal.waiting(ESCAPE_MS)
                    if key == "\r" and more and terminal.skip(b"\n"):
                        more = terminal.waiting(ESCAPE_MS)
                    if not (pasting or more):
                        return self._done()
                    self._insert("\n")
                elif (key == "up" or key == "\x10") and browsed > 0:
                    if browsed == len(self.history):
                        unfinished = "".join(self._text)
                    browsed -= 1
                    self._set(self.history[browsed])
                elif (key == "down" or key == "\x0e") and browsed < len(self.history):
                    browsed += 1
                    self._set(self.history[browsed] if browsed < len(self.history) else unfinished)
                else:
                    self._edit(key)
        finally:
            terminal.put("\x1b[?2004l\n")
            terminal.flush()

    def _set(self, text):
        self._text = list(text)
        self._at = len(self._text)  # where the cursor is

    def _insert(self, char):
        self._text.insert(self._at, char)
        self._at += 1

    def _edit(self, key):
        text = self._text
        at = self._at
        if key == "left" or key == "\x02":
            self._at = max(0, at - 1)
        elif key == "right" or key == "\x06":
            self._at = min(len(text), at + 1)
        elif key == "home" or key == "\x01":
            self._at = 0
        elif key == "end" or key == "\x05":
            self._at = len(text)
        elif key == "\x7f" or key == "\x08":
            self._delete(max(0, at - 1), at)
        elif key == "delete" or key == "\x04":
            self._delete(at, at + 1)
        elif key == "\x0b":
            self._delete(at, len(text))
        elif key == "\x15":
            self._delete(0, at)
        elif key == "\x17":
            start = at
            while start > 0 and text[start - 1] in " \n":
                start -= 1
            while start > 0 and text[start - 1] not in " \n":
                start -= 1
            self._delete(start, at)
        elif key == "\x0c":
            self._shown = None
        elif key == "\t":
            self._insert(" ")
        elif len(key) == 1 and key >= " ":
            self._insert(key)

    def _delete(self, start, end):
        del self._text[start:end]
        self._at = start

    def _done(self):
        text = "".join(self._text)
        self._at = len(text)
        self._draw()
        if self._from or "\n" in text:
            # Now the whole of it, over as many lines as it takes.
            self._terminal.put("\r\x1b[K" + self._prompt + text)
        history = self.history
        if text and (not history or history[-1] != text):
            history.append(text)
            if len(history) > HISTORY:
                del history[0]
        return text

    def _draw(self):
        """Shows the line, as much of it as fits around the cursor."""
        text = self._text
        at = self._at
        room = COLUMNS - 1 - _width(self._prompt)
        start = min(self._from, at)
        while _width(text[start:at]) > room:
            start += 1
        end = at
        used = _width(text[start:at])
        while end < len(text) and used + _width(text[end]) <= room:
            used += _width(text[end])
            end += 1
        while start > 0 and end == len(text) and used + _width(text[start - 1]) <= room:
            start -= 1
            used += _width(text[start])
        self._from = start
        visible = "".join(text[start:end]).replace("\n", "\u21b5")
        last = self._shown
        self._shown = now = (start, at, visible)
        if last and last[0] == start and last[1] == start + len(last[2]) and at == end:
            if visible.startswith(last[2]):
                self._terminal.put(visible[len(last[2]) :])  # it has only grown
                self._terminal.flush()
                return
        if now != last:
            out = "\r" + self._prompt + visible + "\x1b[K"
            if at < end:
                out += f"\r\x1b[{_width(self._prompt) + _width(text[start:at])}C"
            self._terminal.put(out)
            self._terminal.flush()


def _width(chars):
    """Columns that characters take, as terminals reckon."""
    n = 0
    for char in chars:
        code = ord(char)
        n += 1
        if code >= 0x300:
            n += _is_in(code, _WIDE) - _is_in(code, _NARROW)
    return n


def _is_in(code, ranges):
    for first, last in ranges:
        if first <= code <= last:
            return True
    return False
