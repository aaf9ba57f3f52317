"""Posteriors of single fields and laws."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float, PRNGKeyArray

from kernelpde.arrays import Numbers, to_array
from kernelpde.checking import check_finite, check_integer, check_random_key, to_float_array
from kernelpde.errors import InputError
from kernelpde.functionals import Functionals, Term, nodal_terms
from kernelpde.geometry import Averages
from kernelpde.inference._estimate import interval_levels
from kernelpde.inference._mixture_of_gps import MixtureOfGPs
from kernelpde.problem import Law
from kernelpde.solution import LawView

if TYPE_CHECKING:
    from matplotlib.figure import Figure


PointsOrAverages = Numbers | Averages
"""Points with coordinates on the last axis, or averages over regions."""


class PosteriorView:
    """Posterior of a field or of one of its derivatives."""

    def __init__(self, posterior: MixtureOfGPs, term: Term):
        self._posterior = posterior
        self._term = term
        self.offset = 0.0

    def d(self, *coordinates: int | str) -> "PosteriorView":
        """Return the posterior of the partial derivative with respect to the coordinates."""
        order = self._posterior.solution.problem.frame.multi_index(*coordinates)
        return PosteriorView(self._posterior, Term(self._term.field, (order,)))

    @property
    def laplacian(self) -> "PosteriorView":
        """Posterior of the Laplacian in space."""
        frame = self._posterior.solution.problem.frame
        return PosteriorView(self._posterior, Term(self._term.field, frame.laplacian))

    def functionals(self, points: PointsOrAverages | None) -> Functionals:
        """Return the values at points, or averages, as functionals."""
        if points is None:
            raise InputError("posterior: expected points for a field, got None.")
        if isinstance(points, Averages):
            nodes = to_array(points.points.reshape(-1, points.points.shape[2]))
            weights = to_array(points.weights.reshape(-1, 1))
            return Functionals(nodes, weights, (self._term,), points.weights.shape[1])
        coordinates = to_float_array("posterior", "points", points)
        check_finite("posterior", "points", coordinates)
        dimension = len(self._posterior.solution.problem.space.coordinates)
        if coordinates.ndim < 1 or coordinates.shape[-1] != dimension:
            raise InputError(
                f"Expected points with {dimension} coordinates on the last axis; "
                f"got shape {coordinates.shape}."
            )
        flat = to_array(coordinates.reshape(-1, dimension))
        return Functionals(flat, jnp.ones((len(flat), 1)), (self._term,))

    def shape(self, points: PointsOrAverages | None) -> tuple[int, ...]:
        """Return the shape of values at the given points."""
        return value_shape(points)

    def mean(self, points: PointsOrAverages) -> Float[Array, "*_"]:
        """Return the posterior mean."""
        return self.offset + self._posterior.mean(self.functionals(points)).reshape(
            self.shape(points)
        )

    def std(self, points: PointsOrAverages) -> Float[Array, "*_"]:
        """Return the posterior standard deviation."""
        return self._posterior.std(self.functionals(points)).reshape(self.shape(points))

    def contraction(self, points: PointsOrAverages) -> Float[Array, "*_"]:
        """Return the fraction of the prior variance that conditions and data remove: near 0 where
        they are uninformative, near 1 where they determine the field."""
        return self._posterior.contraction(self.functionals(points)).reshape(self.shape(points))

    def interval(
        self, points: PointsOrAverages, level: float = 0.95
    ) -> tuple[Float[Array, "*_"], Float[Array, "*_"]]:
        """Return the pointwise central credible interval with the given probability."""
        functionals, levels = self.functionals(points), interval_levels(level)
        quantiles = (self._posterior.quantile(functionals, level) for level in levels)
        low, high = (self.offset + q.reshape(self.shape(points)) for q in quantiles)
        return low, high

    def covariance(self, points: PointsOrAverages) -> Float[Array, "n n"]:
        """Return the posterior covariance between all pairs of points."""
        return self._posterior.covariance(self.functionals(points))

    def sample(
        self, points: PointsOrAverages, key: PRNGKeyArray, count: int
    ) -> Float[Array, " s *_"]:
        """Return joint draws, stacked on the first axis."""
        check_random_key("sample", key)
        check_integer("sample", "count", count, at_least=1)
        draws = self._posterior.sample_functionals([self.functionals(points)], key, count)
        return self.offset + draws.reshape(count, *self.shape(points))


class LawPosteriorView(PosteriorView):
    """Posterior of a law or of one of its derivatives, as a function of its argument."""

    def __init__(self, posterior: MixtureOfGPs, law: Law, order: int = 0):
        problem = posterior.solution.problem
        self._dimension = len(problem.space.coordinates)
        self._terms = nodal_terms(problem.field_index(law.name), self._dimension)
        super().__init__(posterior, self._terms[0])
        self._law, self._order = law, order
        self.offset = 0.0 if order else law.mean

    def d(self, *coordinates: int | str) -> "LawPosteriorView":
        """Return the posterior of the derivative; its order is the number of arguments."""
        order = self._order + self._law.argument.order(*coordinates)
        return LawPosteriorView(self._posterior, self._law, order)

    @property
    def laplacian(self) -> "LawPosteriorView":
        name = self._law.argument.name
        return self.d(name, name)

    def shape(self, points: PointsOrAverages | None) -> tuple[int, ...]:
        return np.shape(np.asarray(points))

    def functionals(self, points: PointsOrAverages | None) -> Functionals:
        """Return the values of the law at the given arguments as functionals."""
        if points is None or isinstance(points, Averages):
            raise InputError(f"Expected arguments of the law {self._law.name!r}; got {points!r}.")
        view = self._posterior.solution[self._law.name]
        assert isinstance(view, LawView)
        flat = view.check_range(points).reshape(-1)
        check_finite("posterior", "arguments", np.asarray(flat))
        basis = self._law.argument.basis(flat, self._order)
        return Functionals(jnp.zeros((len(flat), self._dimension)), basis, self._terms)

    def plot(
        self, *, reference: Callable | None = None, units: Mapping[str, str] | None = None
    ) -> "Figure":
        """Plot the law with its 95% band over the range that the conditions use."""
        view = self._posterior.solution[self._law.name]
        assert isinstance(view, LawView)
        return view.plot(reference=reference, std=self.std, units=units)


class ComplexPosteriorView:
    """Posterior of a complex field or of one of its derivatives.

    **Attributes:**

    - `real`, `imag`: posteriors of the real and the imaginary part.
    """

    def __init__(self, real: PosteriorView, imag: PosteriorView):
        self.real, self.imag = real, imag

    def d(self, *coordinates: int | str) -> "ComplexPosteriorView":
        """Return the posterior of the partial derivative with respect to the coordinates."""
        return ComplexPosteriorView(self.real.d(*coordinates), self.imag.d(*coordinates))

    @property
    def laplacian(self) -> "ComplexPosteriorView":
        """Posterior of the Laplacian in space."""
        return ComplexPosteriorView(self.real.laplacian, self.imag.laplacian)

    def mean(self, points: PointsOrAverages) -> Complex[Array, "*_"]:
        """Return the posterior mean."""
        return self.real.mean(points) + 1j * self.imag.mean(points)

    def std(self, points: PointsOrAverages) -> Float[Array, "*_"]:
        """Return the root of the posterior mean of |u - mean|²."""
        return jnp.hypot(self.real.std(points), self.imag.std(points))

    def sample(
        self, points: PointsOrAverages, key: PRNGKeyArray, count: int
    ) -> Complex[Array, " s *_"]:
        """Return joint draws, stacked on the first axis."""
        batches = [view.functionals(points) for view in (self.real, self.imag)]
        draws = self.real._posterior.sample_functionals(batches, key, count)
        half = len(batches[0])
        return (draws[:, :half] + 1j * draws[:, half:]).reshape(count, *value_shape(points))


def value_shape(points: PointsOrAverages | None) -> tuple[int, ...]:
    """Return the shape of values at points, of averages, or of a parameter (`None`)."""
    if isinstance(points, Averages):
        return (len(points.points),)
    return () if points is None else np.shape(np.asarray(points))[:-1]
