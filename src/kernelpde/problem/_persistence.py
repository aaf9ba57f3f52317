"""Files of hyperparameters: JSON with exact numbers, and fingerprints of formulas."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from kernelpde.checking import check_instance, to_float_array
from kernelpde.errors import InputError
from kernelpde.functionals import Prior
from kernelpde.io import Attributes, atomic_write
from kernelpde.kernels import SingularKernel, structure_of
from kernelpde.problem._corners import add_corner_functions
from kernelpde.problem._point_set import PointSet
from kernelpde.problem._problem import Problem
from kernelpde.problem._residual import Residual

_FORMAT, _VERSION = "kernelpde kernels", 1
_NOISE = "noise."
_NUM_PROBES = 5
"""Number of points per condition at which formulas are compared."""


def save_kernels(path: str | Path, problem: Problem) -> None:
    """Write the hyperparameters of a problem's kernels, and learned noise.

    The file contains the hyperparameters by field and name, the structure of the kernels, and a
    checksum. Positive hyperparameters are stored as logarithms.

    **Arguments:**

    - `path`: name of the file, which is replaced if it exists.
    - `problem`: problem with the kernels, for example `learned.problem`.

    **Example:**

    ```python
    >>> kp.save_kernels("kernels.json", learned.problem)
    ```
    """
    _check_arguments(path, problem)
    contents = {
        "format": _FORMAT,
        "version": _VERSION,
        "fields": [field.name for field in problem.fields],
        "structure": structure_of(unscaled_prior(problem)),
        "arrays": {name: leaf.tolist() for name, leaf in kernel_arrays(problem).items()},
    }
    with atomic_write(path) as temporary:
        text = json.dumps({**contents, "digest": _digest(contents)}, indent=2)
        temporary.write_text(f"{text}\n")


def load_kernels(path: str | Path, problem: Problem) -> Problem:
    """Return a problem with the hyperparameters from a file.

    **Arguments:**

    - `path`: name of a file written by `save_kernels`.
    - `problem`: problem with the same fields and with kernels of the same structure. Its
      conditions may differ.

    **Example:**

    ```python
    >>> kp.save_kernels("kernels.json", learned.problem)
    >>> same = kp.load_kernels("kernels.json", problem)
    ```
    """
    _check_arguments(path, problem)
    contents = _read(Path(path))
    names = [field.name for field in problem.fields]
    if contents.get("fields") != names:
        raise InputError(
            f"{path}: contains kernels of the fields {contents.get('fields')}; expected {names}."
        )
    arrays = contents.get("arrays")
    if not isinstance(arrays, dict):
        raise InputError(f"{path}: contains no hyperparameters.")
    try:
        problem = with_stored_corners(problem, contents.get("structure"))
        loaded = with_kernel_arrays(problem, arrays)
        check_structure(contents.get("structure"), loaded)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    if contents.get("digest") != _digest({k: v for k, v in contents.items() if k != "digest"}):
        raise InputError(
            f"{path}: is damaged; its contents do not match the checksum. To change "
            "hyperparameters, create kernels with new values and save them."
        )
    return loaded


def with_stored_corners(problem: Problem, structure: object) -> Problem:
    """Add the corner functions that `solve` has added to a problem whose kernels are stored."""
    return add_corner_functions(problem) if SingularKernel.__name__ in str(structure) else problem


def check_structure(structure: object, problem: Problem) -> None:
    """Check that stored arrays belong to kernels of the same structure."""
    expected = structure_of(unscaled_prior(problem))
    if structure != expected:
        raise InputError(f"contains arrays of other kernels: {structure}; expected {expected}.")


def residual_fingerprint(residual: Residual, point_set: PointSet) -> np.ndarray:
    """Evaluate a residual at some points for random jets, to compare it with others."""
    num_points = min(_NUM_PROBES, len(point_set.points))
    jet_values = 0.5 + np.random.default_rng(0).random((num_points, len(residual.terms)))
    return np.stack(
        [
            np.asarray(
                residual(
                    point_set.points[n],
                    None if point_set.normals is None else point_set.normals[n],
                    {name: values[n] for name, values in point_set.data.items()},
                    tuple(jnp.asarray(jet_values[n])),
                )
            )
            for n in range(num_points)
        ]
    )


def kernel_fingerprint(problem: Problem, point_sets: tuple[PointSet, ...]) -> np.ndarray:
    """Evaluate all kernels at pairs of some points, to compare them with others."""
    points = jnp.concatenate([point_set.points[:_NUM_PROBES] for point_set in point_sets])
    zero, shape = (0,) * points.shape[1], (len(points),) * 2
    x, y = (tuple(jnp.expand_dims(points, axis).transpose(2, 0, 1)) for axis in (0, 1))
    matrices = []
    for field in problem.fields:
        (values,) = field.kernel.partials(x, y, [(zero, zero)])
        matrices.append(np.broadcast_to(0.0 if values is None else np.asarray(values), shape))
    return np.stack(matrices)


def _digest(contents: Attributes) -> str:
    return hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()


def _check_arguments(path: object, problem: Problem) -> None:
    check_instance("kernels", "path", path, (str, Path), "the name of a file")
    check_instance("kernels", "problem", problem, Problem, "a Problem, such as learned.problem")


def with_kernel_arrays(problem: Problem, arrays: Attributes) -> Problem:
    """Replace the hyperparameters by arrays with the names of `kernel_arrays`."""
    current, dimension = kernel_arrays(problem), len(problem.space.coordinates)
    if set(arrays) != set(current):
        raise InputError(
            f"its hyperparameters do not match these kernels; got {sorted(arrays)}, expected "
            f"{sorted(current)}."
        )
    checked = {}
    for name, leaf in current.items():
        array = to_float_array("hyperparameters", name, arrays[name])
        # Learning adds a lengthscale per coordinate if the extents of the domain differ.
        shapes = [leaf.shape, (dimension,)] if "log_lengthscale" in name else [leaf.shape]
        if array.shape not in shapes or not np.isfinite(array).all():
            raise InputError(
                f"hyperparameters: {name} must be finite numbers of shape {leaf.shape}; got shape "
                f"{array.shape}."
            )
        checked[name] = jnp.asarray(array)

    def replace_leaf(path, leaf):
        return checked[_name(path)] if eqx.is_inexact_array(leaf) else leaf

    prior = jax.tree_util.tree_map_with_path(replace_leaf, unscaled_prior(problem))
    noises = [checked.get(f"{_NOISE}{condition.name}") for condition in problem.conditions]
    return problem.with_prior(replace(prior, exponents=problem.prior.exponents)).with_noises(noises)


def _read(path: Path) -> Attributes:
    try:
        contents = json.loads(path.read_text())
    except OSError as error:
        raise InputError(f"{path}: cannot be read; {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is not a file of kernels; it is not JSON.") from error
    if not isinstance(contents, dict) or contents.get("format") != _FORMAT:
        raise InputError(f"{path}: is not a file of kernels.")
    if contents.get("version") != _VERSION:
        raise InputError(
            f"{path}: has version {contents.get('version')}; this program reads {_VERSION}."
        )
    return contents


def kernel_arrays(problem: Problem) -> dict[str, np.ndarray]:
    """Return hyperparameters and learned noise by name. Positive ones are logarithms."""
    arrays = {
        _name(path): np.asarray(leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(unscaled_prior(problem))
        if eqx.is_inexact_array(leaf)
    }
    for name, noise in problem.by_condition(problem.noises).items():
        if noise is not None:
            arrays[f"{_NOISE}{name}"] = np.asarray(noise)
    return arrays


def unscaled_prior(problem: Problem) -> Prior:
    """Return the prior without relative scales of the fields."""
    return replace(problem.prior, exponents=None)


def _name(path) -> str:
    """Return the name of a hyperparameter, which starts with the index of its field."""
    name = ".".join(str(getattr(key, "name", getattr(key, "idx", key))) for key in path)
    return name.removeprefix("kernels.")
