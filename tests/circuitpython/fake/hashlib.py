"""`hashlib`: `new` and nothing else; a hash gives its digest as bytes only."""

import hashlib as _hashlib

from . import only_instance


class Hash:
    __init__ = only_instance("Hash")

    @property
    def digest_size(self):
        return self._hash.digest_size

    def update(self, data):
        self._hash.update(data)

    def digest(self):
        return self._hash.digest()


def new(name, data=b""):
    if name not in ("sha1", "sha256"):
        raise ValueError("Unsupported hash algorithm")
    made = object.__new__(Hash)
    made._hash = _hashlib.new(name, data)
    return made
