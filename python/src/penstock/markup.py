"""HTML of plans, reports and streams, for notebooks.

The HTML has no scripts or colors, so it is readable on light and dark pages. All text is escaped. Notebooks do not
typeset it, even if it contains dollar signs.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

_MAX_ROWS = 50  # rows of a table that are shown
_MAX_TEXT = 200  # characters of a cell that are shown

_LEFT = ' style="text-align: left"'


class Explanation(str):
    """The text of a plan, as returned by `Client.explain`. A notebook shows it as preformatted text."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return _whole(f"<pre>{html.escape(self)}</pre>")


class Report(dict[str, Any]):
    """A report of a server: a dictionary that a notebook shows as tables."""

    def _repr_html_(self) -> str:
        return document("Report", self)


def document(title: str, values: Mapping[str, Any], schema: pa.Schema | None = None) -> str:
    """Returns the HTML of named values, and of the columns of a schema.

    Mappings of mappings and lists of mappings become separate tables.
    """
    simple = {name: value for name, value in values.items() if not _is_table(value)}
    parts = [f"<strong>{_text(title)}</strong>"]
    if simple:
        parts.append(table(simple.items()))
    for name, value in values.items():
        if _is_table(value):
            parts += [f"<div>{_text(name)}</div>", _nested(value)]
    if schema is not None:
        parts.append(table(((field.name, field.type) for field in schema), ("column", "type")))
    return _whole("".join(parts))


def table(rows: Iterable[Sequence[object]], head: Sequence[str] = ()) -> str:
    """Returns the HTML of the first rows of a table."""
    every = list(rows)
    lines = [f"<tr>{''.join(f'<th{_LEFT}>{_text(name)}</th>' for name in head)}</tr>"] if head else []
    lines += [
        f"<tr>{''.join(f'<td{_LEFT}>{_text(cell)}</td>' for cell in row)}</tr>" for row in every[:_MAX_ROWS]
    ]
    more = f"<div>… and {len(every) - _MAX_ROWS:,} more</div>" if len(every) > _MAX_ROWS else ""
    return f"<table>{''.join(lines)}</table>{more}"


def _whole(inner: str) -> str:
    return f'<div class="tex2jax_ignore mathjax_ignore">{inner}</div>'


def _is_table(value: object) -> bool:
    members = list(value.values()) if isinstance(value, Mapping) else value
    return isinstance(members, list) and bool(members) and all(isinstance(one, Mapping) for one in members)


def _nested(value: Any) -> str:
    """Returns the HTML of a mapping of mappings or a list of mappings, with one row for each inner mapping."""
    named = list(value.items()) if isinstance(value, Mapping) else list(enumerate(value))
    head = list(dict.fromkeys(name for _, member in named for name in member))
    return table(((name, *(member.get(one) for one in head)) for name, member in named), ("", *head))


def _text(value: object) -> str:
    """Returns a value as escaped text; mappings and lists are formatted as JSON."""
    if value is None:
        said = ""
    elif isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        said = ", ".join(value)
    elif isinstance(value, Mapping | list | tuple):
        said = json.dumps(value, ensure_ascii=False, default=str)
    else:
        said = str(value)
    if len(said) > _MAX_TEXT:
        said = f"{said[: _MAX_TEXT - 1]}…"
    return html.escape(said)
