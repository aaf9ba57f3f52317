"""Darcy flow and a source, compared with finite elements and adjoints on the same data.

    python -m benchmarks adjoint [--seeds 0:30]

The problems are `darcy` and `source` of `calibration` with drawn truths. The other side is what
is usual for such problems: linear triangles (scikit-fem, to be installed apart), the unknown field
by its values at the nodes with a Gaussian process as its prior, derivatives by one adjoint solve
per datum, the mode by Gauss-Newton, and Laplace's approximation there. Its hyperparameters are
those that were learned here (`same prior`), or those of largest evidence by Nelder and Mead's
method. CPU seconds are those of a second problem of the same kind, everything compiled; lines are
those of the functions below that a user would have to write.
"""

# pyright: reportMissingImports=false, reportArgumentType=false, reportAttributeAccessIssue=false

import inspect
import time
import warnings
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize
from scipy.sparse.linalg import splu
from skfem import Basis, ElementTriP1, MeshTri, asm, enforce
from skfem.assembly import BilinearForm, LinearForm
from skfem.helpers import dot, grad

import kernelpde as kp
from benchmarks._report import parser, record, seeds
from benchmarks.inverse._families import FAMILIES, PLACES, SQUARE, seen, zero

CELLS = 40
"""Of the mesh along each side; with twice as many u changes by a tenth of the noise, a quarter
at most."""


# What a user writes with this library.


def ours_darcy(where, data, noise):
    def equation(x, u, a):
        flow = u.laplacian + a.d("x") * u.d("x") + a.d("y") * u.d("y")
        return -jnp.exp(a.value) * flow - 1.0

    problem = kp.Problem(
        kp.Condition("equation", SQUARE.interior, equation),
        kp.Condition("boundary", SQUARE.boundary, zero),
        kp.Condition("data", where, seen, noise=noise, data={"y": data}),
        fields=[kp.Field("u", 1.0 * kp.Gaussian(0.2)), kp.Field("a", 1.0 * kp.Gaussian(0.2))],
    )
    learned = kp.learn(problem, {"equation": 200, "boundary": 60}, throw=False)
    return learned, "a"


def ours_source(where, data, noise):
    problem = kp.Problem(
        kp.Condition("equation", SQUARE.interior, lambda x, u, f: -u.laplacian - f.value),
        kp.Condition("boundary", SQUARE.boundary, zero),
        kp.Condition("data", where, seen, noise=noise, data={"y": data}),
        fields=[kp.Field("u", 1.0 * kp.Gaussian(0.2)), kp.Field("f", 1.0 * kp.Gaussian(0.2))],
    )
    learned = kp.learn(problem, {"equation": 200, "boundary": 60}, throw=False)
    return learned, "f"


# What a user writes with finite elements.


def darcy_map(basis, where):
    """u at the places of data as a function of the nodal values of a, and its Jacobian."""
    probe = basis.probes(where.T)
    load = asm(LinearForm(lambda v, w: v), basis)
    fixed = basis.get_dofs()
    stiffness = BilinearForm(lambda u, v, w: np.exp(w.a) * dot(grad(u), grad(v)))
    sensitivity = LinearForm(lambda v, w: -np.exp(w.a) * v * dot(grad(w.u), grad(w.adjoint)))

    def forward(a):
        at = basis.interpolate(a)
        matrix, rhs = enforce(asm(stiffness, basis, a=at), load, D=fixed)
        factor = splu(matrix.tocsc())
        u = factor.solve(rhs)
        inside = np.ones(basis.N)
        inside[fixed] = 0.0
        adjoints = factor.solve((probe.toarray() * inside).T)
        state = basis.interpolate(u)
        jacobian = [
            asm(sensitivity, basis, a=at, u=state, adjoint=basis.interpolate(adjoint))
            for adjoint in adjoints.T
        ]
        return probe @ u, np.array(jacobian)

    return forward


def source_map(basis, where):
    """u at the places of data as a function of the nodal values of f, and its Jacobian."""
    probe = basis.probes(where.T)
    fixed = basis.get_dofs()
    stiffness = asm(BilinearForm(lambda u, v, w: dot(grad(u), grad(v))), basis)
    mass = asm(BilinearForm(lambda u, v, w: u * v), basis)
    inside = np.ones(basis.N)
    inside[fixed] = 0.0
    factor = splu(enforce(stiffness, D=fixed).tocsc())
    adjoints = factor.solve((probe.toarray() * inside).T) * inside[:, None]
    jacobian = (mass @ adjoints).T

    def forward(f):
        return jacobian @ f, jacobian

    return forward


def covariance(one, other, length, variance):
    squares = np.sum((one[:, None] - other[None]) ** 2, axis=2)
    return variance * np.exp(-squares / (2 * length**2))


def mode(forward, prior, data, noise, weights, steps=30):
    """The most likely values prior @ weights by Gauss-Newton, and the Jacobian there."""

    def objective(weights):
        seen, jacobian = forward(prior @ weights)
        misfit = np.sum((data - seen) ** 2) / noise**2
        return 0.5 * (misfit + weights @ prior @ weights), seen, jacobian

    value, seen, jacobian = objective(weights)
    for _ in range(steps):
        gram = jacobian @ prior @ jacobian.T + noise**2 * np.eye(len(data))
        full = jacobian.T @ np.linalg.solve(gram, data - seen + jacobian @ (prior @ weights))
        length = 1.0
        while length > 1e-3:
            tried = weights + length * (full - weights)
            new = objective(tried)
            if new[0] < value:
                break
            length /= 2
        else:
            break
        gain = value - new[0]
        weights, (value, seen, jacobian) = tried, new
        if gain < 1e-6 * (1 + abs(value)):
            break
    return weights, value, jacobian


def finite_elements(make, where, data, noise, places, hyperparameters=None):
    """Mean and standard deviation of the unknown field, and its hyperparameters."""
    basis = Basis(MeshTri.init_tensor(*2 * [np.linspace(0, 1, CELLS + 1)]), ElementTriP1())
    nodes, forward = basis.doflocs.T, make(Basis(basis.mesh, ElementTriP1()), where)
    begin = [np.zeros(basis.N)]

    def evidence(logs):
        prior = covariance(nodes, nodes, *np.exp(logs))
        weights, value, jacobian = mode(forward, prior, data, noise, begin[0])
        begin[0] = weights
        gram = np.eye(len(data)) + jacobian @ prior @ jacobian.T / noise**2
        return value + 0.5 * np.linalg.slogdet(gram)[1]

    if hyperparameters is None:
        logs = minimize(
            evidence,
            np.log([0.2, 1.0]),
            method="Nelder-Mead",
            options={"fatol": 0.05, "xatol": 0.02},
        ).x
        hyperparameters = np.exp(logs)
    prior = covariance(nodes, nodes, *hyperparameters)
    weights, _, jacobian = mode(forward, prior, data, noise, begin[0])
    seen_by = covariance(places, nodes, *hyperparameters)
    gram = jacobian @ prior @ jacobian.T + noise**2 * np.eye(len(data))
    cross = seen_by @ jacobian.T
    variance = hyperparameters[1] - np.sum(cross * np.linalg.solve(gram, cross.T).T, axis=1)
    return seen_by @ weights, np.sqrt(np.maximum(variance, 0)), hyperparameters


OURS = {"darcy": ours_darcy, "source": ours_source}
MAPS = {"darcy": darcy_map, "source": source_map}


def lines(*functions: Any) -> int:
    """How many lines of code, without empty ones and words."""
    count = 0
    for function in functions:
        text = inspect.getsource(function)
        words = [line.strip() for line in text.splitlines()]
        count += sum(bool(w) and not w.startswith(("#", '"""')) for w in words)
    return count


def scored(truth: np.ndarray, mean: np.ndarray, low: np.ndarray, high: np.ndarray):
    return {
        "relative error": np.linalg.norm(mean - truth) / np.linalg.norm(truth),
        "inside 95%": np.mean((low <= truth) & (truth <= high)),
    }


def by_elements(family: str, where, data, noise, truth, hyperparameters=None) -> dict[str, Any]:
    begin = time.process_time()
    mean, deviation, _ = finite_elements(MAPS[family], where, data, noise, PLACES, hyperparameters)
    used = time.process_time() - begin
    ends = mean - 1.96 * deviation, mean + 1.96 * deviation
    return scored(truth, mean, *ends) | {
        "CPU seconds": used,
        "lines": lines(MAPS[family], covariance, mode, finite_elements),
    }


def compare(family: str, seed: int) -> None:
    """Record one problem, solved in three ways."""
    rng = np.random.default_rng([seed, sum(map(ord, family)), 21])
    case = FAMILIES[family](rng, True)
    condition = case.problem.conditions[case.problem.condition_index("data")]
    where, data = np.asarray(condition.region.points), np.asarray(condition.data["y"])
    noise = float(np.mean(condition.noise_std))
    figures: dict[str, dict[str, Any]] = {"ours": {}, "elements, same prior": {}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begin = time.process_time()
        learned, name = OURS[family](where, data, noise)
        converged = learned.solution.converged
        if converged:
            view = kp.posterior(learned)[name]
            low, high = (np.asarray(end) for end in view.interval(PLACES, 0.95))
            mean = np.asarray(view.mean(PLACES))
            seconds = time.process_time() - begin
            figures["ours"] = scored(case.truth, mean, low, high) | {
                "CPU seconds": seconds,
                "lines": lines(OURS[family]),
            }
            learned_prior = learned.problem.hyperparameters[name]
            prior = (
                float(learned_prior["kernel.lengthscale"]),
                float(learned_prior["variance"]),
            )
            figures["elements, same prior"] = by_elements(
                family, where, data, noise, case.truth, prior
            )
        figures["elements, largest evidence"] = by_elements(family, where, data, noise, case.truth)
    for method, scores in figures.items():
        line = {"case": f"{family}: {method}", "seed": seed, "family": family, "method": method}
        record("adjoint", line | {"converged": converged} | scores)


def main(arguments: list[str]) -> None:
    command = parser(__doc__)
    command.add_argument("--seeds", type=seeds, default="0:30")
    options = command.parse_args(arguments)
    for family in OURS:
        for seed in options.seeds:
            compare(family, seed)
