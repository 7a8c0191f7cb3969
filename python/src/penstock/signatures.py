"""Signatures with the fields of a query as parameters, for editors and notebooks."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar, get_args, get_type_hints

F = TypeVar("F", bound=Callable[..., Any])

_ATTRIBUTES = re.compile(r"^Attributes:\n(.*)", re.MULTILINE | re.DOTALL)


def lists(*forms: type) -> Callable[[F], F]:
    """Decorates a function whose last parameter is `**fields: Unpack[…]` of a TypedDict.

    The decorator adds the members of `forms` to the runtime signature as keyword parameters, and their descriptions to
    the docstring. So `client.read("clicks", <TAB>` completes them in a notebook. The function's behavior does not
    change.

    Args:
        forms: the TypedDict, preceded by the TypedDicts that it extends. All members are optional.
    """

    def decorate(function: F) -> F:
        given = inspect.signature(function)
        *named, rest = given.parameters.values()
        if rest.kind is not inspect.Parameter.VAR_KEYWORD:
            raise TypeError(f"the last parameter of {function.__qualname__} does not take fields")
        hints = {name: hint for form in forms for name, hint in get_type_hints(form).items()}
        listed = [_parameter(name, hint) for name, hint in hints.items()]
        function.__signature__ = given.replace(parameters=[*named, *listed])  # type: ignore[attr-defined]
        if function.__doc__ is not None:
            described = "\n".join(filter(None, map(_described, forms)))
            function.__doc__ = f"{inspect.cleandoc(function.__doc__)}\n\nFields:\n{described}\n"
        return function

    return decorate


def _parameter(name: str, hint: Any) -> inspect.Parameter:
    """Returns an optional keyword parameter; "..." stands for a default other than None."""
    default = None if type(None) in get_args(hint) else ...
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _described(form: type) -> str:
    """Returns the descriptions of the members that a TypedDict adds to the ones it extends."""
    attributes = _ATTRIBUTES.search(inspect.getdoc(form) or "")
    return "" if attributes is None else attributes[1].rstrip()
