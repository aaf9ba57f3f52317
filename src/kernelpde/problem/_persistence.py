"""Learned hyperparameters on disk: JSON, exact to the last bit, applied to any problem they fit."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from kernelpde.archive import replacing
from kernelpde.checking import instance
from kernelpde.errors import InputError
from kernelpde.functionals import Balanced, Mixed
from kernelpde.kernels import AbstractKernel, make_of
from kernelpde.problem._collocation import Collocation
from kernelpde.problem._problem import Problem
from kernelpde.problem._residual import Residual

_FORMAT, _VERSION = "kernelpde kernels", 1
_NOISE = "noise."
_PROBES = 5
"""Number of points of each condition used to tell one formula from another."""


def save_kernels(path: str | Path, problem: Problem) -> None:
    """Write the hyperparameters of a problem's kernels, and learned noise.

    The file holds the hyperparameters by field and name, positive ones as logarithms; the structure
    of the kernels; and a checksum.

    **Arguments:**

    - `path`: a file, replaced if it exists.
    - `problem`: for example `learned.problem`.

    **Example:**

    ```python
    >>> kp.save_kernels("kernels.json", learned.problem)
    ```
    """
    _check(path, problem)
    content = {
        "format": _FORMAT,
        "version": _VERSION,
        "fields": [field.name for field in problem.fields],
        "make": make_of(kernel_trees(problem)),
        "numbers": {name: leaf.tolist() for name, leaf in kernel_numbers(problem).items()},
    }
    with replacing(path) as beside:
        beside.write_text(json.dumps({**content, "digest": _digest(content)}, indent=2) + "\n")


def load_kernels(path: str | Path, problem: Problem) -> Problem:
    """The same problem with the hyperparameters from a file.

    **Arguments:**

    - `path`: written by `save_kernels`.
    - `problem`: with the same fields and kernels of the same structure, whatever their numbers; its
      conditions may differ.

    **Example:**

    ```python
    >>> kp.save_kernels("kernels.json", learned.problem)
    >>> same = kp.load_kernels("kernels.json", problem)
    ```
    """
    _check(path, problem)
    stored = _read(Path(path))
    names = [field.name for field in problem.fields]
    if stored.get("fields") != names:
        raise InputError(
            f"{path}: holds kernels of the fields {stored.get('fields')}; expected {names}."
        )
    numbers = stored.get("numbers")
    if not isinstance(numbers, dict):
        raise InputError(f"{path}: holds no hyperparameters.")
    try:
        found = with_kernel_numbers(problem, numbers)
        check_make(stored.get("make"), found)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    if stored.get("digest") != _digest({k: v for k, v in stored.items() if k != "digest"}):
        raise InputError(
            f"{path}: is damaged; its numbers have changed since they were written. Kernels with "
            "numbers of your own are made in the program."
        )
    return found


def check_make(stored: object, problem: Problem) -> None:
    """Refuse numbers that belong to kernels of another make."""
    present = make_of(kernel_trees(problem))
    if _today(str(stored)) != present:
        raise InputError(f"holds numbers for other kernels: {stored}; expected {present}.")


def probe(residual: Residual, block: Collocation) -> np.ndarray:
    """A residual at some of its points for made-up jets: numbers that tell it from others."""
    some = min(_PROBES, len(block.points))
    entries = 0.5 + np.random.default_rng(0).random((some, len(residual.terms)))
    return np.stack(
        [
            np.asarray(
                residual(
                    block.points[n],
                    None if block.normals is None else block.normals[n],
                    {key: values[n] for key, values in block.data.items()},
                    tuple(jnp.asarray(entries[n])),
                )
            )
            for n in range(some)
        ]
    )


def kernel_probe(problem: Problem, blocks: tuple[Collocation, ...]) -> np.ndarray:
    """The kernels between some points: numbers that tell one formula from another."""
    points = jnp.concatenate([block.points[:_PROBES] for block in blocks])
    zero = (0,) * points.shape[1]
    x, y = (tuple(jnp.expand_dims(points, axis).transpose(2, 0, 1)) for axis in (0, 1))
    found = []
    for field in problem.fields:
        (values,) = field.kernel.partials(x, y, [(zero, zero)])
        found.append(np.zeros((len(points),) * 2) if values is None else np.asarray(values))
    return np.stack([np.broadcast_to(values, (len(points),) * 2) for values in found])


def _today(text: str) -> str:
    """Names in files as they are now."""
    return text.replace("smoothness=", "nu=").replace("log_mixture", "log_alpha")


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _check(path: object, problem: Problem) -> None:
    instance("kernels", "path", path, (str, Path), "the name of a file")
    instance("kernels", "problem", problem, Problem, "a Problem, such as learned.problem")


def with_kernel_numbers(problem: Problem, numbers: Mapping[str, Any]) -> Problem:
    """The same problem with other numbers in its kernels, by the names of `kernel_numbers`."""
    present, dimension = kernel_numbers(problem), len(problem.space.coordinates)
    numbers = {_today(name): value for name, value in numbers.items()}
    if set(numbers) != set(present):
        raise InputError(
            f"its hyperparameters do not fit these kernels; got {sorted(numbers)}, expected "
            f"{sorted(present)}."
        )
    arrays = {}
    for name, leaf in present.items():
        try:
            arrays[name] = np.asarray(numbers[name], dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"{name} does not hold numbers.") from error
        # Learning gives each coordinate a lengthscale of its own where extents are not alike.
        shapes = [leaf.shape, (dimension,)] if "log_lengthscale" in name else [leaf.shape]
        if arrays[name].shape not in shapes or not np.isfinite(arrays[name]).all():
            raise InputError(
                f"{name} must hold finite numbers of shape {leaf.shape}; "
                f"got shape {arrays[name].shape}."
            )

    def replaced(where, leaf):
        return jnp.asarray(arrays[_name(where)]) if eqx.is_inexact_array(leaf) else leaf

    noises = [arrays.get(f"{_NOISE}{condition.name}") for condition in problem.conditions]
    found = problem.with_kernels(jax.tree_util.tree_map_with_path(replaced, kernel_trees(problem)))
    return found.with_noises([None if noise is None else jnp.asarray(noise) for noise in noises])


def _read(path: Path) -> dict[str, Any]:
    try:
        stored = json.loads(path.read_text())
    except OSError as error:
        raise InputError(f"{path}: cannot be read; {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is not a file of kernels; it is not JSON.") from error
    if not isinstance(stored, dict) or stored.get("format") != _FORMAT:
        raise InputError(f"{path}: is not a file of kernels.")
    if stored.get("version") != _VERSION:
        raise InputError(
            f"{path}: has version {stored.get('version')}; this program reads {_VERSION}."
        )
    return stored


def kernel_numbers(problem: Problem) -> dict[str, np.ndarray]:
    """The hyperparameters of a problem as its kernels keep them, logarithms of positive ones.

    Noise that is learned is among them.
    """
    found = {
        _name(where): np.asarray(leaf)
        for where, leaf in jax.tree_util.tree_leaves_with_path(kernel_trees(problem))
        if eqx.is_inexact_array(leaf)
    }
    for condition, noise in zip(problem.conditions, problem.noises, strict=True):
        if noise is not None:
            found[f"{_NOISE}{condition.name}"] = np.asarray(noise)
    return found


def kernel_trees(problem: Problem) -> Mixed | tuple[AbstractKernel, ...]:
    """The kernels; how large fields are beside each other is no part of them."""
    kernels = problem.kernels
    return kernels.latents if isinstance(kernels, Balanced) else kernels


def _name(where) -> str:
    return ".".join(str(getattr(key, "name", getattr(key, "idx", key))) for key in where)
