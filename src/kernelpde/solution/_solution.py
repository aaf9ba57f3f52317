"""The result of a solve."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from kernelpde.arrays import Numbers, concrete_array, is_tracer, on_host
from kernelpde.checking import to_float_array
from kernelpde.errors import InputError
from kernelpde.functionals import Functionals, Term
from kernelpde.kernels import AbstractKernel
from kernelpde.linear_solvers import LocalExpansion
from kernelpde.memory import CACHE_BYTES
from kernelpde.plotting import FieldOverlays, plot_fields, plot_lengthscales
from kernelpde.precision import require_float64
from kernelpde.problem import PointSet, Problem, field_names, original_kernel, problem_grid
from kernelpde.results import RESULTS, is_converged
from kernelpde.solution._corner_terms import CornerTerm, corner_terms
from kernelpde.solution._error import ErrorEstimate, estimate_error
from kernelpde.solution._evaluation import evaluate_expansion, evaluate_residual
from kernelpde.solution._exportable import Exportable
from kernelpde.solution._history import SolveHistory
from kernelpde.solution._test_residuals import MAX_TEST_RESIDUAL, UNCOUPLED_CONDITION_NUMBER
from kernelpde.solution._views import FieldSource

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MAX_SUMMARY_UNKNOWNS = 5
"""Number of fields and parameters that the summary lists, so that it has at most eight lines."""


@dataclass(frozen=True, eq=False)
class Solution(FieldSource, Exportable):
    """Fields that satisfy the conditions of a problem, with diagnostics.

    **Attributes:**

    - `problem`: the solved problem.
    - `point_sets`: points of each condition.
    - `expansion`: weighted sum of kernel functionals; for the sparse solver, the functionals and
      their values.
    - `residuals`: root mean square and maximum of the residual of each condition at its points.
    - `result_code`: integer result code; `result`, `converged` and `message` explain it.
    - `num_steps`: number of factorizations.
    - `nugget`: nugget of the last step, relative to the diagonal.
    - `condition_number`: lower bound on the condition number of the last undamped matrix, scaled to
      unit diagonal, nugget included.
    - `history`: one record per step.
    - `linear_solver_message`: name of the linear solver, and the reason for its choice.
    - `test_residuals`: for each condition the residual at an independent set of points, relative to
      the size of its terms (1 is no better than no solution at all); `None` if no other points can
      be drawn.

    A JAX pytree without `history`: an argument or a result of transformed functions. Under
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
    point_sets: tuple[PointSet, ...]
    expansion: tuple[Functionals, ...] | LocalExpansion
    residuals: dict[str, dict[str, float | Array]]
    result_code: int | Int[Array, "*_"]
    nugget: float | Float[Array, "*_"]
    condition_number: float | Float[Array, "*_"]
    history: SolveHistory = field(default_factory=SolveHistory)
    linear_solver_message: str = ""
    test_residuals: dict[str, float | Array | None] = field(default_factory=dict)

    @property
    def result(self) -> RESULTS:
        """Result of the iteration."""
        if is_tracer(self.result_code) or np.ndim(self.result_code):
            raise InputError(
                "Solution: a batched or traced solution has no single result. Use "
                "solution.converged, an array of booleans."
            )
        return RESULTS.from_code(int(self.result_code))

    @property
    def converged(self) -> bool | Bool[Array, "*_"]:
        """True if the iteration converged and the conditions are satisfied at test points.

        An array inside `jit` and `vmap`.
        """
        good = is_converged(self.result_code)
        return good if is_tracer(good) or np.ndim(good) else bool(good)

    def error_if_not_converged(self) -> "Solution":
        """Return the solution with a runtime error if it has not converged, for use in `jit`."""
        message = (
            "kernelpde.solve: the iteration did not converge, or the residual at test points is "
            "too large. Use throw=False and check solution.converged."
        )
        return self.with_weights(
            lambda weights: eqx.error_if(weights, ~jnp.asarray(self.converged), message)
        )

    @property
    def local_expansion(self) -> LocalExpansion | None:
        """Expansion of a solution of the sparse solver, or None."""
        return self.expansion if isinstance(self.expansion, LocalExpansion) else None

    @property
    def batches(self) -> tuple[Functionals, ...]:
        """Functionals of the expansion."""
        expansion = self.expansion
        return (expansion.functionals,) if isinstance(expansion, LocalExpansion) else expansion

    def with_weights(self, change: Callable) -> "Solution":
        """Return the solution with changed expansion weights. The points stay concrete."""
        local = self.local_expansion
        if local is not None:
            return replace(self, expansion=replace(local, values=change(local.values)))
        weights = tuple(batch.coefficients for batch in self.batches)
        new = eqx.tree_at(
            lambda batches: tuple(b.coefficients for b in batches), self.batches, change(weights)
        )
        return replace(self, expansion=new)

    @property
    def message(self) -> str:
        """Explanation of the result, with advice."""
        if self.result is not RESULTS.test_residual_too_large:
            return self.result.value
        names = ", ".join(
            f"{name!r} ({size:.0%})"
            for name, size in self.test_residuals.items()
            if size is not None and not size <= MAX_TEST_RESIDUAL
        )
        message = f"{self.result.value} Relative residuals: {names}."
        if self.condition_number < UNCOUPLED_CONDITION_NUMBER:
            message += " The lengthscale is far below the distance of the points."
        return message

    @cached_property
    def error_estimate(self) -> ErrorEstimate["Solution"]:
        """Estimated errors of the fields, for example `solution.error_estimate["u"].rms`.

        Computed by three linear solves on first access.
        """
        return estimate_error(self)

    @property
    def num_steps(self) -> int:
        return len(self.history)

    @property
    def kernels(self) -> tuple[AbstractKernel, ...]:
        """Covariance functions of the fields."""
        return self.problem.prior.kernels

    @property
    def parameters(self) -> dict[str, float | Array]:
        """Values of the unknown parameters, by name."""
        anywhere = np.zeros((1, len(self.problem.space.coordinates)))
        order = self.problem.frame.multi_index()
        values = {}
        for parameter in self.problem.parameters:
            terms = (Term(self.problem.field_index(parameter.name), (order,)),)
            value = parameter.value(on_host(lambda v: v[0, 0], self.evaluate_jets(terms, anywhere)))
            values[parameter.name] = value if is_tracer(value) else float(value)
        return values

    @cached_property
    def corner_terms(self) -> tuple[CornerTerm, ...]:
        """Singular terms at corners, with coefficients such as stress intensity factors.

        Solutions with `accuracy=` have them, as do solutions of `add_corner_functions(problem)`.
        Those of the sparse solver have none.
        """
        return () if self.local_expansion is not None else corner_terms(self.problem, self.batches)

    @cached_property
    def law_arguments(self) -> dict[str, Array]:
        """All arguments at which the conditions evaluate each law."""
        return self.problem.law_arguments(self.point_sets, self.evaluate_jets)

    def evaluate_jets(
        self, terms: tuple[Term, ...], points: Numbers, *, memory: int = CACHE_BYTES
    ) -> Float[Array, "... T"]:
        """Evaluate jet entries at points, in chunks of at most `memory` bytes."""
        require_float64()
        if np.ndim(self.result_code):
            raise InputError(
                "Solution: this solution is batched. Evaluate it by "
                "jax.vmap(lambda solution: solution['u'](points))(solutions)."
            )
        if is_tracer(points):
            array = jnp.asarray(points, float)
        else:
            array = to_float_array("Solution", "points", points)
        dimension = len(self.problem.space.coordinates)
        if array.ndim < 1 or array.shape[-1] != dimension:
            raise InputError(
                f"Expected points with {dimension} coordinates on the last axis; "
                f"got shape {array.shape}."
            )
        flat = concrete_array(array.reshape(-1, dimension))
        if self.local_expansion is not None:
            values = self.local_expansion.jets(self.problem.prior, flat, terms)
        else:
            values = evaluate_expansion(self.problem.prior, flat, terms, self.batches, memory)
        return on_host(lambda v: v.reshape(*array.shape[:-1], len(terms)), values)

    def residual(self, condition: str, points: Numbers) -> Float[Array, "N R"]:
        """Return the residual of a condition at other points, one column per equation.

        Conditions that use normals or data are rejected, since these exist only at their points.
        """
        index = self.problem.condition_index(condition)
        residual = self.problem.residuals[index]
        array = to_float_array("residual", "points", points)
        if array.ndim != 2:
            raise InputError(f"residual: expected points of shape (n, d); got {array.shape}.")
        if residual.uses_normal or self.problem.conditions[index].data:
            raise InputError(
                f"residual: condition {condition!r} uses normals or data, which exist only at its "
                "points. Use solution.residuals."
            )
        noise = concrete_array(np.zeros(len(array)))
        point_set = PointSet(concrete_array(array), None, {}, noise)
        point_set = self.problem.append_integral_nodes(index, point_set)
        jet_values = self.evaluate_jets(residual.terms, np.asarray(point_set.points))
        values = evaluate_residual(residual, point_set, jet_values)
        shape = (point_set.rows_per_equation, point_set.num_nodes, -1)
        return on_host(lambda v: v.reshape(shape).sum(axis=1), values)

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
        names = fields or field_names(self.problem)
        # An estimate costs three solves, so a plot shows it only if it exists.
        has_estimate = "error_estimate" in vars(self)
        errors = {name: self[name].error for name in names} if has_estimate else {}
        grid = problem_grid(self.problem, resolution, at, free=2)
        point_sets = self.problem.by_condition(self.point_sets) if points else {}
        markers = {name: np.asarray(points.points) for name, points in point_sets.items()}
        overlays = FieldOverlays(references or {}, std or {}, errors)
        return plot_fields(self, names, grid, overlays, residuals, markers, units or {})

    def plot_lengthscales(
        self, *, at: Mapping[str, float] | None = None, units: Mapping[str, str] | None = None
    ) -> "Figure":
        """Plot the lengthscales that vary over the domain."""
        return plot_lengthscales(self.problem, at, units or {})

    def __repr__(self) -> str:
        # Printing must be fast, so it shows the error estimate only if it exists.
        estimate = vars(self).get("error_estimate")
        verdict = "converged" if self.converged else f"NOT converged ({self.result.name})"
        if estimate is None:
            error = "error not estimated (solution.error_estimate)"
        else:
            error = f"estimated error {estimate.largest:.1e}"
        lines = [f"Solution: {verdict}, {error}"]
        lines += [] if self.converged else [f"  {self.message}"]
        lines += [f"  {estimate.message}"] if estimate is not None and estimate.message else []
        unknowns = list(self._describe_unknowns(estimate or {}))
        num_shown = min(_MAX_SUMMARY_UNKNOWNS, 7 - len(lines))
        if len(unknowns) > num_shown:
            num_hidden = len(unknowns) - num_shown + 1
            unknowns = [*unknowns[: num_shown - 1], f"and {num_hidden} more unknowns"]
        rows = self.problem.at_points(self.point_sets).num_rows
        footer = f"{self.num_steps} steps, {rows} rows; residuals: print(solution.report())"
        return "\n".join([*lines, *(f"  {line}" for line in [*unknowns, footer])])

    def _describe_unknowns(self, errors: Mapping[str, Any]) -> Iterator[str]:
        parameters = self.parameters
        for unknown in self.problem.fields:
            if unknown.name not in parameters:
                kernel = f"field {unknown.name}: {original_kernel(unknown)!r}"
                error = errors.get(unknown.name)
                yield kernel if error is None else f"{kernel}, error {error.rms:.1e}"
        for name, value in parameters.items():
            yield f"parameter {name} = {value:.6g}"

    def report(self) -> str:
        """Describe the solution in full: unknowns, linear system, residuals, estimated errors.

        `print(solution)` shows a summary. The report contains the error estimate only if
        `error_estimate` was accessed before.
        """
        verdict = "converged" if self.converged else "NOT converged"
        rows = self.problem.at_points(self.point_sets).num_rows
        lines = [
            f"Solution: {verdict} after {self.num_steps} Gauss-Newton steps ({self.result.name})",
            f"  {self.message}",
            *(f"  {line}" for line in self._describe_unknowns({})),
            f"  linear system: {rows} x {rows}, nugget {self.nugget:.1e}, condition number "
            f"{self.condition_number:.1e}",
        ]
        if self.linear_solver_message:
            lines.append(f"  linear solver: {self.linear_solver_message}")
        width = max(len("residual"), *map(len, self.residuals)) + 2
        lines.append(f"  {'residual':{width}} {'points':>7} {'rms':>9} {'max':>9}  at test points")
        row_counts = self.problem.row_counts(self.point_sets)
        for name, norms in self.residuals.items():
            relative = self.test_residuals.get(name)
            test_residual = "not available" if relative is None else f"{relative:.1e} relative"
            lines.append(
                f"    {name:{width - 2}} {row_counts[name]:7d} {norms['rms']:9.2e} "
                f"{norms['max']:9.2e}  {test_residual}"
            )
        if self.corner_terms:
            lines += ["  singular terms:", *(f"    {term}" for term in self.corner_terms)]
        estimate = vars(self).get("error_estimate")
        if estimate is not None:
            lines += [f"  {line}" for line in repr(estimate).splitlines()]
        return "\n".join(lines)


jax.tree_util.register_dataclass(
    Solution,
    data_fields=[
        "problem",
        "point_sets",
        "expansion",
        "residuals",
        "result_code",
        "nugget",
        "condition_number",
        "test_residuals",
    ],
    meta_fields=["linear_solver_message"],
    drop_fields=["history"],
)
