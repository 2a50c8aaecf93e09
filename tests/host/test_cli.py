"""The command `edge-llm`: what it prints, its exit codes, and that bad input gets one sentence."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from edge_llm import engine
from edge_llm.cli import main
from edge_llm.image import Image
from edge_llm.romfs import read_romfs
from test_convert import GOOD, TIED, make_weights, place, version_1

VECTORS = Path(__file__).parents[1] / "vectors"
IMAGE = str(VECTORS / "tiny-int4.llm")
STORIES = Path(__file__).resolve().parents[3] / "shared" / "models" / "stories260K"


def fails(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 1) -> str:
    """Run a command that must fail with one sentence on stderr; returns the sentence."""
    try:
        got = main(arguments)
    except SystemExit as error:
        got = error.code
    out, err = capsys.readouterr()
    assert got == code, err
    assert out == ""
    assert err.startswith("edge-llm: ") and err.endswith("\n") and err.count("\n") == 1
    return err


# ------------------------------------------------------------------------------------- convert


@pytest.mark.parametrize("form", ["positional", "option", "folder"])
def test_convert(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(place(tmp_path, GOOD))
    out = str(tmp_path / "m.llm")
    where = {"positional": [model], "option": ["--model", model], "folder": [str(tmp_path)]}[form]
    more = ["--name", "Tiny", "--licence", "MIT", "--context", "8"]
    assert main(["convert", *where, "--quantize", "int4", "--output", out, *more]) == 0
    text, err = capsys.readouterr()
    image = Image.open(out)
    image.verify()
    assert image.config.context == 8
    assert image.card["name"] == "Tiny" and image.card["licence"] == "MIT"
    assert err == ""
    for word in ("attn (int4)", "ffn (int4)", "token_embd (int8)", "bits/weight"):
        assert word in text
    assert f"{image.total_size:,} bytes" in text


def test_convert_names_the_tokenizer_that_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = place(tmp_path, GOOD)
    (tmp_path / "tok262.bin").rename(tmp_path / "vocabulary")
    arguments = ["convert", str(model), "--quantize", "f32", "-o", str(tmp_path / "m.llm")]
    assert "--tokenizer" in fails(capsys, *arguments)
    assert main([*arguments, "--tokenizer", str(tmp_path / "vocabulary")]) == 0


def test_convert_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = place(tmp_path, GOOD[:-1])
    out = tmp_path / "m.llm"
    tail = ["--quantize", "int4", "-o", str(out)]
    assert "is truncated" in fails(capsys, "convert", str(model), *tail)
    assert "is an .llm image already" in fails(capsys, "convert", IMAGE, *tail)
    missing = fails(capsys, "convert", str(tmp_path / "no"), *tail)
    assert "no: No such file or directory" in missing
    model.write_bytes(GOOD)
    assert "context: 99 is not" in fails(capsys, "convert", str(model), *tail, "--context", "99")
    assert not out.exists()
    bad = ["--quantize", "int4", "-o", str(tmp_path / "no" / "m.llm")]
    assert "No such file or directory" in fails(capsys, "convert", str(model), *bad)
    bad = ["--quantize", "int4", "-o", str(tmp_path)]
    assert f"{tmp_path}: Is a directory" in fails(capsys, "convert", str(model), *bad)
    assert not list(tmp_path.parent.glob("*.partial"))


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["frobnicate"],
        ["convert", "m.bin"],
        ["convert", "--quantize", "int4", "-o", "m.llm"],
        ["convert", "a", "--model", "b", "--quantize", "int4", "-o", "m.llm"],
        ["convert", "a", "--quantize", "int3", "-o", "m.llm"],
        ["convert", "a", "--quantize", "int4", "-o", "m.llm", "--context", "0"],
        ["info"],
        ["pack", "m.llm"],
        ["pack", "--romfs", "out"],
        ["run", "m.llm", "--tokens", "-1"],
        ["run", "m.llm", "--temperature", "hot"],
    ],
)
def test_wrong_usage_exits_with_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "--help" in fails(capsys, *arguments, code=2)


def test_converting_for_long_shows_a_bar(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr("edge_llm.cli.time.monotonic", lambda: next(clock))
    monkeypatch.setenv("FORCE_COLOR", "1")
    model = place(tmp_path, version_1(TIED, make_weights(TIED)))
    main(["convert", str(model), "--quantize", "int8", "-o", str(tmp_path / "m.llm")])
    assert "Quantizing" in capsys.readouterr().err


# ------------------------------------------------------------------------------ info and verify


def test_info_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", IMAGE, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    image = Image.open(IMAGE)
    assert report["total_size"] == image.total_size
    assert report["config"]["hidden_dim"] == 44 and report["config"]["rope"] == "neighbours"
    assert report["tokenizer"]["n_tokens"] == 288 and report["tokenizer"]["cut_at_spaces"]
    assert report["card"] == image.card
    assert [tensor["name"] for tensor in report["tensors"]] == [t.name for t in image.tensors]
    assert report["sections"]["DATA"]["size"] == len(image.section("DATA"))


def test_info_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", IMAGE]) == 0
    text = capsys.readouterr().out
    for word in ("hidden_dim", "tiny-int4", "attn_q", "24 x 16", "cut_at_spaces", "24,768"):
        assert word in text


def test_verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", IMAGE]) == 0
    assert "sound" in capsys.readouterr().out
    bad = bytearray(Path(IMAGE).read_bytes())
    bad[-2000] ^= 1
    (tmp_path / "bad.llm").write_bytes(bad)
    message = fails(capsys, "verify", str(tmp_path / "bad.llm"))
    assert "bad.llm: DATA: its CRC32C is" in message


@pytest.mark.parametrize("command", [["info"], ["info", "--json"], ["verify"], ["run"]])
@pytest.mark.parametrize("content", [b"", b"\x89LLM\r\n\x1a\n", b"text\n" * 100])
def test_what_is_no_image(
    command: list[str], content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.llm").write_bytes(content)
    assert "m.llm: " in fails(capsys, *command, str(tmp_path / "m.llm"))
    missing = fails(capsys, *command, str(tmp_path / "none.llm"))
    assert "none.llm: No such file or directory" in missing
    assert f"{tmp_path}: Is a directory" in fails(capsys, *command, str(tmp_path))
    within = fails(capsys, *command, str(tmp_path / "m.llm" / "m.llm"))
    assert "m.llm/m.llm: Not a directory" in within


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize(
    "command",
    [["info"], ["verify"], ["run"], ["convert", "--quantize", "f32", "-o", "out.llm"]],
)
def test_what_may_not_be_read(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.llm"
    path.touch(mode=0o000)
    assert fails(capsys, *command, str(path)) == f"edge-llm: {path}: Permission denied\n"


# ---------------------------------------------------------------------------------------- pack


def test_pack(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "rom.bin"
    assert main(["pack", "--romfs", str(out), IMAGE, str(VECTORS / "make.py")]) == 0
    assert "tiny-int4.llm" in capsys.readouterr().out
    image = out.read_bytes()
    offset, size = read_romfs(image)["tiny-int4.llm"]
    assert offset % 64 == 0 and image[offset : offset + size] == Path(IMAGE).read_bytes()
    message = fails(capsys, "pack", "--romfs", str(out), str(tmp_path / "none"))
    assert "none: No such file or directory" in message
    assert "two inputs" in fails(capsys, "pack", "--romfs", str(out), IMAGE, IMAGE)


# ----------------------------------------------------------------------------------------- run


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    assert main(["run", IMAGE, *arguments]) == 0
    return capsys.readouterr()


def test_run_streams_text(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = run(capsys, "--prompt", "then the", "--tokens", "12", "--seed", "3")
    assert out.startswith("then the") and out.endswith("\n")
    assert "[12 tokens" in err and "seed 3" in err
    again, _ = run(capsys, "--prompt", "then the", "--tokens", "12", "--seed", "3")
    assert again == out
    other, _ = run(capsys, "--prompt", "then the", "--tokens", "12", "--seed", "4")
    assert other != out


def test_run_is_greedy_at_temperature_0(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = run(capsys, "--prompt", "he", "--tokens", "8", "--temperature", "0")
    model = engine.Model(Path(IMAGE).read_bytes())
    sampler, decoder = engine.Sampler(temperature=0), engine.Decoder(model, start=False)
    model.eval(model.encode("he"))
    text = ""
    for _ in range(8):
        token = model.sample(sampler)
        if token in (model.bos_id, model.eos_id):
            break
        text += decoder.feed(token)
        model.eval(token)
    assert out == f"he{text}{decoder.finish()}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--temperature", "nan"], "temperature: must be 0 to 100"),
        (["--top-p", "0"], "top_p: must be above 0"),
        (["--top-k", "-1"], "top_k: must be"),
        (["--min-p", "2"], "min_p: must be"),
        (["--repetition-penalty", "0"], "repetition_penalty: must be"),
        (["--seed", "-1"], "seed: must be"),
        (["--kernels", "none"], "kernels: no 'none'"),
        (["--prompt", "a" * 100], "prompt: has 102 tokens, the context has room for 64"),
        (["--prompt", os.fsdecode(b"ab\xff")], "the byte at 2 is not UTF-8"),
    ],
)
def test_run_bad_settings(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in fails(capsys, "run", IMAGE, *arguments)


# --------------------------------------------------------------------------------- the program


def program(*arguments: str, **options) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "edge_llm", *arguments], check=False, **options)


def test_python_m() -> None:
    done = program("verify", IMAGE, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    done = program("verify", __file__, capture_output=True)
    assert done.returncode == 1
    assert done.stderr.startswith(b"edge-llm: ") and done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("arguments", [["--help"], ["info", IMAGE, "--json"], ["verify", IMAGE]])
def test_a_closed_pipe_is_no_traceback(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = program(*arguments, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


def test_a_full_disk_is_one_line() -> None:
    with open("/dev/full", "wb") as full:
        done = program("info", IMAGE, "--json", stdout=full, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (1, b"edge-llm: No space left on device\n")


@pytest.mark.parametrize("command", ["convert", "pack"])
def test_what_cannot_be_written_is_named(tmp_path: Path, command: str) -> None:
    out = tmp_path / "out"
    model = place(tmp_path, GOOD)
    before = set(tmp_path.iterdir())
    arguments = {
        "convert": ["convert", str(model), "--quantize", "f32", "--output", str(out)],
        "pack": ["pack", IMAGE, "--romfs", str(out)],
    }
    done = program(
        *arguments[command],
        capture_output=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
    )
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == f"edge-llm: {out}.partial: File too large\n".encode()
    assert set(tmp_path.iterdir()) == before


@pytest.mark.skipif(not STORIES.is_dir(), reason="needs ../shared/models/stories260K")
def test_a_story(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "m.llm")
    assert main(["convert", str(STORIES), "--quantize", "int8", "-o", out]) == 0
    capsys.readouterr()
    prompt = ["--prompt", "Once upon a time", "--tokens", "20", "--temperature", "0"]
    assert main(["run", out, *prompt]) == 0
    assert "there was a little girl named Lily" in capsys.readouterr().out
