"""Manifests: what a run was made of, kept beside its model, and read again."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock import errors, query
from penstock.asked import Asked
from penstock.files import write_whole
from penstock.servers import Servers

Manifest = Mapping[str, Any]

# What is read of a manifest.
_FIELDS: dict[str, tuple[type, str]] = {
    "query": (Mapping, "an object"),
    "dataset": (Mapping, "an object"),
    "pin": (Mapping, "an object"),
    "plan": (str, "a string"),
    "columns": (list, "a list"),
}


def ask(asked: Asked) -> dict[str, Any]:
    """The server's manifest of a query that says its `wire`."""
    kept: dict[str, Any] = json.loads(asked.act("manifest"))
    # The server leaves out what is its own default, which is not this package's.
    kept["query"].setdefault("wire", asked.form["wire"])
    return kept


def save(manifest: Manifest, file: str | os.PathLike[str]) -> None:
    """Writes a manifest as readable JSON, at once or not at all."""
    write_whole(Path(file), lambda out: out.write(text(manifest)))


def text(manifest: Manifest) -> bytes:
    """A manifest as readable JSON."""
    return (json.dumps(manifest, ensure_ascii=False, indent=1) + "\n").encode()


def load(manifest: Manifest | str | os.PathLike[str]) -> Manifest:
    """Reads a manifest, if it is not one yet.

    Raises:
        Invalid: the file is not there, or holds something else.
    """
    if isinstance(manifest, Mapping):
        kept, name = manifest, "it"
    else:
        name = os.fspath(manifest)
        try:
            kept = json.loads(Path(manifest).read_text(encoding="utf-8"))
        except (OSError, ValueError) as e:
            raise query.invalid("manifest", f"{name} cannot be read: {e}") from e
    if not isinstance(kept, Mapping):
        raise query.invalid("manifest", f"{name} holds no object")
    for field, (kind, what) in _FIELDS.items():
        if not isinstance(kept.get(field), kind):
            raise query.invalid("manifest", f"{name} has no {field}, which is {what}")
    return kept


def again(servers: Servers, manifest: Manifest, fields: Mapping[str, Any]) -> Asked:
    """The query of a manifest, if the server still makes the same plan and columns of it.

    Args:
        servers: any of them can answer.
        manifest: as `ask` gave it.
        fields: of a query, instead of those of the manifest.

    Raises:
        Invalid: it makes others.
    """
    more = {name: value for name, value in fields.items() if name != "dataset"}
    named: dict[str, Any] = {"wire": "plain", **manifest["query"]}
    inline = {**named, "dataset": manifest["dataset"]}
    for form in (named, inline):
        try:
            found = ask(Asked(servers, form))
        except (errors.NotFound, errors.Invalid):
            if form is inline:
                raise
            continue  # The server's dataset of this name is gone, or another one.
        if (found["plan"], found["columns"]) == (manifest["plan"], manifest["columns"]):
            return Asked(servers, {**form, **more})
    same = found["plan"] == manifest["plan"]
    raise errors.Invalid(
        f"the manifest's plan is {manifest['plan']} by algorithm {manifest.get('algorithm')}, and the server "
        f"makes {'other columns' if same else found['plan']} by algorithm {found['algorithm']} of its query",
        remedy="replay it on a server of the version that made it",
    )
