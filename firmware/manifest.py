# Python code frozen as bytecode into every firmware of the project.
# ruff: noqa: F821 (the functions are those of MicroPython's manifest files)
import os

include("$(MPY_DIR)/extmod/asyncio")
if os.path.isdir("../py/llm"):
    package("llm", base_path="../py")
