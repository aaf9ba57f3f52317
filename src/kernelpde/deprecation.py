"""Names that have moved, for one release."""

import functools
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from kernelpde.errors import InputError

_P = ParamSpec("_P")
_R = TypeVar("_R")


def warn_moved(old: str, new: str, level: int = 3) -> None:
    """Say that something has another name now."""
    warnings.warn(
        f"{old} is now {new}; the old name goes with the next release.",
        DeprecationWarning,
        stacklevel=level,
    )


def renamed(
    moves: Callable[[str, Any], str | None],
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Take keyword arguments under their old names, with a warning.

    **Arguments:**

    - `moves`: from the name of an argument and its value to its new name, `None` if it is the same.
    """

    def wrap(function: Callable[_P, _R]) -> Callable[_P, _R]:
        @functools.wraps(function)
        def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            # Decided for all before any is moved: one may take the name of another.
            new = {name: moves(name, value) for name, value in kwargs.items()}
            given: dict[str, Any] = {}
            for name, value in kwargs.items():
                other = new[name]
                if other is not None:
                    warn_moved(
                        f"{function.__name__}({name}=...)", f"{function.__name__}({other}=...)"
                    )
                key = name if other is None else other
                if key in given:
                    raise InputError(f"{function.__name__}: {key} is given twice.")
                given[key] = value
            return cast(Callable[..., _R], function)(*args, **given)

        return call

    return wrap
