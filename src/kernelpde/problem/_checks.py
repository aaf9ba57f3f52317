"""What a problem is made of, checked."""

import inspect
from collections.abc import Mapping, Sequence
from keyword import iskeyword
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import Numbers, array, known
from kernelpde.checking import (
    did_you_mean,
    instance,
    numbers,
    shown,
)
from kernelpde.errors import InputError
from kernelpde.geometry import (
    AbstractRegion,
    Averages,
    Patch,
    Patches,
    PointCloud,
    Space,
)
from kernelpde.problem._condition import Condition
from kernelpde.problem._fields import Field


def named_inputs(inputs: Any) -> Mapping[str, Any]:
    example = "a dictionary such as {'source': 1.0}"
    instance("Problem", "inputs", inputs, Mapping, example)
    for name in inputs:
        if not isinstance(name, str) or not name.isidentifier() or iskeyword(name):
            raise InputError(
                f"Problem: an input's name must be usable as an argument of a residual; got "
                f"{shown(name)}."
            )
    return inputs


def square_mixing(mixing: Numbers, size: int) -> Float[Array, "F F"]:
    matrix = numbers("Problem", "mixing", mixing)
    if matrix.shape != (size, size) or not np.isfinite(matrix).all():
        raise InputError(
            f"Problem: mixing must be a matrix of {size} x {size} numbers, one row per real field; "
            f"got shape {matrix.shape}."
        )
    return array(matrix)


def check_conditions(conditions: Sequence[Any]) -> None:
    if not isinstance(conditions, Sequence) or not conditions:
        raise InputError(f"Problem: expected a list of conditions; got {shown(conditions)}.")
    for condition in conditions:
        expected = "a Condition; a list of them is unpacked, Problem(*conditions, fields=...)"
        instance("Problem", "every condition", condition, Condition, expected)


def check_arguments(
    conditions: Sequence[Condition],
    fields: Sequence[Field],
    pairs: Sequence[tuple[str, int, int]],
    mixed: bool,
    inputs: Sequence[str],
) -> None:
    """Names that mean two things, and fields and inputs that nothing is asked of."""
    parts = {fields[i].name: name for name, *both in pairs for i in both}
    names = {field.name for field in fields} | set(parts.values())
    used: set[str] = set()
    for condition in conditions:
        for key in condition.data:
            if key in names or key == "normal":
                raise InputError(
                    f"Condition {condition.name!r}: data {key!r} has the name of a field or of the "
                    "normal; call it something else."
                )
        for key in inputs:
            if key in names or key == "normal" or key in condition.data:
                raise InputError(
                    f"Problem: the input {key!r} has the name of a field, of data or of the "
                    "normal; call it something else."
                )
        used |= set(inspect.signature(condition.residual).parameters)
    for key in inputs:
        if key not in used:
            raise InputError(
                f"Problem: no condition has the input {key!r} among its arguments."
                f"{did_you_mean(key, used)}"
            )
    # Mixed fields say something about each other without a condition.
    idle = [f.name for f in fields if not used & {f.name, parts.get(f.name, f.name)}]
    if idle and not mixed:
        raise InputError(
            f"Problem: no condition has the field {idle[0]!r} among its arguments, so that nothing "
            "determines it. Leave it out, or add its equations."
        )


def data_arrays(data: Mapping[str, Numbers]) -> dict[str, Array]:
    return {key: known(values) for key, values in data.items()}


def space_of(region: AbstractRegion) -> Space | None:
    return region.space if isinstance(region, Patch | Patches) else None


def common_space(conditions: Sequence[Condition]) -> Space:
    spaces = [(c.name, space_of(c.region)) for c in conditions]
    given = [(name, space) for name, space in spaces if space is not None]
    clouds = [(c.name, w) for c in conditions if isinstance(w := c.region, PointCloud | Averages)]
    if given:
        first, space = given[0]
        for name, other in given[1:]:
            if not other.agrees_with(space):
                raise InputError(
                    f"Conditions {first!r} and {name!r} live in different coordinates: "
                    f"{space} and {other}."
                )
    else:
        dimension = clouds[0][1].points.shape[-1]
        named = [cloud.space for _, cloud in clouds if cloud.space is not None]
        space = named[0] if named else Space(tuple(f"x{i}" for i in range(dimension)))
    for name, cloud in clouds:
        if cloud.space is not None and cloud.space.coordinates != space.coordinates:
            raise InputError(
                f"Condition {name!r}: its points have the coordinates {cloud.space.coordinates}, "
                f"the problem has {space.coordinates}."
            )
        if cloud.points.shape[-1] != len(space.coordinates):
            raise InputError(
                f"Condition {name!r}: expected points with {len(space.coordinates)} coordinates "
                f"{space.coordinates}; got {cloud.points.shape[-1]}."
            )
    return space
