"""The fields of a query, known to type checkers. internal/docstest compares their names and words with the server's."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Union, get_origin, get_type_hints

import pytest

import penstock
from penstock import fields

ROOT = Path(__file__).parents[2]
DECODER = ROOT / "loader" / "dataset" / "decode"


def served(function: str, file: str) -> list[str]:
    """The fields that a function of the server's decoder lists."""
    source = (DECODER / file).read_text()
    body = source[source.index(f"func {function}(") :]
    return re.findall(r'\{name: "(\w+)"', body[: body.index("\n}\n")])


@pytest.mark.parametrize(
    ("known", "function", "file"),
    [
        (penstock.Column, "readColumn", "columns.go"),
        (penstock.Dense, "readDense", "dense.go"),
        (penstock.Shard, "readShard", "query.go"),
        (penstock.Every, "readEvery", "query.go"),
        (penstock.Sample, "readSample", "sample.go"),
    ],
)
def test_forms_have_the_fields_that_the_server_reads(known: type, function: str, file: str) -> None:
    assert sorted(served(function, file)) == sorted(known.__annotations__)


def test_every_field_is_described() -> None:
    texts = [form.__doc__ or "" for form in (fields.RunQuery, fields.Query)]
    described = [name for text in texts for name in re.findall(r"^        (\w+): ", text, re.MULTILINE)]
    assert described == list(penstock.Query.__annotations__)
    assert get_origin(get_type_hints(fields.Query)["filter"]) in (Union, type(int | str))


GOOD = """
import penstock

with penstock.connect(["a:8815", "b:8815"], reconnect=60) as client:
    held_out = {"hash": [0, 0.0625], "by": "request"}
    stream = client.read(
        "homefeed", progress="auto", columns=["a", {"column": "b", "as": "float32"}], order="shuffled",
        seed=3, shard=(0, 4), sample=held_out, dense={"d": ["x"]}, every={"step": 0, "of": 2},
    )
    for batch in stream:
        rows: int = batch.num_rows
    again = client.read("homefeed", cursor=stream.cursor)
    several = client.read("homefeed", cursor=[stream.cursor, again.cursor], shard={"of": 2})
    kept = client.manifest({"training": {"table": "ml.a"}}, lanes=4)
    client.read(**kept["query"])
    print(penstock.__version__, len(stream), stream.stats.stall)
"""
BAD = [
    ('client.read("d", colums=["a"])', 'Unexpected keyword argument "colums"'),
    ('client.plan("d", seeed=1)', 'Unexpected keyword argument "seeed"'),
    ('client.explain("d", order="random")', "order"),
    ('client.manifest("d", shard=3)', "shard"),
    ('client.schema("d", filter=3)', "filter"),
    ('client.verify("d", lanes="4")', "lanes"),
    ('client.read("d", every={"step": 1})', "every"),
]


def test_type_checkers_know_the_fields(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(GOOD)
    lines = ["import penstock", 'client = penstock.connect("a:1")', *(line for line, _ in BAD)]
    (tmp_path / "bad.py").write_text("\n".join(lines) + "\n")
    config = str(ROOT / "python" / "pyproject.toml")
    command = [sys.executable, "-m", "mypy", "--config-file", config, "--cache-dir", str(tmp_path / "cache")]
    command += [str(tmp_path / "good.py"), str(tmp_path / "bad.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    said = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert done.returncode == 1
    assert len(said) == len(BAD), done.stdout
    for number, (line, (_, text)) in enumerate(zip(said, BAD, strict=True), 3):
        assert f"bad.py:{number}: " in line
        assert text in line


def test_version_is_the_packages() -> None:
    project = tomllib.loads((ROOT / "python" / "pyproject.toml").read_text())["project"]
    assert "version" in project["dynamic"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", penstock.__version__)
