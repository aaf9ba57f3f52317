"""Checks of the parts of a problem against each other."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import Numbers, to_array
from kernelpde.checking import check_instance, did_you_mean, is_sequence, require, to_float_array
from kernelpde.errors import InputError
from kernelpde.geometry import AbstractRegion, Averages, Patch, PatchUnion, PointCloud, Space
from kernelpde.problem._condition import Condition
from kernelpde.problem._fields import Unknowns, check_identifier


def check_inputs(inputs: Any) -> Mapping[str, Any]:
    """Return the inputs of a problem after a check of their names."""
    example = "a dictionary such as {'source': 1.0}"
    check_instance("Problem", "inputs", inputs, Mapping, example)
    for name in inputs:
        check_identifier("Problem", name, "the name of an input")
    return inputs


def check_mixing(mixing: Numbers, unknowns: Unknowns) -> Float[Array, "F F"]:
    """Return a mixing matrix after a check of its shape."""
    if unknowns.parameters or unknowns.laws:
        raise InputError("Problem: mixing requires that all unknowns are fields.")
    matrix, size = to_float_array("Problem", "mixing", mixing), len(unknowns.fields)
    is_square = matrix.shape == (size, size) and np.isfinite(matrix).all()
    expected = f"a finite matrix of shape ({size}, {size}), one row per real field"
    require(bool(is_square), "Problem", "mixing", expected, mixing)
    return to_array(matrix)


def check_conditions(conditions: Any) -> None:
    """Check the types and the names of conditions."""
    is_list = is_sequence(conditions) and len(conditions) > 0
    require(is_list, "Problem", "conditions", "a list of conditions", conditions)
    for condition in conditions:
        expected = "a Condition; unpack a list of them, Problem(*conditions, fields=...)"
        check_instance("Problem", "every condition", condition, Condition, expected)
    check_distinct("condition", [condition.name for condition in conditions])


def check_distinct(kind: str, names: list[str]) -> None:
    """Check that names are different."""
    if len(set(names)) != len(names):
        raise InputError(f"Problem: every {kind} must have a different name; got {names}.")


def check_arguments(
    conditions: Sequence[Condition], unknowns: Unknowns, mixed: bool, inputs: Sequence[str]
) -> None:
    """Check that names are unambiguous, and that residuals use all fields and inputs."""
    fields = unknowns.fields
    complex_name = {fields[i].name: name for name, *pair in unknowns.complex_fields for i in pair}
    names = {field.name for field in fields} | set(complex_name.values()) | {"normal"}
    argument_names: set[str] = set()
    for condition in conditions:
        for name in condition.data:
            if name in names:
                raise InputError(
                    f"Condition {condition.name!r}: data {name!r} has the name of a field or of "
                    "the normal. Rename it."
                )
        for name in inputs:
            if name in names or name in condition.data:
                raise InputError(
                    f"Problem: the input {name!r} has the name of a field, of data or of the "
                    "normal. Rename it."
                )
        argument_names |= set(inspect.signature(condition.residual).parameters)
    for name in inputs:
        if name not in argument_names:
            raise InputError(
                f"Problem: no residual has the input {name!r} among its arguments."
                f"{did_you_mean(name, argument_names)}"
            )
    # Mixed fields are correlated, so that conditions on one field determine another.
    unused = [
        f.name for f in fields if not argument_names & {f.name, complex_name.get(f.name, f.name)}
    ]
    if unused and not mixed:
        raise InputError(
            f"Problem: no residual has the field {unused[0]!r} among its arguments, so it is "
            "undetermined. Remove it, or add its equations."
        )


def _region_space(region: AbstractRegion) -> Space | None:
    return region.space if isinstance(region, Patch | PatchUnion) else None


def common_space(conditions: Sequence[Condition]) -> Space:
    """Return the coordinates that all conditions share."""
    spaces = {c.name: space for c in conditions if (space := _region_space(c.region)) is not None}
    clouds = {c.name: c.region for c in conditions if isinstance(c.region, PointCloud | Averages)}
    cloud_spaces = [cloud.space for cloud in clouds.values() if cloud.space is not None]
    if spaces:
        (first, space), *remaining = spaces.items()
        for name, other_space in remaining:
            if not other_space.agrees_with(space):
                raise InputError(
                    f"Problem: conditions {first!r} and {name!r} have different coordinates, "
                    f"{space} and {other_space}."
                )
    elif cloud_spaces:
        space = cloud_spaces[0]
    else:
        dimension = next(iter(clouds.values())).points.shape[-1]
        space = Space(tuple(f"x{i}" for i in range(dimension)))
    for name, cloud in clouds.items():
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
