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
from kernelpde.deprecation import renamed_arguments, warn_moved
from kernelpde.errors import InputError
from kernelpde.functionals import DEFAULT_MEMORY, Functionals, Kernels, Term, jets
from kernelpde.gauss_newton._between import ALONE, LIMIT
from kernelpde.gauss_newton._error import ErrorEstimate, estimate_error
from kernelpde.gauss_newton._history import History
from kernelpde.gauss_newton._pictures import plot_lengthscales, plot_solution
from kernelpde.gauss_newton._result import RESULTS, result_of, settled
from kernelpde.gauss_newton._shown import Shown
from kernelpde.gauss_newton._views import ComplexView, FieldView, LawView
from kernelpde.linear_solvers import Local
from kernelpde.precision import require_float64
from kernelpde.problem import Collocation, Problem, kernel_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_evaluate = compiled(jets)


@dataclass(frozen=True, eq=False)
class Solution(Shown):
    """Fields that satisfy the conditions of a problem, with diagnostics.

    **Attributes:**

    - `problem`: the problem that was solved.
    - `blocks`: the points of each condition.
    - `expansion`: the solution as a weighted sum of kernel functionals; for the sparse solver, the
      functionals and their values.
    - `residuals`: for each condition the root mean square and the maximum of the residual at its
      points.
    - `code`: the result as an integer; `result`, `converged` and `reason` explain it.
    - `steps`: number of factorizations.
    - `nugget`: the last one used, relative to the diagonal.
    - `condition`: a lower bound on the condition number of the last undamped matrix, scaled to
      unit diagonal, nugget included.
    - `history`: one record per step.
    - `linear_solver`: which linear solver was used, and why.
    - `between`: for each condition the residual at an independent set of points, relative to the
      size of its terms (1 is no better than no solution at all); `None` where no other points can
      be drawn.

    A JAX pytree, without `history`: an argument or a result of transformed functions. Under
    `jax.vmap` every number is an array.

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
    def result(self) -> RESULTS:
        """Why the iteration stopped."""
        if isinstance(self.code, jax.core.Tracer) or np.ndim(self.code):
            raise InputError(
                "Solution: it is one of many or inside of a transformation, and has no single "
                "result. Use solution.converged, an array of truth values."
            )
        return result_of(int(self.code))

    @property
    def converged(self) -> bool | Bool[Array, "*_"]:
        """Whether the iteration converged and the conditions are met; an array inside jit and
        vmap."""
        good = settled(self.code)
        return good if isinstance(good, jax.core.Tracer) or np.ndim(good) else bool(good)

    def checked(self) -> "Solution":
        """The same solution, but an error if it has not converged: for use inside `jit`."""
        message = (
            "kernelpde.solve: the iteration did not converge, or its conditions are not met between"
            " points. Use throw=False and look at solution.converged."
        )
        return self.with_weights(
            lambda weights: eqx.error_if(weights, ~jnp.asarray(self.converged), message)
        )

    def with_weights(self, change: Callable[[Any], Any]) -> "Solution":
        """The same solution with other expansion weights; the points stay concrete."""

        def weights(expansion: tuple[Functionals, ...] | Local) -> Any:
            if isinstance(expansion, Local):
                return expansion.values
            return tuple(batch.coefficients for batch in expansion)

        new = eqx.tree_at(weights, self.expansion, change(weights(self.expansion)))
        return replace(self, expansion=new)

    @property
    def reason(self) -> str:
        if self.result is RESULTS.not_met_between:
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
        """Estimated errors of the fields, `solution.error_estimate["u"].rms`: computed by three
        linear solves on first access."""
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
        """For each law, all arguments at which the conditions evaluate it."""
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

    @renamed_arguments(deviations="std")
    def plot(
        self,
        *fields: str,
        references: Mapping[str, Callable] | None = None,
        std: Mapping[str, Callable] | None = None,
        residuals: Sequence[str] | None = None,
        points: bool = True,
        at: Mapping[str, float] | None = None,
        resolution: int | None = None,
        units: Mapping[str, str] | None = None,
    ) -> "Figure":
        """Plot the fields with their errors, standard deviations and residuals.

        One coordinate as curves, two (space-time included) as color maps; with more, two of
        them vary (of space, if there is time) and the others are fixed in the middle of the domain,
        or by `at`.

        **Arguments:**

        - `*fields`: names of fields to plot; all by default.
        - `references`: for each field with a known solution a function of points `(n, d)`; the
          error is plotted.
        - `std`: for each field a function of points that returns its standard deviation;
          `posterior.plot()` supplies them.
        - `residuals`: conditions whose residual is plotted; by default those on whole domains.
        - `points`: mark the collocation points in the first panel.
        - `at`: coordinates to fix, for example `{"z": 0.5}`.
        - `resolution`: number of points along each coordinate.
        - `units`: of fields and coordinates, for the labels.

        **Returns:**

        A matplotlib figure: `solution.plot().savefig("u.png")`.
        """
        return plot_solution(
            self,
            fields or None,
            references or {},
            std or {},
            residuals,
            points,
            at,
            resolution,
            units or {},
        )

    def plot_lengthscales(
        self, *, at: Mapping[str, float] | None = None, units: Mapping[str, str] | None = None
    ) -> "Figure":
        """Plot the lengthscales that vary over the domain."""
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
            size, between = self.between.get(name), ""
            if size is not None:
                between = f"; between them {size:.1e} relative"
            elif block.count > 1 and self.problem.has_own_points(name) and not block.noise.any():
                between = "; not known between them"
            lines.append(
                f"  {name}: {block.count} {'points' if block.width == 1 else 'averages'}, "
                f"residual {sizes['rms']:.2e} rms, {sizes['max']:.2e} max{between}"
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
