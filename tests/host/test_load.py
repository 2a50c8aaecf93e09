"""What `llm.load` costs on a board: the same whatever the size of the model, but for checksums."""

from __future__ import annotations

import json
from pathlib import Path

from edge_llm.image import Config, Dtype
from edge_llm.romfs import write_romfs
from oracle_models import make_image, plain_tokenizer, random_planes
from qemu import Board

# Virtual time counts instructions, in steps of 40.
SCRIPT = """
import gc, json, llm
from time import ticks_cpu, ticks_diff

def load(path, context, verify):
    gc.collect()
    start = ticks_cpu()
    model = llm.load(path, context=context, block=1, verify=verify)
    taken = ticks_diff(ticks_cpu(), start)
    ram = model.memory()["ram"]
    model.close()
    return taken, ram

load(SMALL, 1, False)  # the first time, more is done
print(json.dumps([load(*arguments) for arguments in LOADS]))
"""


def test_loading_takes_the_same_time_for_any_size_but_for_the_checksums(tmp_path: Path) -> None:
    paths = []
    for dim in (32, 512):
        paths.append(tmp_path / f"dim{dim}.llm")
        config = Config(300, dim, 4 * dim, 2, 4, 4, dim // 4, 512)
        make_image(paths[-1], config, Dtype.INT4, random_planes(1), plain_tokenizer(300))
    small, large = (path.stat().st_size for path in paths)
    assert large > 100 * small
    write_romfs(tmp_path / "rom.romfs", paths)
    name, large_name = (f"/rom/{path.name}" for path in paths)
    loads = [(name, 1, False), (name, 400, False), (large_name, 1, False)]
    loads += [(name, 1, True), (large_name, 1, True)]
    with Board(tmp_path / "rom.romfs", icount=True) as board:
        printed = board.run(SCRIPT, SMALL=name, LOADS=loads)
    (quick, ram), (more, more_ram), (quick_large, large_ram), *whole = json.loads(printed)
    # A wider model takes more RAM, and what that costs is known from the longer context.
    cost = (more - quick) / (more_ram - ram)
    assert more_ram > large_ram and 0 < cost < 10
    assert 0 < quick < 100_000
    assert abs(quick_large - cost * (large_ram - ram) - quick) < 2_000
    assert whole[1][0] - whole[0][0] > large - small  # each byte takes an instruction at least
