"""A field of a posterior."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float, PRNGKeyArray

from kernelpde.arrays import Numbers, array
from kernelpde.checking import finite, numbers, random_key, whole_number
from kernelpde.deprecation import earlier_names
from kernelpde.errors import InputError
from kernelpde.functionals import (
    Functionals,
    Term,
    node_terms,
)
from kernelpde.gauss_newton import LawView
from kernelpde.geometry import Averages
from kernelpde.inference._estimate import tails
from kernelpde.problem import Law

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kernelpde.inference._posterior import Posterior


Where = Numbers | Averages
"""Points with their coordinates on the last axis, or averages."""


@earlier_names(deviation="std")
class PosteriorView:
    """A field, or one of its derivatives, under the posterior."""

    def __init__(self, owner: "Posterior", term: Term):
        self._owner = owner
        self._term = term
        self.offset = 0.0

    def d(self, *coordinates: int | str) -> "PosteriorView":
        """The same for a partial derivative along each coordinate given."""
        order = self._owner.solution.problem.frame.order(*coordinates)
        return PosteriorView(self._owner, Term(self._term.field, (order,)))

    @property
    def laplacian(self) -> "PosteriorView":
        """The same for the sum of the second derivatives in space."""
        frame = self._owner.solution.problem.frame
        return PosteriorView(self._owner, Term(self._term.field, frame.laplacian))

    def functionals(self, where: Where | None) -> Functionals:
        """The values at points, or their averages, as functionals."""
        if where is None:
            raise InputError("Expected points for a field; None is for parameters.")
        if isinstance(where, Averages):
            points = array(where.points.reshape(-1, where.points.shape[2]))
            weights = array(where.weights.reshape(-1, 1))
            return Functionals(points, weights, (self._term,), where.weights.shape[1])
        places = numbers("posterior", "points", where)
        finite("posterior", "points", places)
        dimension = len(self._owner.solution.problem.space.coordinates)
        if places.ndim < 1 or places.shape[-1] != dimension:
            raise InputError(
                f"Expected points with {dimension} coordinates on the last axis; "
                f"got shape {places.shape}."
            )
        flat = array(places.reshape(-1, dimension))
        return Functionals(flat, jnp.ones((len(flat), 1)), (self._term,))

    def shape(self, where: Where | None) -> tuple[int, ...]:
        """The shape of values at places."""
        return shape_of(where)

    def mean(self, where: Where) -> Float[Array, "*_"]:
        """What is expected."""
        return self.offset + self._owner.mean(self.functionals(where)).reshape(self.shape(where))

    def std(self, where: Where) -> Float[Array, "*_"]:
        """Standard deviation."""
        return self._owner.std(self.functionals(where)).reshape(self.shape(where))

    def contraction(self, where: Where) -> Float[Array, "*_"]:
        """The part of the prior variance that conditions and data have removed: near 0 where they
        say nothing of the field, near 1 where they determine it."""
        return self._owner.contraction(self.functionals(where)).reshape(self.shape(where))

    def interval(
        self, where: Where, level: float = 0.95
    ) -> tuple[Float[Array, "*_"], Float[Array, "*_"]]:
        """The central credible interval of a given probability, place by place."""
        functionals, (low, high) = self.functionals(where), tails(level)
        ends = (self._owner.quantile(functionals, each) for each in (low, high))
        low, high = (self.offset + end.reshape(self.shape(where)) for end in ends)
        return low, high

    def covariance(self, where: Where) -> Float[Array, "n n"]:
        """Between all pairs of places."""
        return self._owner.covariance(self.functionals(where))

    def samples(self, where: Where, key: PRNGKeyArray, count: int) -> Float[Array, " s *_"]:
        """Joint draws, on the first axis."""
        random_key("samples", key)
        whole_number("samples", "count", count, at_least=1)
        drawn = self._owner.draws([self.functionals(where)], key, count)
        return self.offset + drawn.reshape(count, *self.shape(where))


class LawPosteriorView(PosteriorView):
    """A law, or one of its derivatives, under the posterior: a function of its argument."""

    def __init__(self, owner: "Posterior", law: Law, order: int = 0):
        problem = owner.solution.problem
        self._dimension = len(problem.space.coordinates)
        self._terms = node_terms(problem.field_index(law.name), self._dimension)
        super().__init__(owner, self._terms[0])
        self._law, self._order = law, order
        self.offset = 0.0 if order else law.mean

    def d(self, *coordinates: int | str) -> "LawPosteriorView":
        """The same for its derivative, once for each time the argument is named."""
        order = self._order + self._law.argument.order(*coordinates)
        return LawPosteriorView(self._owner, self._law, order)

    @property
    def laplacian(self) -> "LawPosteriorView":
        name = self._law.argument.name
        return self.d(name, name)

    def shape(self, where: Where | None) -> tuple[int, ...]:
        return np.shape(np.asarray(where))

    def functionals(self, where: Where | None) -> Functionals:
        """The values of the law for some arguments, as functionals."""
        if where is None or isinstance(where, Averages):
            raise InputError(f"Expected arguments of the law {self._law.name!r}; got {where!r}.")
        view = self._owner.solution[self._law.name]
        assert isinstance(view, LawView)
        flat = view.checked(where).reshape(-1)
        finite("posterior", "arguments", np.asarray(flat))
        basis = self._law.argument.basis(flat, self._order)
        return Functionals(jnp.zeros((len(flat), self._dimension)), basis, self._terms)

    def plot(
        self, *, reference: Callable | None = None, units: Mapping[str, str] | None = None
    ) -> "Figure":
        """Draw the law with its 95% band where conditions ask for it."""
        view = self._owner.solution[self._law.name]
        assert isinstance(view, LawView)
        return view.plot(reference=reference, std=self.std, units=units)


@earlier_names(deviation="std")
class ComplexPosteriorView:
    """A complex field, or one of its derivatives, under the posterior.

    `real` and `imag` are its parts, with their own standard deviations and intervals.
    """

    def __init__(self, real: PosteriorView, imag: PosteriorView):
        self.real, self.imag = real, imag

    def d(self, *coordinates: int | str) -> "ComplexPosteriorView":
        """The same for a partial derivative along each coordinate given."""
        return ComplexPosteriorView(self.real.d(*coordinates), self.imag.d(*coordinates))

    @property
    def laplacian(self) -> "ComplexPosteriorView":
        """The same for the sum of the second derivatives in space."""
        return ComplexPosteriorView(self.real.laplacian, self.imag.laplacian)

    def mean(self, where: Where) -> Complex[Array, "*_"]:
        """What is expected."""
        return self.real.mean(where) + 1j * self.imag.mean(where)

    def std(self, where: Where) -> Float[Array, "*_"]:
        """The root of the mean of |u - mean|²: both parts together."""
        return jnp.hypot(self.real.std(where), self.imag.std(where))

    def samples(self, where: Where, key: PRNGKeyArray, count: int) -> Complex[Array, " s *_"]:
        """Joint draws, on the first axis."""
        batches = [view.functionals(where) for view in (self.real, self.imag)]
        drawn = self.real._owner.draws(batches, key, count)
        half = len(batches[0])
        return (drawn[:, :half] + 1j * drawn[:, half:]).reshape(count, *shape_of(where))


def shape_of(where: Where | None) -> tuple[int, ...]:
    if isinstance(where, Averages):
        return (len(where.points),)
    return () if where is None else np.shape(np.asarray(where))[:-1]
