"""Checks of arguments. Each raises an `InputError` that names the argument and the expectation."""

import contextlib
import difflib
import inspect
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Real
from typing import Any, TypeGuard

import jax
import jax.dtypes
import jax.numpy as jnp
import numpy as np

from kernelpde.arrays import is_tracer
from kernelpde.errors import InputError


def input_error(
    caller: str, name: str, expected: str, value: object, advice: str = ""
) -> InputError:
    """Return the exception for an argument that is not as expected."""
    message = f"{caller}: {name} must be {expected}; got {format_value(value)}."
    return InputError(f"{message} {advice}" if advice else message)


def require(
    condition: bool, caller: str, name: str, expected: str, value: object, advice: str = ""
) -> None:
    """Raise an `InputError` unless a condition on an argument holds."""
    if not condition:
        raise input_error(caller, name, expected, value, advice)


@contextlib.contextmanager
def requires_extra(caller: str, extra: str) -> Iterator[None]:
    """Convert a failed import of an optional package to an `InputError` that names the extra."""
    try:
        yield
    except ImportError as error:
        raise InputError(f"{caller} needs an extra: pip install 'kernelpde[{extra}]'.") from error


def format_value(value: object) -> str:
    """Format a value for a message: shortened, with its type unless that is obvious."""
    if inspect.isclass(value):
        return f"the class {value.__name__}"
    text = " ".join(repr(value).split())
    text = text if len(text) <= 80 else f"{text[:77]}..."
    plain = value is None or isinstance(value, str | int | float | complex | list | tuple | dict)
    return text if plain else f"{text} ({type(value).__name__})"


def format_names(names: Iterable[object]) -> str:
    """Format names as a list in quotes, or "none"."""
    return ", ".join(map(repr, names)) or "none"


def did_you_mean(word: object, words: Iterable[object]) -> str:
    """Return a sentence that suggests the most similar of some words; empty if none is similar."""
    if not isinstance(word, str):
        return ""
    candidates = {w.lower(): w for w in words if isinstance(w, str)}
    matches = difflib.get_close_matches(word.lower(), list(candidates), n=1)
    return f" Did you mean {candidates[matches[0]]!r}?" if matches else ""


def _is_bool(value: object) -> bool:
    return isinstance(value, bool | np.bool_)


def is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    """Return whether a value is a list, a tuple or an array, and not text."""
    return isinstance(value, Sequence | np.ndarray) and not isinstance(value, str)


def check_integer(
    caller: str, name: str, value: Any, *, at_least: int | None = None, advice: str = ""
) -> int:
    """Return an integer of Python, numpy or JAX as `int`; other types are not rounded."""
    try:
        integer = None if _is_bool(value) else operator.index(value)
    except TypeError:
        integer = None
    if integer is None:
        raise input_error(caller, name, "a whole number", value, advice)
    if at_least is not None:
        require(integer >= at_least, caller, name, f"at least {at_least}", integer, advice)
    return integer


def check_real(
    caller: str,
    name: str,
    value: Any,
    *,
    greater_than: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    advice: str = "",
) -> float:
    """Return a finite number within limits as `float`. Traced values are returned unchecked."""
    if is_tracer(value):
        return value  # pyright: ignore[reportReturnType]
    array = np.asarray(value) if isinstance(value, Real | np.ndarray | jax.Array) else None
    is_number = array is not None and array.ndim == 0 and array.dtype.kind in "iuf"
    require(is_number and not _is_bool(value), caller, name, "a number", value, advice)
    real = float(value)
    limits = {"finite": bool(np.isfinite(real))}
    if greater_than is not None:
        limit = "positive" if greater_than == 0 else f"above {greater_than:g}"
        limits = {limit: real > greater_than, **limits}
    if at_least is not None:
        limits[f"at least {at_least:g}"] = real >= at_least
    if at_most is not None:
        limits[f"at most {at_most:g}"] = real <= at_most
    require(all(limits.values()), caller, name, " and ".join(limits), real, advice)
    return real


def to_float_array(caller: str, name: str, value: object) -> np.ndarray:
    """Return real numbers as an array of 64-bit floats, of any shape."""
    try:
        array = np.asarray(value)
        if array.dtype.kind == "O":
            array = np.asarray([float(entry) for entry in array.flat]).reshape(array.shape)
    except (TypeError, ValueError) as error:
        expected = "rows of one length" if "inhomogeneous" in str(error) else "numbers"
        raise InputError(
            f"{caller}: {name} must hold {expected}; got {format_value(value)}."
        ) from error
    if array.dtype.kind == "c":
        raise InputError(
            f"{caller}: {name} must hold real numbers; got complex ones. Pass real and imaginary "
            "parts separately."
        )
    if array.dtype.kind not in "iuf":
        raise InputError(f"{caller}: {name} must hold numbers; got {format_value(value)}.")
    return array.astype(np.float64)


def check_finite(caller: str, name: str, array: np.ndarray, advice: str = "") -> None:
    """Check that an array has no NaN and no infinite entry."""
    if not np.isfinite(array).all():
        position = np.argwhere(~np.isfinite(array))[0]
        row = f" in row {int(position[0])}" if len(position) else ""
        message = f"{caller}: {name} hold a NaN or infinite entry{row}."
        raise InputError(f"{message} {advice}" if advice else message)


def check_points(caller: str, value: object, dimension: int) -> np.ndarray:
    """Return finite points as an array with one point per row."""
    array = to_float_array(caller, "points", value)
    if array.ndim != 2 or array.shape[1] != dimension or not len(array):
        raise InputError(
            f"{caller}: expected points of shape (n, {dimension}) with n > 0; got {array.shape}."
        )
    check_finite(caller, "points", array)
    return array


def check_choice(caller: str, name: str, value: object, choices: Iterable[object]) -> None:
    """Check that a value is one of some choices, type included."""
    choices = list(choices)
    is_choice = any(type(value) is type(choice) and value == choice for choice in choices)
    advice = did_you_mean(value, choices).lstrip()
    require(is_choice, caller, name, f"one of {format_names(choices)}", value, advice)


def check_instance(
    caller: str, name: str, value: object, kinds: type | tuple[type, ...], expected: str
) -> None:
    """Check that a value is an instance of some classes, and not a class itself."""
    advice = ""
    if inspect.isclass(value) and issubclass(value, kinds):
        advice = f"Call it: {value.__name__}(...)."
    require(isinstance(value, kinds), caller, name, expected, value, advice)


def check_callable(caller: str, name: str, value: object, expected: str) -> None:
    """Check that a value is callable and not a class."""
    require(callable(value) and not inspect.isclass(value), caller, name, expected, value)


def check_random_key(caller: str, key: object) -> None:
    """Check that a value is a key of `jax.random`, typed or raw."""
    is_array = isinstance(key, jax.Array)
    is_typed = is_array and jnp.issubdtype(key.dtype, jax.dtypes.prng_key) and key.shape == ()
    is_raw = is_array and key.dtype == np.uint32 and key.shape == (2,)
    require(is_typed or is_raw, caller, "key", "a key such as jax.random.key(0)", key)


def check_bool(caller: str, name: str, value: object) -> None:
    """Check that a value is True or False, since any text, such as "no", would count as True."""
    require(_is_bool(value), caller, name, "True or False", value)


def check_name(caller: str, kind: str, name: object, names: Iterable[str]) -> None:
    """Check that a name is among those that are defined."""
    names = list(names)
    if name not in names:
        raise InputError(
            f"{caller}: unknown {kind} {name!r}; expected {format_names(names)}."
            f"{did_you_mean(name, names)}"
        )


def check_mapping(
    caller: str,
    name: str,
    value: Any,
    names: Iterable[str] | None,
    check: Callable[[str, str, Any], object] | None = None,
    advice: str = "",
) -> None:
    """Check that a value is a mapping, with certain keys only, and check its values by `check`."""
    require(isinstance(value, Mapping), caller, name, "a dictionary", value, advice)
    names = list(value if names is None else names)
    for key, entry in value.items():
        check_name(caller, f"key of {name}", key, names)
        if check is not None:
            check(caller, f"{name}[{key!r}]", entry)
