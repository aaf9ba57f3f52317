"""Messages for exceptions inside user-defined residuals, and for indices out of range.

`_equation.py` checks the arguments and the result of a residual.
"""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import jax
import jax.extend.core as jex
import numpy as np

from kernelpde.errors import InputError


def source_location(function: Any) -> str:
    """Return the file and line of a function in brackets, or nothing if it has none."""
    code = getattr(inspect.unwrap(function) if callable(function) else None, "__code__", None)
    return "" if code is None else f" ({Path(code.co_filename).name}:{code.co_firstlineno})"


def raise_residual_error(location: str, error: Exception) -> NoReturn:
    """Raise an `InputError` with advice for an exception in a residual."""
    if isinstance(error, InputError):
        # Errors of an integrand already contain the location.
        text = str(error)
        raise InputError(text if text.startswith(location) else f"{location}: {text}") from error
    advice = str(error).split("\n")[0]
    if isinstance(error, jax.errors.TracerBoolConversionError):
        advice = (
            "it has a condition on the value of a field or of the point. The residual is traced "
            "once for all points, without values. Use jnp.where(condition, this, that) instead of "
            "if, and jnp.minimum instead of min."
        )
    elif isinstance(
        error, jax.errors.ConcretizationTypeError | jax.errors.TracerArrayConversionError
    ):
        advice = (
            "it uses a concrete value. The residual is traced once for all points, without values. "
            "Use jax.numpy instead of numpy or math, for example jnp.sin(u.value), and neither "
            "float() nor int()."
        )
    elif "__jax_array__" in str(error):
        advice = "a field was passed to a function of numbers. Use its value: jnp.sin(u.value)."
    if isinstance(error, AttributeError) and "Tracer" in advice:
        advice = (
            "a parameter, an input and the coordinates are numbers, without .value or derivatives: "
            f"write q, not q.value ({advice})."
        )
    raise InputError(
        f"{location}: its residual failed: {type(error).__name__}: {advice}"
    ) from error


_FOLDED: dict[str, Callable] = {
    "lt": np.less,
    "add": np.add,
    "select_n": lambda condition, if_false, if_true: if_true if condition else if_false,
}
"""Primitives by which JAX converts negative indices, which count from the end of an array."""


def check_indices(location: str, jaxpr: jex.Jaxpr) -> None:
    """Check for indices beyond the end of an array, which JAX clamps to the last entry."""
    constants: dict[Any, Any] = {}

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, jex.Literal) else constants.get(atom)

    for equation in jaxpr.eqns:
        name, values = equation.primitive.name, list(map(read, equation.invars))
        if name in _FOLDED and all(value is not None for value in values):
            constants[equation.outvars[0]] = _FOLDED[name](*values)
        elif name == "dynamic_slice":
            array: Any = equation.invars[0].aval
            sizes = equation.params["slice_sizes"]
            for length, size, start in zip(array.shape, sizes, values[1:], strict=True):
                if start is not None and not 0 <= start <= length - size:
                    raise InputError(
                        f"{location}: its residual uses entry {int(start)} of an array of length "
                        f"{length}. The coordinates of the point are x[0] to x[{length - 1}]."
                    )
