"""Block devices as files; a module of its own, so that it takes no RAM where there is none."""


class BlockFile:
    """A block device (`readblocks` and `ioctl`) as a file to `seek` and `readinto`, from block 0
    on.

    Flash that can begin within a block (the extended interface) is read as asked for; of other
    devices only whole blocks are, so the first and last go through a buffer.
    """

    def __init__(self, device):
        self._device = device
        self._size = device.ioctl(5, 0) or 512
        self._end = device.ioctl(4, 0) * self._size
        self._at = 0
        self._block = bytearray(self._size)
        try:
            device.readblocks(0, self._block, 0)
            self._extended = True
        except TypeError:  # takes no offset
            self._extended = False

    def seek(self, offset, whence=0):
        self._at = offset + (0, self._at, self._end)[whence]
        return self._at

    def readinto(self, buf):
        """Fills as much of `buf` as is there; returns how many bytes that is."""
        n = max(0, min(len(buf), self._end - self._at))
        if n:
            rest = memoryview(buf)[:n]
            if self._extended:
                self._read(self._at // self._size, rest, self._at % self._size)
            else:
                self._read_blocks(self._at, rest)
            self._at += n
        return n

    def _read(self, *args):
        result = self._device.readblocks(*args)
        # None or 0 is good, and True from devices that return whether it is.
        if result is False or (result not in (None, 0) and result is not True):
            raise OSError(-result if result < 0 else 5, "readblocks failed")

    def _read_blocks(self, at, rest):
        size = self._size
        while rest:
            block, start = divmod(at, size)
            n = len(rest) - len(rest) % size
            if start or not n:
                n = min(size - start, len(rest))
                self._read(block, self._block)
                rest[:n] = memoryview(self._block)[start : start + n]
            else:
                self._read(block, rest[:n])
            at += n
            rest = rest[n:]
