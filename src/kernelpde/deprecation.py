"""Names that have moved, for one release."""

import functools
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar, cast

from kernelpde.errors import InputError

_P = ParamSpec("_P")
_R = TypeVar("_R")

_INNER = ("kernelpde", "jaxtyping", "beartype", "equinox")
"""Where a call passes through before it is ours: the last three check types and make modules."""


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


def renamed_arguments(**names: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Take keyword arguments by the names they had before, with a warning.

    **Arguments:**

    - `**names`: the present name by the earlier one.
    """
    return adapted(lambda owner, given: renamed(owner, given, names))


def earlier_names(**names: str) -> Callable[[type[_R]], type[_R]]:
    """Let a class answer to names of attributes and arguments that it had before, with a warning.

    **Arguments:**

    - `**names`: the present name by the earlier one.
    """

    def wrap(kind: type[_R]) -> type[_R]:
        begin = kind.__init__

        @functools.wraps(begin)
        def init(self: _R, *args: Any, **kwargs: Any) -> None:
            begin(self, *args, **renamed(kind.__name__, kwargs, names))

        kind.__init__ = init
        for old, new in names.items():
            setattr(kind, old, property(functools.partial(_moved_attribute, old, new)))
        return kind

    return wrap


def _moved_attribute(old: str, new: str, owner: Any) -> Any:
    warn_moved(f"{type(owner).__name__}.{old}", f"{type(owner).__name__}.{new}")
    return getattr(owner, new)


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
