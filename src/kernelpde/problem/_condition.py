"""Conditions: residuals on regions, with noise and data."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from kernelpde.arrays import Numbers, is_tracer
from kernelpde.checking import (
    check_callable,
    check_finite,
    check_mapping,
    format_names,
    input_error,
    require,
    to_float_array,
)
from kernelpde.errors import InputError
from kernelpde.geometry import AbstractDomain, AbstractRegion, Averages, PointCloud
from kernelpde.problem._noise import LearnedNoise, StudentT

_REQUIRES_POINTS = (
    "requires user-supplied points. Pass an array of points or a PointCloud instead of a region."
)


@dataclass(frozen=True, eq=False, init=False)
class Condition:
    """F(x, fields) = 0 on a region: an equation, a boundary or initial condition, or data.

    **Arguments:**

    - `name`: name, different for each condition of a problem.
    - `region`: region, or array of points, also as a `pandas.DataFrame` of coordinates.
    - `residual`: function F of the point and, matched by the names of its further arguments, of
      fields (as jets), data and, on boundary pieces, the outward `normal`. It returns a number, or
      a tuple of numbers for several equations. Complex numbers count as two.
    - `noise`: standard deviation of the noise in F = 0: one number, one per point, `LearnedNoise`,
      or `StudentT` for data with outliers. 0 enforces F = 0 exactly. A relaxed condition with
      weight w in the sum of squares has noise w^(-1/2).
    - `data`: arrays with one row per point, or per average, for conditions on user-supplied points.

    **Example:**

    ```python
    >>> left = kp.Condition("left", rod["x=0"], lambda x, u: u.normal_derivative - 2.0)
    >>> data = kp.Condition(
    ...     "data", [[0.2], [0.7]], lambda x, u, y: u.value - y, noise=0.01, data={"y": [0.3, 0.4]}
    ... )
    ```
    """

    name: str
    region: AbstractRegion
    residual: Callable
    noise: Numbers | LearnedNoise | StudentT
    data: Mapping[str, Numbers]

    def __init__(
        self,
        name: str,
        region: AbstractRegion | Numbers,
        residual: Callable,
        noise: Numbers | LearnedNoise | StudentT = 0.0,
        data: Mapping[str, Numbers] = MappingProxyType({}),
    ):
        advice = "The order is Condition(name, region, residual)."
        is_name = isinstance(name, str) and bool(name)
        require(is_name, "Condition", "the name", "a word such as 'equation'", name, advice)
        caller = f"Condition {name!r}"
        if isinstance(region, AbstractDomain | str) or region is None:
            advice = "Use box.interior or box.boundary."
            raise input_error(caller, "the region", "a region or points", region, advice)
        if not isinstance(region, AbstractRegion):
            region = PointCloud(region, name=caller)
        example = "a function such as lambda x, u: u.laplacian - 1"
        check_callable(caller, "the residual", residual, example)
        values = {"name": name, "region": region, "residual": residual, "noise": noise}
        for attribute, value in values.items():
            object.__setattr__(self, attribute, value)
        self._check_noise(caller)
        object.__setattr__(self, "data", self._check_data(caller, data))

    @property
    def num_points(self) -> int | None:
        """Number of user-supplied points or averages; None if points are drawn from the region."""
        return None if self._finite_region is None else len(self._finite_region.points)

    @property
    def _finite_region(self) -> PointCloud | Averages | None:
        return self.region if isinstance(self.region, PointCloud | Averages) else None

    def _check_noise(self, caller: str) -> None:
        noise, count = self.noise_std, self.num_points
        is_std = noise.ndim <= 1 and np.isfinite(noise).all() and (noise >= 0).all()
        require(bool(is_std), caller, "noise", "a nonnegative standard deviation", self.noise)
        if self.student_t is not None and count is None:
            raise InputError(
                f"{caller}: StudentT requires user-supplied points. Use a standard deviation for "
                "other conditions."
            )
        if noise.ndim and count is None:
            raise InputError(f"{caller}: noise per point {_REQUIRES_POINTS}")
        if noise.ndim and len(noise) != count:
            raise InputError(
                f"{caller}: expected one noise, or one for each of {count} points; "
                f"got {len(noise)}."
            )

    def _check_data(self, caller: str, data: Mapping[str, Numbers]) -> dict[str, Numbers]:
        check_mapping(caller, "data", data, None, advice="Write data={'y': values}.")
        count = self.num_points
        if data and count is None:
            raise InputError(f"{caller}: data {_REQUIRES_POINTS}")
        arguments = _argument_names(self.residual)
        arrays: dict[str, Numbers] = {}
        for name, values in data.items():
            if arguments is not None and name not in arguments[1:]:
                raise InputError(
                    f"{caller}: data {name!r} is no argument of the residual, which has "
                    f"{format_names(arguments)}. Add it, or remove it from data."
                )
            if is_tracer(values):
                array = values
            else:
                array = to_float_array(caller, f"data {name!r}", values)
            if array.shape[:1] != (count,):
                raise InputError(
                    f"{caller}: expected {count} rows in data {name!r}, one per point; got shape "
                    f"{array.shape}."
                )
            if isinstance(array, np.ndarray):
                advice = (
                    "Expected finite numbers. Drop missing measurements together with their "
                    f"points, in pandas df.dropna(subset=[{name!r}])."
                )
                check_finite(caller, f"data {name!r}", array, advice)
            arrays[name] = array
        return arrays

    @property
    def learned_noise(self) -> LearnedNoise | None:
        """The noise if it is learned, or None."""
        return self.noise if isinstance(self.noise, LearnedNoise) else None

    @property
    def student_t(self) -> StudentT | None:
        """The noise if it is Student's t noise, or None."""
        return self.noise if isinstance(self.noise, StudentT) else None

    @property
    def noise_std(self) -> np.ndarray:
        """Standard deviation of the noise; its current estimate if it is learned."""
        learned, student_t = self.learned_noise, self.student_t
        std = self.noise if learned is None else learned.initial
        std = std if student_t is None else student_t.scale
        return to_float_array(f"Condition {self.name!r}", "noise", std)

    def select(self, rows: np.ndarray) -> "Condition":
        """Return the condition at a subset of its user-supplied points or averages."""
        noise, region = self.noise, self._finite_region
        assert region is not None
        if self.noise_std.ndim:
            std, student_t = self.noise_std[rows], self.student_t
            noise = std if student_t is None else replace(student_t, scale=std)
        data = {name: np.asarray(values)[rows] for name, values in self.data.items()}
        return replace(self, region=region.select(rows), noise=noise, data=data)


def _argument_names(function: Callable) -> list[str] | None:
    """Return the names of the arguments of a function; None if it accepts any."""
    try:
        arguments = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None
    accepts_any = any(a.kind is a.VAR_KEYWORD for a in arguments.values())
    return None if accepts_any else list(arguments)
