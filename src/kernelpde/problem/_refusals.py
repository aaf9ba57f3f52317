"""Mistakes in residuals, said in words."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import jax
import jax.extend.core as jex
import numpy as np

from kernelpde.errors import InputError


def line_of(function: Any) -> str:
    """Where a function was written, in brackets, if that is known."""
    code = getattr(inspect.unwrap(function) if callable(function) else None, "__code__", None)
    return "" if code is None else f" ({Path(code.co_filename).name}:{code.co_firstlineno})"


def refuse(where: str, error: Exception) -> NoReturn:
    """Say what a residual did that cannot be done."""
    if isinstance(error, InputError):
        # An integrand says already where it is.
        text = str(error)
        raise InputError(text if text.startswith(where) else f"{where}: {text}") from error
    advice = str(error).split("\n")[0]
    if isinstance(error, jax.errors.TracerBoolConversionError):
        advice = (
            "it asks whether a field or the point is something, and that has no answer yet: the "
            "residual is traced once for all points. Use jnp.where(condition, this, that) instead "
            "of if, and jnp.minimum and the like instead of min."
        )
    elif isinstance(
        error, jax.errors.ConcretizationTypeError | jax.errors.TracerArrayConversionError
    ):
        advice = (
            "it needs the number itself, which is not known yet: the residual is traced once for "
            "all points. Use jax.numpy instead of numpy or math, for example jnp.sin(u.value), and "
            "neither float() nor int()."
        )
    elif "__jax_array__" in str(error):
        advice = "a field was passed to a function of numbers. Use its value: jnp.sin(u.value)."
    if isinstance(error, AttributeError) and "Tracer" in advice:
        advice = (
            "a parameter, an input and the coordinates are numbers, without .value or derivatives: "
            f"write q, not q.value ({advice})."
        )
    raise InputError(f"{where}: its residual failed: {type(error).__name__}: {advice}") from error


_FOLDED: dict[str, Callable] = {
    "lt": np.less,
    "add": np.add,
    "select_n": lambda which, no, yes: yes if which else no,
}
"""What JAX does with an index that is not within an array, to count from its end."""


def refuse_indices(where: str, jaxpr: jex.Jaxpr) -> None:
    """Refuse indices beyond the end of an array, for which JAX takes the last entry instead."""
    known: dict[Any, Any] = {}

    def number(atom: Any) -> Any:
        return atom.val if isinstance(atom, jex.Literal) else known.get(atom)

    for equation in jaxpr.eqns:
        name, values = equation.primitive.name, list(map(number, equation.invars))
        if name in _FOLDED and all(value is not None for value in values):
            known[equation.outvars[0]] = _FOLDED[name](*values)
        elif name == "dynamic_slice":
            array: Any = equation.invars[0].aval
            sizes = equation.params["slice_sizes"]
            for length, size, start in zip(array.shape, sizes, values[1:], strict=True):
                if start is not None and not 0 <= start <= length - size:
                    raise InputError(
                        f"{where}: its residual takes entry {int(start)} of an array of length "
                        f"{length}. The entries of the point are x[0] to x[{length - 1}], one per "
                        "coordinate."
                    )
