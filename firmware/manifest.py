# Python code frozen as bytecode into every firmware of the project.
import os

include("$(MPY_DIR)/extmod/asyncio")
if os.path.isdir("../py/llm"):
    package("llm", base_path="../py")
