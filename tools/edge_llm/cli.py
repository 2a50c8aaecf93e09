"""The command `edge-llm`.

Exit codes: 0 done, 1 bad input (one sentence on stderr), 2 wrong usage.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from . import __version__, llm
from .convert import DTYPES, convert
from .image import Dtype, Image, Tensor
from .importers import open_model
from .romfs import read_romfs, write_romfs
from .tokenizer import Kind


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    try:
        try:
            arguments = _parser().parse_args(argv)
            return arguments.command(arguments)
        finally:
            _flush()
    except BrokenPipeError:
        return 1  # whoever read the output has gone (`| head`)
    except KeyboardInterrupt:
        print()
        return 130
    except OSError as error:
        path = error.filename2 or error.filename  # the second is where one was to be moved to
        return _fail(f"{path}: {error.strerror}" if path else error.strerror or str(error))
    except (ValueError, MemoryError) as error:
        return _fail(str(error) or "out of memory")


def _flush() -> None:
    """Write out what stdout holds now, where a failure is caught, not when Python ends."""
    if sys.stdout is None:  # closed by the caller
        return
    try:
        sys.stdout.flush()
    except OSError:
        # What could not be written is kept and tried again at the end: let that go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


def _fail(message: str) -> int:
    print(f"edge-llm: {message}", file=sys.stderr)
    return 1


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        print(f"edge-llm: {message} (see `{self.prog} --help`)", file=sys.stderr)
        raise SystemExit(2)


_DEFAULTS = inspect.signature(llm.Generator).parameters


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="edge-llm",
        description="Language models for MicroPython boards: make, check, pack and run images "
        "(*.llm).",
    )
    parser.add_argument("--version", action="version", version=f"edge-llm {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(name: str, function: Callable[[Any], int], text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text)
        added.set_defaults(command=function)
        return added

    sub = command(
        "convert", _convert, "Turn a checkpoint into an image, which is what boards run."
    )
    _add_model(sub, "a GGUF model or llama2.c checkpoint, or a folder that holds one")
    sub.add_argument(
        "--tokenizer",
        metavar="FILE",
        help="the vocabulary of a llama2.c checkpoint (default: tok*.bin beside it)",
    )
    sub.add_argument(
        "--quantize",
        choices=DTYPES,
        required=True,
        help="bits of the weights: int4 takes 4, and 8 in embedding and head; f32 keeps them as "
        "they are",
    )
    sub.add_argument(
        "--output", "-o", metavar="FILE", required=True, help="the image to write, *.llm"
    )
    sub.add_argument(
        "--context",
        type=_count,
        metavar="N",
        help="longest text, in tokens (default: what the model was trained for)",
    )
    sub.add_argument("--name", help="name of the model, for its card (default: the file's)")
    sub.add_argument("--licence", help="its licence, for its card (default: as the model says)")

    sub = command("info", _info, "Show what an image holds.")
    sub.add_argument("image", metavar="IMAGE", help="an image, *.llm")
    sub.add_argument("--json", action="store_true", help="print JSON, for programs")

    sub = command("verify", _verify, "Check every byte of an image.")
    sub.add_argument("image", metavar="IMAGE", help="an image, *.llm")

    sub = command("pack", _pack, "Pack images and other files for a board's flash.")
    sub.add_argument(
        "--romfs",
        metavar="OUT",
        required=True,
        help="write a MicroPython ROMFS image, files aligned to 64 bytes; flash it to an address "
        "that is a multiple of 64",
    )
    sub.add_argument(
        "files", metavar="FILE", nargs="+", help="a file, or a folder with all that is in it"
    )

    sub = command("run", _run, "Generate text on this machine, with the engine of the boards.")
    _add_model(sub, "an image, *.llm")
    sub.add_argument("--prompt", default="", help="text to go on from")
    sub.add_argument(
        "--tokens",
        type=_count,
        default=256,
        metavar="N",
        help="tokens to write at most (default: 256)",
    )
    for name, kind, metavar, text in (
        ("temperature", float, "T", "0: always the likeliest token; higher: more surprising"),
        ("top_k", int, "K", "choose among the K likeliest tokens only; 0: all"),
        ("top_p", float, "P", "among the likeliest that sum to a share of P only; 1: all"),
        ("min_p", float, "P", "among those with P of the likeliest's share only; 0: all"),
        ("repetition_penalty", float, "R", "above 1: repeat less"),
    ):
        default = _DEFAULTS[name].default
        sub.add_argument(
            "--" + name.replace("_", "-"),
            type=kind,
            metavar=metavar,
            default=default,
            help=f"{text} (default: {default})",
        )
    sub.add_argument("--seed", type=int, metavar="N", help="same seed, same text (default: new)")
    sub.add_argument(
        "--kernels",
        metavar="NAME",
        help=f"kernel set: {', '.join(llm.kernels())} (default: the first)",
    )
    return parser


def _add_model(parser: argparse.ArgumentParser, text: str) -> None:
    """The model, as a positional argument or as `--model`."""
    group = parser.add_mutually_exclusive_group(required=True)
    # SUPPRESS: else the positional's default would overwrite what --model gave.
    group.add_argument("model", metavar="MODEL", nargs="?", default=argparse.SUPPRESS, help=text)
    group.add_argument("--model", dest="model", metavar="MODEL", help="the same")


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


_count.__name__ = "number above 0"  # argparse names it in its message


# ------------------------------------------------------------------------------------ convert


def _convert(arguments: argparse.Namespace) -> int:
    source = open_model(arguments.model, arguments.tokenizer)
    written: list[Tensor] = []
    n_matrices = 7 * source.config.n_layers + 1
    with _progress("Quantizing", n_matrices) as advance:

        def progress(tensor: Tensor) -> None:
            written.append(tensor)
            if tensor.rows > 1:
                advance()

        size = convert(
            source,
            arguments.output,
            arguments.quantize,
            context=arguments.context,
            name=arguments.name,
            licence=arguments.licence,
            progress=progress,
        )
    console = Console()
    console.print(_size_table(written, size))
    console.print(f"{arguments.output}: {size:,} bytes", highlight=False, soft_wrap=True)
    return 0


@contextmanager
def _progress(label: str, total: int) -> Iterator[Callable[[], None]]:
    """A bar on stderr for what takes more than a second; gives the function that moves it on."""
    bar = Progress(
        TextColumn(label),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task(label, total=total)
    begin = time.monotonic()

    def advance() -> None:
        bar.advance(task)
        if time.monotonic() - begin > 1:
            bar.start()

    try:
        yield advance
    finally:
        if bar.live.is_started:
            bar.stop()


def _size_table(tensors: Sequence[Tensor], image_size: int) -> Table:
    """Elements, bytes and bits an element of each kind of tensor."""
    kinds: dict[str, list[Tensor]] = defaultdict(list)
    for tensor in tensors:
        kind = tensor.name if tensor.layer is None else tensor.name.split("_")[0]
        kinds[f"{kind} ({tensor.dtype.name.lower()})"].append(tensor)
    table = Table(box=None, header_style="bold")
    for column in ("tensors", "elements", "bytes", "bits/weight"):
        table.add_column(column, justify="left" if column == "tensors" else "right")
    for kind, members in [*sorted(kinds.items()), ("all", list(tensors))]:
        elements = sum(tensor.rows * tensor.cols for tensor in members)
        size = sum(tensor.size for tensor in members)
        table.add_row(kind, f"{elements:,}", f"{size:,}", f"{8 * size / elements:.2f}")
    stored = sum(tensor.size for tensor in tensors)
    table.add_row("rest (tokenizer, tables, card)", "", f"{image_size - stored:,}", "")
    return table


# ------------------------------------------------------------------------------ info and verify


def _open(path: str) -> Image:
    try:
        return Image.open(path)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _info(arguments: argparse.Namespace) -> int:
    image = _open(arguments.image)
    try:
        report = _report(image)
    except ValueError as error:
        raise ValueError(f"{arguments.image}: {error}") from None
    if arguments.json:
        print(json.dumps(report, indent=1, ensure_ascii=False))
        return 0
    console = Console()
    for title in ("card", "config", "tokenizer", "sections"):
        table = Table(box=None, show_header=False, title=title, title_justify="left")
        for name, value in report[title].items():
            table.add_row(f"  {name}", _text(value))
        console.print(table)
    console.print(_tensor_table(image))
    console.print(_size_table(image.tensors, image.total_size))
    console.print(f"{arguments.image}: {image.total_size:,} bytes", highlight=False)
    return 0


def _report(image: Image) -> dict[str, Any]:
    tokenizer = image.tokenizer
    bpe = {}
    if tokenizer.kind == Kind.BPE:
        bpe = {
            "split": tokenizer.split.name.lower(),
            "n_merges": len(tokenizer.merges),
            "ignore_merges": tokenizer.ignore_merges,
        }
    config = image.config
    return {
        "total_size": image.total_size,
        "sha256": image.section("HASH").tobytes().hex(),
        "card": image.card,
        "config": {
            **vars(config),
            "rope": {1: "neighbours", 2: "halves"}[config.rope],
        },
        "tokenizer": {
            "kind": tokenizer.kind.name.lower(),
            "n_tokens": len(tokenizer.pieces),
            "n_sorted": len(tokenizer.sorted_ids),
            "longest_piece": max(map(len, tokenizer.pieces)),
            "bos_id": tokenizer.bos_id,
            "eos_id": tokenizer.eos_id,
            "unk_id": tokenizer.unk_id,
            "add_bos": tokenizer.add_bos,
            "add_space_prefix": tokenizer.add_space_prefix,
            "byte_fallback": tokenizer.byte_fallback,
            "cut_at_spaces": tokenizer.cut_at_spaces,
            **bpe,
        },
        "sections": {
            section.name: {
                "offset": section.offset,
                "size": section.size,
                "crc": f"{section.crc:08x}",
            }
            for section in image.sections
        },
        "tensors": [
            {
                "name": tensor.name,
                "layer": tensor.layer,
                "dtype": tensor.dtype.name.lower(),
                "rows": tensor.rows,
                "cols": tensor.cols,
                "offset": tensor.data,
                "size": tensor.size,
            }
            for tensor in image.tensors
        ],
    }


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(part)}" for key, part in value.items())
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if type(value) is int else str(value)


def _tensor_table(image: Image) -> Table:
    """The tensors, those that are alike in every layer on one line."""
    table = Table(box=None, title="tensors", title_justify="left", header_style="bold")
    for column in ("  name", "layers", "dtype", "rows x cols", "bytes each"):
        table.add_column(column, justify="right" if column == "bytes each" else "left")
    lines: dict[tuple[str, Dtype, int, int, int], list[int | None]] = defaultdict(list)
    for tensor in image.tensors:
        key = (tensor.name, tensor.dtype, tensor.rows, tensor.cols, tensor.size)
        lines[key].append(tensor.layer)
    for (name, dtype, rows, cols, size), layers in lines.items():
        where = "" if layers[0] is None else str(len(layers))
        table.add_row(f"  {name}", where, dtype.name.lower(), f"{rows:,} x {cols:,}", f"{size:,}")
    return table


def _verify(arguments: argparse.Namespace) -> int:
    image = _open(arguments.image)
    try:
        image.verify()
    except ValueError as error:
        raise ValueError(f"{arguments.image}: {error}") from None
    print(f"{arguments.image}: sound, SHA-256 {image.section('HASH').tobytes().hex()}")
    return 0


# --------------------------------------------------------------------------------------- pack


def _pack(arguments: argparse.Namespace) -> int:
    size = write_romfs(arguments.romfs, arguments.files)
    with open(arguments.romfs, "rb") as file:
        entries = read_romfs(file.read())
    table = Table(box=None, header_style="bold")
    for column in ("file", "offset", "bytes"):
        table.add_column(column, justify="left" if column == "file" else "right")
    for path, (offset, length) in entries.items():
        if not path.endswith("/"):
            table.add_row(path, f"{offset:#x}", f"{length:,}")
    console = Console()
    console.print(table)
    console.print(
        f"{arguments.romfs}: {size:,} bytes; flash it to an address that is a multiple of 64",
        highlight=False,
        soft_wrap=True,
    )
    return 0


# ---------------------------------------------------------------------------------------- run


def _run(arguments: argparse.Namespace) -> int:
    with llm.load(arguments.model, kernels=arguments.kernels) as model:
        generator = llm.Generator(
            model,
            temperature=arguments.temperature,
            top_k=arguments.top_k,
            top_p=arguments.top_p,
            min_p=arguments.min_p,
            repetition_penalty=arguments.repetition_penalty,
            seed=arguments.seed,
        )
        # As bytes, so that what the shell gave is told apart from what is no UTF-8 by the engine.
        prompt = os.fsencode(arguments.prompt)
        stats = generator.stream(prompt, max_tokens=arguments.tokens, echo=True)
        print(flush=True)
        per_s = stats["tokens_per_s"]
        speed = f"{per_s:,.0f} tokens/s, " if per_s else ""  # 0: too few to measure
        print(
            f"[{stats['tokens']} tokens, {speed}"
            f"ended by {stats['stop_reason']}, seed {generator.seed}, digest {stats['digest']}]",
            file=sys.stderr,
        )
    return 0
