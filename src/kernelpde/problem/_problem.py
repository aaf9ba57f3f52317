"""How a problem is described: fields, conditions, and the points they are imposed at."""

import zlib
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from kernelpde.arrays import Numbers
from kernelpde.errors import InputError
from kernelpde.functionals import Frame, Kernels, Mixed
from kernelpde.geometry import AbstractRegion, Averages, Patch, Patches, PointCloud, Space
from kernelpde.kernels import AbstractKernel, bind_coordinates, hyperparameters, wind
from kernelpde.precision import require_float64
from kernelpde.problem._fields import Unknown, real_fields
from kernelpde.problem._residual import Residual, trace_residual


@dataclass(frozen=True)
class LearnedNoise:
    """A standard deviation of noise that `learn` finds together with the kernels.

    **Arguments:**

    - `start`: where to begin; also what `solve` uses.
    """

    start: float

    def __post_init__(self):
        if not (np.isfinite(self.start) and self.start > 0):
            raise InputError(f"LearnedNoise: expected a positive start; got {self.start}.")


@dataclass(frozen=True, eq=False)
class Condition:
    """F(x, fields) = 0 on a region: an equation, a boundary or initial condition, or data.

    **Arguments:**

    - `name`: what to call it.
    - `where`: a region, or an array of points.
    - `residual`: F, a function of the point and, by the names of its further arguments, of fields
      (as jets), data and, on boundary pieces, the outward `normal`. It returns a number, or a tuple
      of numbers for several equations; complex numbers count as two.
    - `noise`: standard deviation with which F = 0 is to hold, one number, one per point, or
      `LearnedNoise`. 0 asks for it exactly; a relaxed condition with weight w in the sum of squares
      has noise w^(-1/2).
    - `data`: arrays with one row per point, or per average, for conditions on points of the user's
      own.
    """

    name: str
    where: AbstractRegion | Numbers
    residual: Callable
    noise: Numbers | LearnedNoise = 0.0
    data: Mapping[str, Numbers] = field(default_factory=dict)

    def __post_init__(self):
        if not isinstance(self.where, AbstractRegion):
            cloud = PointCloud(self.where, name=f"Condition {self.name!r}")
            object.__setattr__(self, "where", cloud)
        region = self.region
        noise = self.noise_level
        if noise.ndim > 1 or not np.isfinite(noise).all() or (noise < 0).any():
            raise InputError(
                f"Condition {self.name!r}: noise must be a standard deviation, not negative; "
                f"got {self.noise}."
            )
        count = len(region.points) if isinstance(region, PointCloud | Averages) else None
        if (self.data or noise.ndim) and count is None:
            raise InputError(
                f"Condition {self.name!r}: data and noise per point need points of their own; "
                "give an array of points or a PointCloud instead of a region to draw from."
            )
        arrays = {key: np.asarray(values, dtype=float) for key, values in self.data.items()}
        for key, values in arrays.items():
            if values.shape[:1] != (count,):
                raise InputError(
                    f"Condition {self.name!r}: expected {count} rows in data {key!r}, one per "
                    f"point; got shape {values.shape}."
                )
            if not np.isfinite(values).all():
                row = int(np.argwhere(~np.isfinite(values))[0, 0])
                raise InputError(
                    f"Condition {self.name!r}: data {key!r} hold a NaN or infinite entry in row "
                    f"{row}. Remove missing measurements together with their points."
                )
        object.__setattr__(self, "data", arrays)

    @property
    def noise_level(self) -> np.ndarray:
        """The standard deviation of the noise, as it is now."""
        given = self.noise.start if isinstance(self.noise, LearnedNoise) else self.noise
        return np.asarray(given, dtype=float)

    @property
    def region(self) -> AbstractRegion:
        """Where the condition holds; points given as an array are a `PointCloud` by now."""
        assert isinstance(self.where, AbstractRegion)
        return self.where


class Block(eqx.Module):
    """The points of one condition, with everything that comes per point.

    **Attributes:**

    - `points`, `normals`, `data`: one row per point.
    - `noise`: standard deviation, one per row of each equation.
    - `quadrature`: for averages, what the points of each are weighted with; points of one average
      follow each other.
    """

    points: Float[Array, "L d"]
    normals: Float[Array, "L d"] | None
    data: dict[str, Array]
    noise: Float[Array, "N"]
    quadrature: Float[Array, "N Q"] | None = None

    @property
    def count(self) -> int:
        """Rows per equation."""
        return self.noise.shape[0]

    @property
    def width(self) -> int:
        """Points per row."""
        return 1 if self.quadrature is None else self.quadrature.shape[1]

    def weighted(self, local: Float[Array, "L *_"]) -> Float[Array, "L *_"]:
        """Values at the points times their weights in an average."""
        if self.quadrature is None:
            return local
        return self.quadrature.reshape(-1, *(1,) * (local.ndim - 1)) * local

    def by_rows(self, local: Float[Array, "L R"]) -> Float[Array, "RN"]:
        """Values at the points, weighted and added up, in the order of the rows."""
        grouped = self.weighted(local).reshape(self.count, self.width, local.shape[1])
        return grouped.sum(1).T.reshape(-1)


class Problem:
    """Fields and the conditions that determine them.

    **Arguments:**

    - `*conditions`: with names of their own.
    - `fields`: the unknown functions, `Field` or `ComplexField`, and numbers, `Parameter`.
    - `mixing`: a square matrix A with one row per real field. With it the kernels of the fields are
      those of independent functions w, and the fields are u = A w, correlated with each other; A is
      learned along with the kernels.
    """

    def __init__(
        self,
        *conditions: Condition,
        fields: Sequence[Unknown],
        mixing: Numbers | None = None,
    ):
        require_float64()
        if not conditions or not fields:
            raise InputError("Problem: expected at least one condition and one field.")
        flat, pairs, self.parameters = real_fields(fields)
        for what, names in (
            ("condition", [c.name for c in conditions]),
            ("field", [*(f.name for f in flat), *(name for name, *_ in pairs)]),
        ):
            if len(set(names)) != len(names):
                raise InputError(f"Problem: every {what} needs a name of its own; got {names}.")
        self.conditions = tuple(conditions)
        self.space = _common_space(conditions)
        self.frame = Frame(self.space.coordinates, self.space.spatial)
        self.complex_fields = pairs
        self.fields = tuple(replace(f, kernel=self._bound(f.kernel)) for f in flat)
        self.mixing = None if mixing is None else _square(mixing, len(flat))
        if self.parameters and mixing is not None:
            raise InputError("Problem: mixing is for fields alone; there are also parameters.")
        self.residuals = self._traced()

    def _bound(self, kernel: AbstractKernel) -> AbstractKernel:
        """A kernel that knows the domain's coordinates and periods."""
        return wind(bind_coordinates(kernel, self.space.coordinates), self.space.periods)

    @property
    def kernels(self) -> Kernels:
        kernels = tuple(f.kernel for f in self.fields)
        return kernels if self.mixing is None else Mixed(kernels, self.mixing)

    def with_kernels(self, kernels: Kernels | Sequence[AbstractKernel]) -> "Problem":
        """The same problem with other kernels, one per real field."""
        other = copy(self)
        if isinstance(kernels, Mixed):
            other.mixing, kernels = kernels.mixing, kernels.latents
        other.fields = tuple(
            replace(f, kernel=self._bound(k)) for f, k in zip(self.fields, kernels, strict=True)
        )
        return other

    @property
    def noises(self) -> tuple[Float[Array, ""] | None, ...]:
        """For each condition the logarithm of its noise, if that is to be learned."""
        return tuple(
            jnp.asarray(np.log(c.noise.start)) if isinstance(c.noise, LearnedNoise) else None
            for c in self.conditions
        )

    def with_noises(self, noises: Sequence[Float[Array, ""] | None]) -> "Problem":
        """The same problem with other values for the noise to be learned."""
        other = copy(self)
        other.conditions = tuple(
            c if noise is None else replace(c, noise=LearnedNoise(float(np.exp(noise))))
            for c, noise in zip(self.conditions, noises, strict=True)
        )
        return other

    def with_conditions(self, conditions: Sequence[Condition]) -> "Problem":
        """The same fields and kernels under other conditions."""
        other = copy(self)
        other.conditions = tuple(conditions)
        other.space = _common_space(conditions)
        other.residuals = other._traced()
        return other

    def _traced(self) -> tuple[Residual, ...]:
        names = tuple(field.name for field in self.fields)
        return tuple(
            trace_residual(
                c.name,
                c.residual,
                names,
                self.frame,
                c.region.has_normals,
                _arrays(c.data),
                self.complex_fields,
                self.parameters,
            )
            for c in self.conditions
        )

    @property
    def hyperparameters(self) -> dict[str, dict[str, np.ndarray]]:
        """Every hyperparameter by field and name; those of a mixing under "mixing", and learned
        noise by condition under "noise"."""
        numbers = {parameter.name for parameter in self.parameters}
        found = {f.name: hyperparameters(f.kernel) for f in self.fields if f.name not in numbers}
        learned = {
            c.name: c.noise_level for c in self.conditions if isinstance(c.noise, LearnedNoise)
        }
        if learned:
            found["noise"] = learned
        if self.mixing is not None:
            found["mixing"] = {"matrix": np.asarray(self.mixing)}
        return found

    def field_index(self, name: str) -> int:
        names = [f.name for f in self.fields]
        if name not in names:
            known = [*(name for name, *_ in self.complex_fields), *names]
            raise InputError(f"Unknown field {name!r}; the problem has {', '.join(known)}.")
        return names.index(name)

    def condition_index(self, name: str) -> int:
        names = [c.name for c in self.conditions]
        if name not in names:
            raise InputError(f"Unknown condition {name!r}; the problem has {', '.join(names)}.")
        return names.index(name)

    def collocate(
        self,
        points: Mapping[str, int | Numbers] | None = None,
        *,
        seed: int = 0,
        sampling: str = "halton",
    ) -> tuple[Block, ...]:
        """Draw the points of every condition.

        Each condition draws from its own stream, made from the seed and its name: adding a
        condition leaves the points of the others as they were.

        **Arguments:**

        - `points`: for each condition a number of points or an array of points; conditions on a
          cloud need no entry.
        - `seed`: a number.
        - `sampling`: one of `kernelpde.geometry.METHODS`.
        """
        points = dict(points or {})
        names = [c.name for c in self.conditions]
        unknown = set(points) - set(names)
        if unknown:
            raise InputError(
                f"points names {', '.join(map(repr, sorted(unknown)))}, but the conditions are "
                f"{', '.join(map(repr, names))}."
            )
        return tuple(
            _collocated(condition, len(self.space.coordinates), points, seed, sampling)
            for condition in self.conditions
        )

    def __repr__(self) -> str:
        lines = [f"Problem in {', '.join(self.space.coordinates)}"]
        lines += [f"  field {f.name}: {f.kernel!r}" for f in self.fields]
        lines += [f"  condition {c.name} on {c.region.name}" for c in self.conditions]
        return "\n".join(lines)


def _square(mixing: Numbers, size: int) -> Float[Array, "F F"]:
    matrix = np.asarray(mixing, dtype=np.float64)
    if matrix.shape != (size, size) or not np.isfinite(matrix).all():
        raise InputError(
            f"Problem: mixing must be a matrix of {size} x {size} numbers, one row per real field; "
            f"got shape {matrix.shape}."
        )
    return jnp.asarray(matrix)


def _arrays(data: Mapping[str, Numbers]) -> dict[str, Array]:
    return {key: jnp.asarray(values) for key, values in data.items()}


def _space_of(region: AbstractRegion) -> Space | None:
    return region.space if isinstance(region, Patch | Patches) else None


def _common_space(conditions: Sequence[Condition]) -> Space:
    spaces = [(c.name, _space_of(c.region)) for c in conditions]
    known = [(name, space) for name, space in spaces if space is not None]
    clouds = [(c.name, w) for c in conditions if isinstance(w := c.region, PointCloud | Averages)]
    if known:
        first, space = known[0]
        for name, other in known[1:]:
            if not other.agrees_with(space):
                raise InputError(
                    f"Conditions {first!r} and {name!r} live in different coordinates: "
                    f"{space} and {other}."
                )
    else:
        dimension = clouds[0][1].points.shape[-1]
        space = Space(tuple(f"x{i}" for i in range(dimension)))
    for name, cloud in clouds:
        if cloud.points.shape[-1] != len(space.coordinates):
            raise InputError(
                f"Condition {name!r}: expected points with {len(space.coordinates)} coordinates "
                f"{space.coordinates}; got {cloud.points.shape[-1]}."
            )
    return space


def _collocated(
    condition: Condition,
    dimension: int,
    points: Mapping[str, int | Numbers],
    seed: int,
    sampling: str,
) -> Block:
    name, region = condition.name, condition.region
    asked = points.get(name)
    if asked is not None and np.ndim(asked):
        if region.has_normals or condition.data:
            raise InputError(
                f"Condition {name!r}: points given as an array have no normals and no data. "
                "Describe the condition on a PointCloud instead."
            )
        region, asked = PointCloud(asked, name=f"Condition {name!r}"), None
    if asked is None and not isinstance(region, PointCloud | Averages):
        raise InputError(
            f"Condition {name!r}: no number of points given. "
            f"Expected points={{{name!r}: 300, ...}}."
        )
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    sample = region.sample(None if asked is None else int(np.asarray(asked)), rng, sampling)
    if sample.points.shape[1] != dimension:
        raise InputError(
            f"Condition {name!r}: expected points with {dimension} coordinates; "
            f"got {sample.points.shape[1]}."
        )
    weights = sample.weights
    width = 1 if weights is None else weights.shape[1]
    noise = np.broadcast_to(condition.noise_level, len(sample.points) // width)
    if weights is None:
        _refuse_duplicates(name, sample.points[noise == 0])
    return Block(
        jnp.asarray(sample.points),
        None if sample.normals is None else jnp.asarray(sample.normals),
        {key: jnp.asarray(np.repeat(v, width, axis=0)) for key, v in condition.data.items()},
        jnp.asarray(noise),
        None if weights is None else jnp.asarray(weights),
    )


def _refuse_duplicates(name: str, points: np.ndarray) -> None:
    """The same condition twice at one point makes the system singular, unless it is noisy."""
    _, first, counts = np.unique(points, axis=0, return_index=True, return_counts=True)
    if (counts > 1).any():
        where = points[first[np.argmax(counts)]]
        raise InputError(
            f"Condition {name!r}: {int((counts - 1).sum())} of its {len(points)} points are "
            f"duplicates, for example {where.tolist()}. Remove them, or give the condition a noise "
            "if these are repeated measurements."
        )
