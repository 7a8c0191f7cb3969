"""Manifests record the inputs of a run, saved with its model, to read the same rows again."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from penstock import errors, query
from penstock.answers import parsed
from penstock.bound import BoundQuery
from penstock.files import write_atomically
from penstock.servers import Servers

Manifest = Mapping[str, Any]

# The required fields of a manifest: their types, and the names of these for messages.
_FIELDS: dict[str, tuple[type, str]] = {
    "query": (Mapping, "an object"),
    "dataset": (Mapping, "an object"),
    "pin": (Mapping, "an object"),
    "plan": (str, "a string"),
    "columns": (list, "a list"),
}


def ask(bound: BoundQuery) -> dict[str, Any]:
    """Returns the server's manifest for a query that sets `wire`."""
    answer = bound.action("manifest")
    with errors.decoding("the server's manifest"):
        kept = dict(parsed(answer))
        # The server leaves out its own default, which differs from this package's.
        kept["query"].setdefault("wire", bound.form["wire"])
        return kept


def is_distinct(ask: Callable[[], Manifest]) -> bool:
    """Reports whether a query's dataset has `distinct`, and also if the caller may not know.

    Of equal rows, `distinct` keeps one among those that pass the query's filter. So a condition that another engine evaluates
    after the query must not be added to this filter.

    Args:
        ask: a function that returns the query's manifest.
    """
    try:
        return "distinct" in ask()["dataset"]["training"]
    except errors.Forbidden:
        return True


def save(manifest: Manifest, file: str | os.PathLike[str]) -> None:
    """Writes a manifest as readable JSON, atomically."""
    write_atomically(Path(file), lambda out: out.write(text(manifest)))


def text(manifest: Manifest) -> bytes:
    """Formats a manifest as readable JSON."""
    return (json.dumps(manifest, ensure_ascii=False, indent=1) + "\n").encode()


def load(manifest: Manifest | str | os.PathLike[str]) -> Manifest:
    """Loads a manifest from a file, or returns it if it is already loaded.

    Raises:
        Invalid: the file does not exist or does not contain a manifest.
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
        raise query.invalid("manifest", f"{name} is not an object")
    for field, (kind, what) in _FIELDS.items():
        if not isinstance(kept.get(field), kind):
            raise query.invalid("manifest", f"{name} has no {field}, which is {what}")
    return kept


def bound(servers: Servers, manifest: Manifest, fields: Mapping[str, Any]) -> BoundQuery:
    """Returns the query of a manifest, if the server still returns the same plan and columns for it.

    Args:
        servers: servers of the same datasets; any of them can answer.
        manifest: the result of `ask`.
        fields: query fields that override those of the manifest.

    Raises:
        Invalid: the plan or the columns differ.
    """
    more = {name: value for name, value in fields.items() if name != "dataset"}
    named: dict[str, Any] = {"wire": "plain", **manifest["query"]}
    inline = {**named, "dataset": manifest["dataset"]}
    inline.pop("with", None)  # the dataset has these entries
    for form in (named, inline):
        try:
            found = ask(BoundQuery(servers, form))
        except (errors.NotFound, errors.Invalid):
            if form is inline:
                raise
            continue  # The server's dataset of this name was removed or changed.
        if (found["plan"], found["columns"]) == (manifest["plan"], manifest["columns"]):
            return BoundQuery(servers, {**form, **more})
    same = found["plan"] == manifest["plan"]
    raise errors.Invalid(
        f"the manifest's plan is {manifest['plan']} by algorithm {manifest.get('algorithm')}, and the server "
        f"makes {'other columns' if same else found['plan']} by algorithm {found['algorithm']} of its query",
        remedy="replay it on a server of the version that made it",
    )
