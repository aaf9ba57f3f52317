"""Checks on what a user gives. A message says what was got, what is expected, and what to do."""

import difflib
import operator
from collections.abc import Callable, Iterable, Mapping
from numbers import Real
from typing import Any

import jax
import jax.core
import jax.dtypes
import jax.numpy as jnp
import numpy as np

from kernelpde.errors import InputError


def shown(value: Any) -> str:
    """A value as it appears in a message: short, and with its type where that is not plain."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    text = " ".join(repr(value).split())
    text = text if len(text) <= 80 else f"{text[:77]}..."
    plain = value is None or isinstance(value, str | int | float | complex | list | tuple | dict)
    return text if plain else f"{text} ({type(value).__name__})"


def listed(names: Iterable[Any]) -> str:
    """Names in quotes, or that there are none."""
    return ", ".join(map(repr, names)) or "none"


def did_you_mean(word: Any, words: Iterable[Any]) -> str:
    """A sentence that offers the nearest of some words; empty if none is near."""
    if not isinstance(word, str):
        return ""
    known = {w.lower(): w for w in words if isinstance(w, str)}
    near = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return f" Did you mean {known[near[0]]!r}?" if near else ""


def whole_number(
    owner: str, name: str, value: Any, *, at_least: int | None = None, advice: str = ""
) -> int:
    """A count: an integer of Python, numpy or JAX, and nothing that would have to be rounded."""
    try:
        number = None if isinstance(value, bool | np.bool_) else operator.index(value)
    except TypeError:
        number = None
    if number is None:
        raise InputError(
            _ending(f"{owner}: {name} must be a whole number; got {shown(value)}.", advice)
        )
    if at_least is not None and number < at_least:
        raise InputError(
            _ending(f"{owner}: {name} must be at least {at_least}; got {number}.", advice)
        )
    return number


def real_number(
    owner: str,
    name: str,
    value: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    advice: str = "",
) -> float:
    """A finite number within limits; one that is being traced by JAX passes unseen."""
    if isinstance(value, jax.core.Tracer):
        return value  # pyright: ignore[reportReturnType]
    array = np.asarray(value) if isinstance(value, Real | np.ndarray | jax.Array) else None
    if isinstance(value, bool) or array is None or array.ndim or array.dtype.kind not in "iuf":
        raise InputError(_ending(f"{owner}: {name} must be a number; got {shown(value)}.", advice))
    number = float(array)
    if not (
        np.isfinite(number)
        and (above is None or number > above)
        and (at_least is None or number >= at_least)
        and (at_most is None or number <= at_most)
    ):
        limits = [
            f"{word} {limit:g}"
            for word, limit in (("at least", at_least), ("at most", at_most))
            if limit is not None
        ]
        least = [] if above is None else ["positive" if above == 0 else f"above {above:g}"]
        expected = " and ".join([*least, "finite", *limits])
        raise InputError(_ending(f"{owner}: {name} must be {expected}; got {number}.", advice))
    return number


def numbers(owner: str, name: str, value: Any) -> np.ndarray:
    """Real numbers as an array of 64-bit floats, of any shape."""
    try:
        array = np.asarray(value)
        if array.dtype.kind == "O":
            array = np.asarray([float(entry) for entry in array.flat]).reshape(array.shape)
    except (TypeError, ValueError) as error:
        ragged = "rows of one length" if "inhomogeneous" in str(error) else "numbers"
        raise InputError(f"{owner}: {name} must hold {ragged}; got {shown(value)}.") from error
    if array.dtype.kind == "c":
        raise InputError(
            f"{owner}: {name} must hold real numbers; got complex ones. Give real and imaginary "
            "parts apart."
        )
    if array.dtype.kind not in "iuf":
        raise InputError(f"{owner}: {name} must hold numbers; got {shown(value)}.")
    return array.astype(np.float64)


def finite(owner: str, name: str, array: np.ndarray, advice: str = "") -> None:
    """Refuse arrays with a NaN or an infinite entry."""
    if not np.isfinite(array).all():
        where = np.argwhere(~np.isfinite(array))[0]
        row = f" in row {int(where[0])}" if len(where) else ""
        raise InputError(_ending(f"{owner}: {name} hold a NaN or infinite entry{row}.", advice))


def points(owner: str, value: Any, dimension: int) -> np.ndarray:
    """Finite points, one per row."""
    array = numbers(owner, "points", value)
    if array.ndim != 2 or array.shape[1] != dimension or not len(array):
        raise InputError(
            f"{owner}: expected points of shape (n, {dimension}) with n > 0; got {array.shape}."
        )
    finite(owner, "points", array)
    return array


def one_of(owner: str, name: str, value: Any, choices: Iterable[Any]) -> None:
    """A word, or a number, from a list."""
    known = list(choices)
    if not any(type(value) is type(choice) and value == choice for choice in known):
        raise InputError(
            f"{owner}: {name} must be one of {listed(known)}; got {shown(value)}."
            f"{did_you_mean(value, known)}"
        )


def instance(
    owner: str, name: str, value: Any, kinds: type | tuple[type, ...], expected: str
) -> None:
    """An object of the right make, and not its class or its name."""
    if isinstance(value, kinds):
        return
    advice = ""
    if isinstance(value, type) and issubclass(value, kinds):
        advice = f"Call it: {value.__name__}(...)."
    raise InputError(_ending(f"{owner}: {name} must be {expected}; got {shown(value)}.", advice))


def function(owner: str, name: str, value: Any, expected: str) -> None:
    """Something that can be called."""
    if not callable(value) or isinstance(value, type):
        raise InputError(f"{owner}: {name} must be {expected}; got {shown(value)}.")


def random_key(owner: str, key: Any) -> None:
    """A key of `jax.random`, new or old style."""
    new = isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    old = isinstance(key, jax.Array) and key.dtype == np.uint32 and key.shape == (2,)
    if not (old or (new and key.shape == ())):
        raise InputError(f"{owner}: key must be a key such as jax.random.key(0); got {shown(key)}.")


def truth(owner: str, name: str, value: Any) -> None:
    """True or False: any other value, such as "no", would count as one of them unnoticed."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{owner}: {name} must be True or False; got {shown(value)}.")


def named(
    owner: str,
    name: str,
    value: Any,
    known: Iterable[str],
    check: Callable[[str, str, Any], Any] | None = None,
    example: str = "",
) -> None:
    """A mapping whose keys are known names, each of its values checked."""
    if not isinstance(value, Mapping):
        raise InputError(
            _ending(f"{owner}: {name} must be a dictionary; got {shown(value)}.", example)
        )
    names = list(known)
    for key, entry in value.items():
        if key not in names:
            raise InputError(
                f"{owner}: {name} names {key!r}, but there are {listed(names)}."
                f"{did_you_mean(key, names)}"
            )
        if check is not None:
            check(owner, f"{name}[{key!r}]", entry)


def _ending(message: str, advice: str) -> str:
    return f"{message} {advice}" if advice else message
