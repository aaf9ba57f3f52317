"""The part of a problem in one window of time, and what the window before hands over to it."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Array

from kernelpde.errors import InputError
from kernelpde.gauss_newton import Solution
from kernelpde.geometry import Averages, Patch, Patches, PointCloud, Space
from kernelpde.problem import Condition, LearnedNoise, Problem


def cut(
    condition: Condition, space: Space, begin: float, end: float, last: bool
) -> Condition | None:
    """A condition on the part of its region in a window; `None` if its points are elsewhere.

    An average belongs to the window in which it ends.
    """
    region = condition.region
    if isinstance(region, Patch | Patches):
        return replace(condition, where=region.during(begin, end))
    assert isinstance(region, PointCloud | Averages)
    axis = space.coordinates.index(str(space.time))
    when = region.points[..., axis]
    first, when = (when, when) if when.ndim == 1 else (when.min(1), when.max(1))
    inside = (when >= begin) & ((when <= end) if last else (when < end))
    if np.any(first[inside] < begin):
        raise InputError(
            f"march: an average of condition {condition.name!r} reaches across the beginning of a "
            f"window at {begin:g}. Take fewer windows, or averages at one time."
        )
    if not inside.any():
        return None
    if isinstance(region, PointCloud):
        normals = None if region.normals is None else region.normals[inside]
        where = PointCloud(region.points[inside], normals, region.name)
    else:
        where = Averages(region.points[inside], region.weights[inside], region.name)
    noise = condition.noise_level
    return replace(
        condition,
        where=where,
        noise=noise[inside] if noise.ndim else condition.noise,
        data={key: np.asarray(values)[inside] for key, values in condition.data.items()},
    )


def learned_noise(condition: Condition, learned: Any) -> Any:
    """The noise of a condition, as it was learned if it was."""
    return learned if isinstance(learned, LearnedNoise) else condition.noise


def continued(
    problem: Problem,
    condition: Condition,
    before: Solution,
    begin: float,
    points: Mapping[str, int],
    order: int,
    sampling: str,
    seed: int,
) -> Condition:
    """Every field is what it was at the end of the window before."""
    space = problem.space
    assert space.time is not None
    rng = np.random.default_rng([seed, int(1e6 * begin)])
    drawn = condition.region.sample(points[condition.name], rng, sampling).points.copy()
    drawn[:, space.coordinates.index(space.time)] = begin
    names = tuple(field.name for field in problem.fields)
    data = {}
    for name in names:
        view = before[name]
        data[f"{name}_before"] = np.asarray(view(drawn))
        if order == 2:
            data[f"{name}_rate_before"] = np.asarray(view.d(space.time)(drawn))
    residual = _HandingOver(names, space.time, order)
    return Condition(condition.name, PointCloud(drawn, name=condition.name), residual, data=data)


@dataclass(frozen=True)
class _HandingOver:
    """The residual u - u_before for all fields; equal for all windows, so that one program serves.

    **Attributes:**

    - `fields`: the names of all real fields.
    - `time`: the name of the time coordinate.
    - `order`: of the equation in time.
    """

    fields: tuple[str, ...]
    time: str
    order: int

    @property
    def data(self) -> tuple[str, ...]:
        suffixes = ("before", "rate_before")[: self.order]
        return tuple(f"{name}_{suffix}" for name in self.fields for suffix in suffixes)

    @property
    def __signature__(self) -> inspect.Signature:
        """Residuals are called by the names of their arguments; here the problem gives them."""
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        names = ("x", *self.fields, *self.data)
        return inspect.Signature([inspect.Parameter(name, kind) for name in names])

    def __call__(self, x: Array, *given: Any) -> tuple[Array, ...]:
        jets = dict(zip(self.fields, given[: len(self.fields)], strict=True))
        known = dict(zip(self.data, given[len(self.fields) :], strict=True))
        parts = [jets[name].value - known[f"{name}_before"] for name in self.fields]
        if self.order == 2:
            parts += [
                jets[name].d(self.time) - known[f"{name}_rate_before"] for name in self.fields
            ]
        return tuple(parts)
