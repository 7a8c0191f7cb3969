"""The user's conversion rules for nulls, codes of strings and decimals, which a schema does not determine."""

from __future__ import annotations

import difflib
import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import pyarrow as pa

from penstock import errors
from penstock.torch.codes import MAX_BUCKETS, Vocabulary

Null = str | float | Mapping[str, Any]

# The name of the rule for columns without their own.
DEFAULT = "*"
_WORDS = ("nan", "mask", "empty", "error")
_SHOWN = 8
DECIMALS = ("float64", "float32", "unscaled")
CASTS = ("float16", "bfloat16", "float32", "int32")


class Rules(TypedDict, total=False):
    """The rules of a `Converter`, by column name; "tags[]" names the elements of a list "tags".

    "*" names all columns that need a rule and have none of their own: `nulls={"*": "error", "clicks": 0}`.

    Attributes:
        nulls: what a null becomes. "nan": NaN, the default for floats. A number, or `{"fill": value}` with a value
            of the column's type. "mask": zero, False or an empty list, plus a second tensor, named with the suffix
            "_mask", that is True where there is a value. "empty": an empty list. "error": fails the stream. The
            single word "mask" or "error" means the same as `{"*": word}`. Floats only have the rule of "*" if it is
            a value.
        vocab: the codes of strings, bytes or integers: the values in order, a mapping from value to code, or
            a `Vocabulary`.
        hash: the number of buckets to hash values into, see `bucket`.
        decimals: what a decimal becomes: "float64" or "float32": the nearest float; "unscaled": an int64 in units of
            the last digit, so that 12.50 is 1250.
        cast: the dtype of a tensor: "float16", "bfloat16" or "float32": the nearest number, ties to even, as torch's
            `to` returns it; "int32" for integers. A number that does not fit is an error. The name of a pack stands for
            all of its columns. "*" has no meaning here.
        pack: matrices: the names of columns of numbers or fixed-size lists that become one tensor [rows, width], side by
            side, in place of their own tensors. All must have one dtype; see `cast`.
    """

    nulls: Mapping[str, Null] | str | None
    vocab: Mapping[str, Vocabulary | Sequence[Any] | Mapping[Any, int]] | None
    hash: Mapping[str, int] | None
    decimals: Mapping[str, str] | None
    cast: Mapping[str, str] | None
    pack: Mapping[str, Sequence[str]] | None


@dataclass(frozen=True)
class NullRule:
    """The rule for nulls.

    Attributes:
        word: "nan", "mask", "empty", "error" or "fill".
        fill: the value of "fill".
    """

    word: str
    fill: Any = None


class RuleSet:
    """The user's rules, looked up by column. Collects all mistakes, to report them together."""

    def __init__(self, rules: Mapping[str, Any]) -> None:
        self._refused: dict[tuple[str, str], list[tuple[str, str]]] = {}
        for name in rules.keys() - Rules.__annotations__.keys():
            raise TypeError(f"a converter has no rules {name!r}, only {', '.join(Rules.__annotations__)}")
        for name, given in rules.items():
            if name == "nulls" and isinstance(given, (str, numbers.Number)):
                if given not in ("mask", "error"):
                    fill = 0 if isinstance(given, str) else given
                    raise errors.Invalid(
                        f"nulls: {given!r} cannot be the rule for all columns",
                        remedy=f"write nulls={{'*': {fill!r}}}, or name columns: nulls={{'label': {fill!r}}}; 'mask' "
                        "and 'error' can stand alone",
                    )
            elif not (given is None or isinstance(given, Mapping)):
                raise errors.Invalid(
                    f"{name}: must be a mapping from columns to their rules, not {type(given).__name__}",
                    remedy=f"name columns: {name}={{column: rule}}, or all that need one: {name}={{'*': rule}}",
                )
        nulls = rules.get("nulls")
        self._nulls = {DEFAULT: nulls} if isinstance(nulls, str) else dict(nulls or {})
        self._everywhere = self._null_rule(DEFAULT, self._nulls.pop(DEFAULT, None))
        self._named = {name: dict(rules.get(name) or {}) for name in ("vocab", "hash", "decimals")}
        self._defaults = {name: named.pop(DEFAULT, None) for name, named in self._named.items()}
        self._named["cast"] = dict(rules.get("cast") or {})
        self.packs = self._read_packs(rules.get("pack") or {})
        self._packed = {column: name for name, columns in self.packs.items() for column in columns}
        self._used: set[tuple[str, str]] = set()
        self._nearest: dict[tuple[str, str], str] = {}

    def null(self, name: str) -> NullRule | None:
        """The rule of a column; None if it has none, or the rule is None."""
        self._used.add(("nulls", name))
        return self._null_rule(name, self._nulls.get(name))

    def _null_rule(self, name: str, given: Any) -> NullRule | None:
        """Reads the rule of a column, or that of "*"."""
        if given is None:
            return None
        if isinstance(given, Mapping) and list(given) == ["fill"]:
            return NullRule("fill", given["fill"])
        if isinstance(given, str) and given in _WORDS:
            return NullRule(given)
        if not isinstance(given, str) and hasattr(given, "__float__"):
            return NullRule("fill", given)
        remedy = f"use {', '.join(map(repr, _WORDS))}, a number, or {{'fill': value}}"
        self.refuse("nulls", name, f"{given!r} is not a rule for nulls", remedy)
        return NullRule("error")

    @property
    def everywhere(self) -> NullRule | None:
        """The rule of "*"; None if there is none."""
        return self._everywhere

    def is_coded(self, name: str, *, text: bool) -> bool:
        """Whether a column is encoded, by its own rule or, if it is text, by the rule of "*"."""
        if name in self._named["vocab"] or name in self._named["hash"]:
            return True
        return text and (self._defaults["vocab"] is not None or self._defaults["hash"] is not None)

    def vocabulary(self, name: str) -> Vocabulary | None:
        """The vocabulary of a column."""
        given = self._use("vocab", name)
        if given is None or isinstance(given, Vocabulary):
            return given
        try:
            if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
                raise ValueError("a vocabulary must be a list of values, or a mapping from value to code")
            return Vocabulary(given)
        except ValueError as e:
            self.refuse("vocab", name, str(e), "")
            return Vocabulary(())

    def buckets(self, name: str) -> int | None:
        """The number of buckets that a column is hashed into."""
        given = self._use("hash", name)
        if given is None:
            return None
        if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= MAX_BUCKETS:
            self.refuse("hash", name, f"{given!r} is not a number of buckets", f"use 1 to {MAX_BUCKETS}")
            return 1
        return given

    def decimal(self, name: str) -> str | None:
        """The rule for the decimals of a column."""
        given = self._use("decimals", name)
        if given is None or given in DECIMALS:
            return None if given is None else str(given)
        self.refuse(
            "decimals", name, f"{given!r} is not a form of decimals", f"use {', '.join(map(repr, DECIMALS))}"
        )
        return "float64"

    def cast(self, name: str) -> str | None:
        """The dtype to which a column is cast, by its own rule or by that of its pack."""
        named = self._named["cast"]
        key = name if name in named else self._packed.get(name, name)
        self._used.add(("cast", key))
        given = named.get(key)
        if given is None or given in CASTS:
            return None if given is None else str(given)
        self.refuse("cast", key, f"{given!r} is not a dtype to cast to", f"use {', '.join(map(repr, CASTS))}")
        return None

    def _read_packs(self, packs: Mapping[str, Any]) -> dict[str, list[str]]:
        """Reads the columns of each pack."""
        found: dict[str, list[str]] = {}
        for name, columns in packs.items():
            if isinstance(columns, (str, bytes)) or not isinstance(columns, Iterable):
                self.refuse(
                    "pack", name, f"{columns!r} is not a list of columns", "use pack={name: [column, …]}"
                )
                continue
            found[name] = list(columns)
            if not found[name]:
                self.refuse("pack", name, "a pack needs a column", "")
        return found

    def refuse(self, rule: str, column: str, message: str, remedy: str) -> None:
        """Records a mistake in a column's rule, or in a column; equal messages are reported together."""
        self._refused.setdefault((message, remedy), []).append((rule, column))

    def end(self, schema: pa.Schema) -> None:
        """Refuses rules that no column of a schema used, and raises all mistakes.

        Raises:
            Invalid: with a fault for each column.
        """
        known = schema.names
        refused = {column for columns in self._refused.values() for _, column in columns}
        for rule, name in self._unused():
            if rule == "cast" and name in self.packs:
                continue
            if name not in known:
                near = _nearest(str(name), schema)
                self._nearest[rule, name] = near
                remedy = f"did you mean {near!r}?" if near else f"the stream has {_some(known)}"
                self.refuse(rule, name, "the stream has no such column", remedy)
            elif name not in refused:
                self.refuse(rule, name, f"{schema.field(name).type} does not support this rule", "")
        if not self._refused:
            return
        faults, lines = [], []
        for (message, remedy), columns in self._refused.items():
            faults += [
                errors.Fault(
                    field=f"{rule}[{name!r}]", message=message, nearest=self._nearest.get((rule, name), "")
                )
                for rule, name in columns
            ]
            named = ", ".join(dict.fromkeys(repr(name) for _, name in columns))
            lines.append((f"{named}: {message}", remedy))
        if len(lines) == 1:
            raise errors.Invalid(lines[0][0], remedy=lines[0][1], faults=tuple(faults))
        texts = (f"{line} ({remedy})" if remedy else line for line, remedy in lines)
        raise errors.Invalid("; ".join(texts), faults=tuple(faults))

    def _unused(self) -> list[tuple[str, str]]:
        """Rule and name of rules that no column used."""
        given = [("nulls", name) for name in self._nulls]
        given += [(rule, name) for rule, names in self._named.items() for name in names]
        return [rule_set for rule_set in given if rule_set not in self._used]

    def _use(self, rule: str, name: str) -> Any:
        self._used.add((rule, name))
        other = {"vocab": "hash", "hash": "vocab"}.get(rule)
        if name not in self._named[rule] and (other is None or name not in self._named[other]):
            return self._defaults[rule]
        return self._named[rule].get(name)


def _nearest(name: str, schema: pa.Schema) -> str:
    """The column, or list elements, that a misspelled name probably means; "" if none is close."""
    known = [*schema.names, *(f"{field.name}[]" for field in schema if hasattr(field.type, "value_field"))]
    folded = {one.casefold(): one for one in reversed(known)}
    near = difflib.get_close_matches(name.casefold(), list(folded), 1)
    return folded[near[0]] if near else ""


def _some(names: Sequence[str]) -> str:
    """The first few of some names."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(map(repr, names[:_SHOWN])) + more
