"""What a solve returns."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from kernelpde.arrays import Numbers, array, known
from kernelpde.checking import numbers
from kernelpde.compiling import SMALL, compiled, pointwise, rung, traced
from kernelpde.deprecation import warn_moved
from kernelpde.errors import InputError
from kernelpde.functionals import DEFAULT_MEMORY, Functionals, Kernels, Term, jets
from kernelpde.gauss_newton._between import ALONE, LIMIT
from kernelpde.gauss_newton._error import ErrorEstimate, estimate_error
from kernelpde.gauss_newton._pictures import plot_lengthscales, plot_records, plot_solution
from kernelpde.gauss_newton._result import RESULT, result_of, settled
from kernelpde.gauss_newton._shown import Shown
from kernelpde.gauss_newton._views import ComplexView, FieldView, LawView
from kernelpde.linear_solvers import Local
from kernelpde.precision import require_float64
from kernelpde.problem import Collocation, Problem, kernel_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_evaluate = compiled(jets)


@dataclass(frozen=True)
class Record:
    """One step of the iteration.

    **Attributes:**

    - `step`: its number, from 1.
    - `damping`: μ; 0 is a full Gauss-Newton step.
    - `length`: the fraction of the step that was taken.
    - `accepted`: whether it was kept.
    - `residuals`: root mean square residual per condition where the step leads.
    - `merit`: what the iteration lowers.
    - `change`: relative change of the solution.
    - `nugget`: used by the linear solve.
    - `seconds`: time taken, compilation included.
    """

    step: int
    damping: float
    length: float
    accepted: bool
    residuals: dict[str, float]
    merit: float
    change: float
    nugget: float
    seconds: float


class History(tuple[Record, ...]):
    """The records of a solve, in order."""

    def plot(self) -> "Figure":
        """Residuals per condition and changes over the steps."""
        return plot_records(self)


@dataclass(frozen=True, eq=False)
class Solution(Shown):
    """Fields that meet the conditions of a problem, and how far to trust them.

    **Attributes:**

    - `problem`: what was solved.
    - `blocks`: the points of each condition.
    - `expansion`: the solution as weighted functionals of the kernels; of the sparse solver, what
      functionals see of it.
    - `residuals`: for each condition the root mean square and the maximum of the residual at its
      points.
    - `code`: the number of the result; `result`, `converged` and `reason` say what it means.
    - `steps`: how many factorizations were made.
    - `nugget`: the one used last, relative to the diagonal.
    - `condition`: a bound from below on the condition number of the last undamped matrix, scaled
      to unit diagonal, nugget included.
    - `history`: one record per step.
    - `linear_solver`: which one solved the linear systems, and why.
    - `between`: for each condition the residual between its points, at those of another draw,
      relative to the parts it is made of (1 is no better than no solution at all); `None` where
      there are no other points.

    A tree of arrays for JAX, without `history`: an argument or a result of functions that are
    transformed. Of many at once (`jax.vmap`) every number is an array.

    **Example:**

    ```python
    >>> middle = [[0.5]]
    >>> u, slope = solution["u"](middle), solution["u"].d("x")(middle)
    >>> round(float(u[0]), 3), bool(abs(slope[0]) < 1e-6)
    (0.606, True)
    ```
    """

    problem: Problem
    blocks: tuple[Collocation, ...]
    expansion: tuple[Functionals, ...] | Local
    residuals: dict[str, dict[str, float | Array]]
    code: int | Int[Array, "*_"]
    nugget: float | Float[Array, "*_"]
    condition: float | Float[Array, "*_"]
    history: History
    linear_solver: str = ""
    between: dict[str, float | Array | None] = field(default_factory=dict)

    @property
    def result(self) -> RESULT:
        """Why the iteration stopped."""
        if isinstance(self.code, jax.core.Tracer) or np.ndim(self.code):
            raise InputError(
                "Solution: it is one of many or inside of a transformation, and has no single "
                "result. Use solution.converged, an array of truth values."
            )
        return result_of(int(self.code))

    @property
    def converged(self) -> bool | Bool[Array, "*_"]:
        """Whether the iteration has, and the conditions are met; an array inside of jit and of
        vmap."""
        good = settled(self.code)
        return good if isinstance(good, jax.core.Tracer) or np.ndim(good) else bool(good)

    def checked(self) -> "Solution":
        """The same, but an error where it has not converged: for use inside of `jit`."""
        message = (
            "kernelpde.solve: the iteration did not converge, or its conditions are not met between"
            " points. Use throw=False and look at solution.converged."
        )
        return self.with_weights(
            lambda weights: eqx.error_if(weights, ~jnp.asarray(self.converged), message)
        )

    def with_weights(self, change: Callable[[Any], Any]) -> "Solution":
        """The same with the numbers that it is a combination by changed; points stay known."""

        def weights(expansion: tuple[Functionals, ...] | Local) -> Any:
            if isinstance(expansion, Local):
                return expansion.values
            return tuple(batch.coefficients for batch in expansion)

        new = eqx.tree_at(weights, self.expansion, change(weights(self.expansion)))
        return replace(self, expansion=new)

    @property
    def reason(self) -> str:
        if self.result is RESULT.not_met_between:
            names = ", ".join(
                f"{name!r} ({size:.0%})"
                for name, size in self.between.items()
                if size is not None and not size <= LIMIT
            )
            alone = " Every point stands alone: the lengthscale is far below their distance."
            return f"{self.result.value} Not met: {names}.{alone if self.condition < ALONE else ''}"
        return self.result.value

    @cached_property
    def error_estimate(self) -> ErrorEstimate:
        """How far the fields are from the true ones, `solution.error_estimate["u"].rms`: found by
        three linear solves when it is first asked for."""
        return estimate_error(self)

    @property
    def steps(self) -> int:
        return len(self.history)

    @property
    def kernels(self) -> Kernels:
        return self.problem.kernels

    @property
    def parameters(self) -> dict[str, float | Array]:
        """The unknown numbers that were found."""
        anywhere = jnp.zeros((1, len(self.problem.space.coordinates)))
        order = self.problem.frame.order()
        found = {}
        for p in self.problem.parameters:
            terms = (Term(self.problem.field_index(p.name), (order,)),)
            value = p.value(self.jets(terms, anywhere)[0, 0])
            found[p.name] = value if isinstance(value, jax.core.Tracer) else float(value)
        return found

    @property
    def solver(self) -> str:
        warn_moved("Solution.solver", "Solution.linear_solver")
        return self.linear_solver

    @cached_property
    def asked(self) -> dict[str, Array]:
        """For each law all arguments for which conditions ask for it."""
        return self.problem.asked(self.blocks, self.jets)

    def __getitem__(self, field: str) -> FieldView | ComplexView:
        if field in [p.name for p in self.problem.parameters]:
            raise InputError(f"{field!r} is a number: use parameters[{field!r}].")
        for name, real, imag in self.problem.complex_fields:
            if name == field:
                return ComplexView(FieldView(self, real), FieldView(self, imag))
        for law in self.problem.laws:
            if law.name == field:
                return LawView(self, law)
        return FieldView(self, self.problem.field_index(field))

    def jets(
        self, terms: tuple[Term, ...], points: Numbers, *, memory: int = DEFAULT_MEMORY
    ) -> Float[Array, "... T"]:
        """Jet entries at points, computed in chunks of at most `memory` bytes."""
        require_float64()
        if np.ndim(self.code):
            raise InputError(
                "Solution: this is one of many at once. Evaluate each of them: "
                "jax.vmap(lambda solution: solution['u'](points))(solutions)."
            )
        unknown = isinstance(points, jax.core.Tracer)
        where = jnp.asarray(points, float) if unknown else numbers("Solution", "points", points)
        dimension = len(self.problem.space.coordinates)
        if where.ndim < 1 or where.shape[-1] != dimension:
            raise InputError(
                f"Expected points with {dimension} coordinates on the last axis; "
                f"got shape {where.shape}."
            )
        flat = known(where.reshape(-1, dimension))
        if isinstance(self.expansion, Local):
            entries = self.expansion.jets(self.kernels, flat, terms)
        else:
            entries = _evaluated(self.kernels, flat, terms, self.expansion, memory)
        return entries.reshape(*where.shape[:-1], len(terms))

    def residual(self, condition: str, points: Numbers) -> Float[Array, "N R"]:
        """The residual of a condition at other points, one column per equation.

        Not for conditions that use normals or data of their own points.
        """
        residual = self.problem.residuals[self.problem.condition_index(condition)]
        where = numbers("residual", "points", points)
        if where.ndim != 2:
            raise InputError(f"residual: expected points of shape (n, d); got {where.shape}.")
        number = self.problem.condition_index(condition)
        if residual.uses_normal or self.problem.conditions[number].data:
            raise InputError(
                f"residual: condition {condition!r} uses normals or data of its own points, and "
                "has no residual elsewhere."
            )
        block = Collocation(known(where), None, {}, known(np.zeros(len(where))))
        block = self.problem.with_nodes(number, block)
        entries = self.jets(residual.terms, np.asarray(block.points))
        return _true_residual(residual, block, entries)

    def plot(
        self,
        *fields: str,
        references: Mapping[str, Callable] | None = None,
        deviations: Mapping[str, Callable] | None = None,
        residuals: Sequence[str] | None = None,
        points: bool = True,
        at: Mapping[str, float] | None = None,
        resolution: int | None = None,
        units: Mapping[str, str] | None = None,
    ) -> "Figure":
        """Draw the fields, and beside them how far to trust them.

        On a line as curves, in the plane and in space-time as colors; with more coordinates two
        of them are free and the others are held in the middle of the domain, or as `at` says.

        **Arguments:**

        - `*fields`: which; all if none is named.
        - `references`: for each field with a known solution a function of points `(n, d)`: the
          error is drawn.
        - `deviations`: for each field a function of points that gives its standard deviation;
          `posterior.plot()` knows them.
        - `residuals`: the conditions whose residual is drawn; those on whole domains if left out.
        - `points`: mark the collocation points on the first picture.
        - `at`: coordinates to hold, for example `{"z": 0.5}`.
        - `resolution`: points along each coordinate.
        - `units`: of fields and coordinates, for the labels.

        **Returns:**

        A matplotlib figure: `solution.plot().savefig("u.png")`.
        """
        return plot_solution(
            self,
            fields or None,
            references or {},
            deviations or {},
            residuals,
            points,
            at,
            resolution,
            units or {},
        )

    def plot_lengthscales(
        self, *, at: Mapping[str, float] | None = None, units: Mapping[str, str] | None = None
    ) -> "Figure":
        """Draw the lengthscales of kernels for which they vary from place to place."""
        return plot_lengthscales(self.problem, at, units or {})

    def __repr__(self) -> str:
        rows = self.problem.row_count(self.blocks)
        state = "converged" if self.converged else "NOT converged"
        lines = [f"Solution: {state} after {self.steps} steps. {self.reason}"]
        parameters = self.parameters
        lines += [
            f"  field {f.name}: {kernel_of(f)!r}"
            for f in self.problem.fields
            if f.name not in parameters
        ]
        lines += [f"  parameter {name} = {value:.6g}" for name, value in parameters.items()]
        for block, (name, sizes) in zip(self.blocks, self.residuals.items(), strict=True):
            size = self.between.get(name)
            lines.append(
                f"  {name}: {block.count} {'points' if block.width == 1 else 'averages'}, "
                f"residual {sizes['rms']:.2e} rms, {sizes['max']:.2e} max"
                + ("" if size is None else f"; between them {size:.1e} relative")
            )
        lines.append(
            f"  {rows} x {rows} system, nugget {self.nugget:.1e}, condition {self.condition:.1e}"
        )
        if self.linear_solver:
            lines.append(f"  {self.linear_solver}")
        # Asked for, or not: what is printed must not take long.
        if "error_estimate" in vars(self):
            lines += [f"  {line.strip()}" for line in repr(self.error_estimate).splitlines()]
        return "\n".join(lines)


def _flattened(solution: Solution) -> tuple[tuple[Any, ...], str]:
    children = (
        solution.problem,
        solution.blocks,
        solution.expansion,
        solution.residuals,
        solution.code,
        solution.nugget,
        solution.condition,
        solution.between,
    )
    return children, solution.linear_solver


def _unflattened(linear_solver: str, children: Sequence[Any]) -> Solution:
    problem, blocks, expansion, residuals, code, nugget, condition, between = children
    return Solution(
        problem,
        blocks,
        expansion,
        residuals,
        code,
        nugget,
        condition,
        History(()),
        linear_solver,
        between,
    )


jax.tree_util.register_pytree_node(Solution, _flattened, _unflattened)


def _evaluated(
    kernels: Kernels,
    points: Float[Array, "N d"],
    terms: tuple[Term, ...],
    expansion: tuple[Functionals, ...],
    memory: int,
) -> Float[Array, "N T"]:
    """Jet entries at points, by a program for about as many."""
    count = len(points)
    if traced(kernels, points, expansion) or max(count, *map(len, expansion)) > SMALL:
        return _evaluate(kernels, points, terms, expansion, memory=memory)
    places = array(np.resize(np.asarray(points), (rung(count), points.shape[1])))
    padded = tuple(batch.padded(rung(len(batch))) for batch in expansion)
    return array(np.asarray(_evaluate(kernels, places, terms, padded, memory=memory))[:count])


@pointwise
def _true_residual(residual, block, entries):
    def at(point, data, values):
        return residual(point, None, data, tuple(values))

    found = jax.vmap(at)(block.points, block.data, entries)
    # Points of integrals are added up.
    return found.reshape(block.count, block.width, -1).sum(axis=1)
