"""First code of every start: mounts littlefs on the flash after the ROMFS, formatted when it is blank."""

import sys

import uctypes
import vfs


class Flash:
    """Block device on memory-mapped flash: `size` bytes at `address`, in erase blocks of 4 KB."""

    def __init__(self, address, size):
        self._bytes = memoryview(uctypes.bytearray_at(address, size))

    def readblocks(self, block, buf, offset=0):
        """Fills `buf` from `offset` bytes into `block`."""
        start = block * 4096 + offset
        buf[:] = self._bytes[start : start + len(buf)]

    def writeblocks(self, block, buf, offset=0):
        """Writes `buf` at `offset` bytes into `block`."""
        start = block * 4096 + offset
        self._bytes[start : start + len(buf)] = buf

    def ioctl(self, op, arg):
        """Answers 4 (number of blocks), 5 (bytes in a block) and 6 (erase: not needed in RAM)."""
        return {4: len(self._bytes) // 4096, 5: 4096, 6: 0}.get(op)


sys.path.insert(2, "/lib")
flash = Flash(0x60E00000, 0x200000)
try:
    vfs.mount(vfs.VfsLfs2(flash), "/")
except OSError:
    vfs.VfsLfs2.mkfs(flash)
    vfs.mount(vfs.VfsLfs2(flash), "/")

del Flash, flash, sys, uctypes, vfs
