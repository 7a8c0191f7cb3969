"""Packs columns of one dtype into matrices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

import torch

from penstock.torch.numbers import Column
from penstock.torch.rules import RuleSet


@dataclass(frozen=True)
class Pack:
    """A matrix of several columns.

    Attributes:
        column: the matrix.
        parts: the names of the columns that it contains, in place of their own tensors.
    """

    column: Column
    parts: tuple[str, ...]

    def replace(self, found: MutableMapping[str, Any]) -> None:
        """Replaces the tensors of the parts by the matrix."""
        parts = [found.pop(name) for name in self.parts]
        matrices = [part[:, None] if part.dim() == 1 else part for part in parts]
        found[self.column.name] = torch.cat(matrices, 1)


def planned(
    rule_set: RuleSet, columns: Mapping[str, Column], masks: Iterable[str], known: Iterable[str]
) -> list[Pack]:
    """Plans the packs that the rules name.

    Args:
        rule_set: the rules, to which mistakes are added.
        columns: the columns by name, without packs.
        masks: the names of columns that are masks.
        known: the names of all columns of the schema.
    """
    packs: list[Pack] = []
    used: set[str] = set()
    for name, parts in rule_set.packs.items():
        message, remedy = _mistake(parts, columns, set(masks), set(known), used)
        if not message and name in set(columns) - set(parts) | {pack.column.name for pack in packs}:
            message, remedy = "a column or another pack has this name", "choose another name"
        if message:
            rule_set.refuse("pack", name, message, remedy)
        used.update(parts)
        of = [columns[part] for part in parts if part in columns]
        if message or len(of) < len(parts) or not of:
            continue  # refused, here or before
        width = sum(1 if column.width is None else column.width for column in of)
        packs.append(Pack(Column(name, of[0].dtype, width=width, indexed=of[0].indexed), tuple(parts)))
    return packs


def _mistake(
    parts: list[str], columns: Mapping[str, Column], masks: set[str], known: set[str], used: set[str]
) -> tuple[str, str]:
    """The mistake of a pack and its remedy; empty if there is none."""
    for name in parts:
        if name not in known or name in masks:
            return f"the stream has no column {name!r}", ""
        if name in used or parts.count(name) > 1:
            return f"{name!r} is packed twice", "use one pack for each column"
    of = [columns[name] for name in parts if name in columns]
    for column in of:
        if column.jagged:
            return f"{column.name!r} has lists of different lengths", "leave it out of the pack"
        if column.dtype != of[0].dtype:
            first, other = (str(one.dtype).removeprefix("torch.") for one in (of[0], column))
            return (
                f"{of[0].name!r} is {first}, but {column.name!r} is {other}",
                "cast them: cast={pack: 'float32'}",
            )
        if column.indexed != of[0].indexed:
            message = f"{of[0].name!r} and {column.name!r} are not in the same entry of indexed batches"
            return message, "pack them separately, or read with wire='plain'"
    return "", ""
