"""`os`: shared-bindings/os."""

import os as _os

sep = "/"
chdir, getcwd, listdir, mkdir, remove, rmdir = (
    getattr(_os, name) for name in ("chdir", "getcwd", "listdir", "mkdir", "remove", "rmdir")
)
rename, stat, statvfs, uname, utime = (
    getattr(_os, name) for name in ("rename", "stat", "statvfs", "uname", "utime")
)


def getenv(key, default=None):
    return default


def sync():
    pass


def urandom(size):
    return _os.urandom(size)
