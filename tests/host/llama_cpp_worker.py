"""llama.cpp, driven by lines of JSON: run by oracle_llama_cpp.py with a Python that has it.

    python llama_cpp_worker.py MODEL FLASH_ATTENTION

Each line on stdin is a request, each line on stdout its answer:

    {"logits": [token, ...], "output": path}  writes float32 [tokens, vocab_size] as .npy, what
                                              follows each token of a text
    {"encode": text}                          the ids, special tokens recognized, no BOS
    {"decode": n}                             seconds of processor time to write n tokens from an
                                              empty cache; only llama_decode is timed, not the
                                              choice of the likeliest

It has one thread.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from typing import Any

import llama_cpp as lib
import numpy as np

CONTEXT = 512


class Worker:
    """A model and its context."""

    def __init__(self, path: str, flash_attention: int) -> None:
        self._quiet = lib.llama_log_callback(lambda level, text, data: None)
        lib.llama_log_set(self._quiet, ctypes.c_void_p())
        lib.llama_backend_init()
        self.model = lib.llama_model_load_from_file(
            path.encode(), lib.llama_model_default_params()
        )
        if not self.model:
            raise SystemExit(f"llama.cpp does not load {path}")
        options = lib.llama_context_default_params()
        options.n_ctx = options.n_batch = options.n_ubatch = CONTEXT
        options.n_threads = options.n_threads_batch = 1
        options.flash_attn_type = flash_attention
        self.context = lib.llama_init_from_model(self.model, options)
        self.vocabulary = lib.llama_model_get_vocab(self.model)
        self.vocab_size = lib.llama_vocab_n_tokens(self.vocabulary)

    def clear(self) -> None:
        """Empty the cache."""
        lib.llama_memory_clear(lib.llama_get_memory(self.context), True)

    def step(self, token: int) -> np.ndarray:
        """Evaluate a token; its logits lie in llama.cpp's memory."""
        one = (lib.llama_token * 1)(token)
        if lib.llama_decode(self.context, lib.llama_batch_get_one(one, 1)):
            raise SystemExit("llama_decode failed")
        return np.ctypeslib.as_array(lib.llama_get_logits(self.context), (self.vocab_size,))

    def logits(self, tokens: list[int], output: str) -> None:
        """Of a text, all of it in one block."""
        self.clear()
        batch = lib.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.logits[i] = token, i, True
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
        if lib.llama_decode(self.context, batch):
            raise SystemExit("llama_decode failed")
        shape = len(tokens), self.vocab_size
        np.save(output, np.ctypeslib.as_array(lib.llama_get_logits(self.context), shape))
        lib.llama_batch_free(batch)

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""
        raw = text.encode()
        room = (lib.llama_token * (len(raw) + 8))()
        n = lib.llama_tokenize(self.vocabulary, raw, len(raw), room, len(room), False, True)
        return room[:n]

    def decode(self, n: int) -> float:
        """Time n tokens, each the likeliest after the one before."""
        self.clear()
        token, seconds = 1, 0.0
        for _ in range(n):
            start = time.process_time()
            logits = self.step(token)
            seconds += time.process_time() - start
            token = int(logits.argmax())
        return seconds


def main() -> None:
    """Answer until stdin ends."""
    worker = Worker(sys.argv[1], int(sys.argv[2]))
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        answer: Any = None
        if "logits" in request:
            worker.logits(request["logits"], request["output"])
        elif "encode" in request:
            answer = worker.encode(request["encode"])
        else:
            answer = worker.decode(request["decode"])
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
