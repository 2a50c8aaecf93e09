# Python code frozen as bytecode into every firmware of the project.
# ruff: noqa: F821 (the functions are those of MicroPython's manifest files)
include("$(MPY_DIR)/extmod/asyncio")
include("../py/manifest.py")
