"""Only what pyproject.toml has no word for: the engine, built by cffi."""

from setuptools import setup

setup(cffi_modules=["tools/edge_llm/_build_cffi.py:ffi"])
