"""Names that have moved, for one release."""

import functools
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar, cast

from kernelpde.errors import InputError

_P = ParamSpec("_P")
_R = TypeVar("_R")

_INNER = ("kernelpde", "jaxtyping", "beartype")
"""Where a call passes through before it is ours: the last two check types."""


def warn_moved(old: str, new: str) -> None:
    """Say that something has another name now, where somebody uses the old one."""
    level, frame = 1, sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in _INNER:
        level, frame = level + 1, frame.f_back
    warnings.warn(
        f"{old} is now {new}; the old name goes with the next release.",
        DeprecationWarning,
        stacklevel=level,
    )


def adapted(
    adapt: Callable[[str, dict[str, Any]], dict[str, Any]],
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Take keyword arguments as they were before, with a warning.

    **Arguments:**

    - `adapt`: from the name of the function and its keyword arguments to those it has now.
    """

    def wrap(function: Callable[_P, _R]) -> Callable[_P, _R]:
        @functools.wraps(function)
        def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            given = adapt(function.__name__, dict(kwargs))
            return cast(Callable[..., _R], function)(*args, **given)

        return call

    return wrap


def renamed(owner: str, given: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Keyword arguments with some under new names."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        new = names.get(name, name)
        if new in found:
            raise InputError(f"{owner}: {new} is given twice.")
        if new != name:
            warn_moved(f"{owner}({name}=...)", f"{owner}({new}=...)")
        found[new] = value
    return found
