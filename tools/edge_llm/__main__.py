"""`python -m edge_llm` is `edge-llm`."""

import sys

from .cli import main

sys.exit(main())
