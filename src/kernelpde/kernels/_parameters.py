"""Hyperparameters of kernels.

A positive hyperparameter is stored as its logarithm, in a field named `log_<name>`. Every step in
that number is then a relative step, and the hyperparameter stays positive. The hyperparameters of a
kernel are its inexact array leaves.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from kernelpde.arrays import Numbers, concrete_array, is_tracer
from kernelpde.checking import to_float_array
from kernelpde.errors import InputError, KernelPDEError
from kernelpde.precision import require_float64
from kernelpde.tracing import TracedFunction

_T = TypeVar("_T")
_LOG = "log_"


def log_positive(
    caller: str, name: str, value: Numbers, *, single: bool = False
) -> Float[Array, "..."]:
    """Check that a number or a vector of numbers is positive, and return the logarithm.

    **Arguments:**

    - `caller`, `name`: names for messages.
    - `value`: the user's input.
    - `single`: whether a vector is an error.
    """
    require_float64()
    if is_tracer(value):
        return jnp.log(value)
    array = to_float_array(caller, name, value)
    if array.ndim > (0 if single else 1) or not array.size:
        expected = "one number" if single else "a number or one number per coordinate"
        raise InputError(
            f"{caller}: {name} must be {expected}; got an array of shape {array.shape}."
        )
    if not (np.isfinite(array).all() and (array > 0).all()):
        raise InputError(f"{caller}: {name} must be positive and finite; got {array.tolist()}.")
    return concrete_array(np.log(array))


def per_coordinate(
    caller: str, name: str, values: Float[Array, "..."], dimension: int
) -> list[Float[Array, ""]]:
    """Split a shared number, or a vector, into one scalar per coordinate."""
    if values.ndim == 0:
        return [values] * dimension
    if values.shape[-1] != dimension:
        raise InputError(
            f"{caller}: {name} has {values.shape[-1]} entries, one per coordinate, but the points "
            f"have {dimension} coordinates. Give {dimension} numbers, or one for all."
        )
    return [values[i] for i in range(dimension)]


def call_user_function(
    caller: str, name: str, function: Callable[..., _T], *points: Array | jax.ShapeDtypeStruct
) -> _T:
    """Call a user-supplied function, and raise its exceptions as an `InputError`."""
    try:
        return function(*points)
    except KernelPDEError:
        raise
    except Exception as error:
        message = (str(error).splitlines() or [""])[0]
        raise InputError(
            f"{caller}: {name} failed on {len(points)} point(s) of shape {points[0].shape}: "
            f"{type(error).__name__}: {message} Write it with jax.numpy, for one point at a time."
        ) from error


def trace_user_function(kernel: _T, name: str, dimension: int, num_points: int = 1) -> _T:
    """Replace a kernel's user function by its trace, so that equal computations compare equal."""
    function = getattr(kernel, name)
    if isinstance(function, TracedFunction):
        function = function.function
    if not callable(function) or jax.tree.leaves(function) != [function]:
        return kernel
    # The first evaluation of a function that cannot be traced raises an error with the cause.
    with suppress(Exception):
        traced = TracedFunction(function, *[np.zeros(dimension)] * num_points)
        return eqx.tree_at(lambda node: getattr(node, name), kernel, traced)
    return kernel


def hyperparameters(tree: PyTree) -> dict[str, Any]:
    """Return all hyperparameters by dotted name, positive ones as the positive number.

    **Arguments:**

    - `tree`: a kernel, or a pytree that contains kernels.

    **Returns:**

    A dictionary from names such as `"first.lengthscale"` to numpy arrays. Inside a transformation
    the values are JAX arrays.

    **Example:**

    ```python
    >>> kp.hyperparameters(kp.Gaussian(0.3))
    {'lengthscale': array(0.3)}
    ```
    """
    by_name = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        if eqx.is_inexact_array(leaf):
            names = [str(getattr(key, "name", getattr(key, "idx", key))) for key in path]
            is_log = names[-1].startswith(_LOG)
            names[-1] = names[-1].removeprefix(_LOG)
            xp = jnp if is_tracer(leaf) else np
            by_name[".".join(names)] = xp.asarray(xp.exp(leaf) if is_log else leaf)
    return by_name
