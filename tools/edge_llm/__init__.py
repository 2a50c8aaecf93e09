"""`edge-llm`: language models for microcontrollers, on the desk side.

Turns public checkpoints into `.llm` images (`edge_llm.convert`), reads and checks them
(`edge_llm.image`), packs them for a board (`edge_llm.romfs`) and runs them with the boards' own
engine (`edge_llm.llm`, the package `llm` of the boards, over `edge_llm.engine`).
"""

__version__ = "0.1.0"
