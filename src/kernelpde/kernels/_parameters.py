"""How kernels hold their numbers.

A positive hyperparameter is given as a positive number and kept as its logarithm, in a field named
`log_<name>`; every step in that number is then a relative step, and no step can make it negative.
The hyperparameters of a kernel are exactly its inexact array leaves.
"""

from typing import Any

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import Numbers, known
from kernelpde.checking import numbers
from kernelpde.errors import InputError, KernelPDEError
from kernelpde.precision import require_float64

_LOG = "log_"


def log_of_positive(
    owner: str, name: str, value: Numbers, *, single: bool = False
) -> Float[Array, "..."]:
    """The logarithm of a positive number or vector of numbers, refusing anything else.

    **Arguments:**

    - `owner`, `name`: for messages.
    - `value`: what was given.
    - `single`: whether it must be one number.
    """
    require_float64()
    if isinstance(value, jax.core.Tracer):
        return jnp.log(value)
    given = numbers(owner, name, value)
    if given.ndim > (0 if single else 1) or not given.size:
        expected = "one number" if single else "a number or one number per coordinate"
        raise InputError(
            f"{owner}: {name} must be {expected}; got an array of shape {given.shape}."
        )
    if not (np.isfinite(given).all() and (given > 0).all()):
        raise InputError(f"{owner}: {name} must be positive and finite; got {given.tolist()}.")
    return known(np.log(given))


def per_coordinate(
    owner: str, name: str, values: Float[Array, "..."], dimension: int
) -> list[Float[Array, ""]]:
    """One scalar per coordinate, from one shared number or from a vector of them."""
    if values.ndim == 0:
        return [values] * dimension
    if values.shape[-1] != dimension:
        raise InputError(
            f"{owner}: {name} has {values.shape[-1]} entries, one per coordinate, but the points "
            f"have {dimension} coordinates. Give {dimension} numbers, or one for all."
        )
    return [values[i] for i in range(dimension)]


def called(owner: str, name: str, function: Any, *points: Any) -> Any:
    """What a function of the user's returns, with its failures told as such."""
    try:
        return function(*points)
    except KernelPDEError:
        raise
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0]
        raise InputError(
            f"{owner}: {name} failed on {len(points)} point(s) of shape "
            f"{getattr(points[0], 'shape', ())}: {type(error).__name__}: {reason} Write it with "
            "jax.numpy, for one point at a time."
        ) from error


def hyperparameters(tree: Any) -> dict[str, Any]:
    """Every hyperparameter by its dotted name, positive ones as the positive number.

    **Arguments:**

    - `tree`: a kernel, or anything that holds kernels.

    **Returns:**

    A dictionary from names such as `"first.lengthscale"` to numpy arrays; inside of a
    transformation, to arrays of JAX.

    **Example:**

    ```python
    >>> kp.hyperparameters(kp.Gaussian(0.3))
    {'lengthscale': array(0.3)}
    ```
    """
    found = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        if eqx.is_inexact_array(leaf):
            names = [str(getattr(key, "name", getattr(key, "idx", key))) for key in path]
            is_log = names[-1].startswith(_LOG)
            names[-1] = names[-1].removeprefix(_LOG)
            if isinstance(leaf, jax.core.Tracer):
                found[".".join(names)] = jnp.exp(leaf) if is_log else leaf
                continue
            value = np.asarray(leaf)
            found[".".join(names)] = np.asarray(np.exp(value) if is_log else value)
    return found
