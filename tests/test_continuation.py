"""Branches agree with exact ones, pass folds and reach what `solve` alone does not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import LINE, SQUARE, boundary_value, zero
from scipy.integrate import quad
from scipy.optimize import brentq, minimize_scalar

import kernelpde as kp

MIDDLE = [[0.5]]


def bratu(x, u, lam):
    return u.laplacian + lam * jnp.exp(u.value)


def bratu_1d(kernel=None, equation=bratu, **inputs) -> kp.Problem:
    kernel = kp.Gaussian(0.2) if kernel is None else kernel
    return boundary_value(LINE, equation, kernel, inputs=inputs or {"lam": 1.0})


POINTS = {"equation": 50, "ends": 2}


def bratu_parameter(theta):
    """λ of the solution 2 log(cosh θ / cosh(θ(1 - 2x))), by inserting it: 8 θ² / cosh² θ."""
    return 8 * (theta / np.cosh(theta)) ** 2


FOLD = brentq(lambda t: t * np.tanh(t) - 1, 1, 2)
"""θ at which dλ/dθ = 0."""


@pytest.fixture(scope="module")
def branch() -> kp.Branch:
    return kp.continuation(bratu_1d(), {"lam": (0.0, 10.0)}, POINTS, max_solutions=12)


def test_the_fold_of_bratu_is_exact_to_six_digits(branch):
    (fold,) = branch.folds
    assert abs(fold.value / bratu_parameter(FOLD) - 1) < 1e-7
    assert bratu_parameter(FOLD) == pytest.approx(3.513830719, abs=1e-9)
    middle = 2 * np.log(np.cosh(FOLD))
    np.testing.assert_allclose(fold.solution["u"](MIDDLE), middle, atol=1e-4)
    assert 1e-9 < fold.error < 1e-6


def test_both_branches_of_bratu_are_exact(branch):
    x = np.linspace(0, 1, 21)
    for lam in (1.6, 2.0, 3.0):
        lower, upper = branch.at(lam)
        for solution, bracket in ((lower, (0, FOLD)), (upper, (FOLD, 5))):
            theta = brentq(lambda t, lam=lam: bratu_parameter(t) - lam, *bracket)
            exact = 2 * np.log(np.cosh(theta) / np.cosh(theta * (1 - 2 * x)))
            np.testing.assert_allclose(solution["u"](x[:, None]), exact, atol=1e-6)
            assert solution.converged
            assert solution.error_estimate["u"].rms < 1e-6
    for value, solution in zip(branch.values, branch, strict=True):
        theta = np.arccosh(np.exp(float(solution["u"](MIDDLE)[0]) / 2))
        assert abs(value - bratu_parameter(theta)) < 1e-6
        assert solution.problem.inputs["lam"] == pytest.approx(value)
        assert set(solution.residuals) == {"equation", "ends"}


def test_an_end_behind_a_fold_is_not_reached(branch):
    assert not branch.reached_end
    assert branch.result is kp.RESULTS.max_solutions_reached
    assert len(branch) == 13
    text = repr(branch).splitlines()
    assert text[0] == "Branch: did NOT reach the end (max_solutions_reached), 13 solutions"
    assert "fold at lam = 3.513831" in text[2]
    assert len(text) <= 8
    assert "raise max_solutions" in branch.message


def test_a_branch_is_plotted_with_its_folds(branch):
    figure = branch.plot(lambda s: s["u"](MIDDLE)[0], label="u(0.5)")
    (axis,) = figure.axes
    np.testing.assert_allclose(axis.lines[0].get_xdata(), branch.values)
    assert np.nanmax(axis.lines[1].get_xdata()) == branch.values.max() == branch.folds[0].value
    assert axis.get_title() == "u(0.5)"


def test_solutions_of_a_branch_are_saved_and_start_others(branch, tmp_path):
    solution = branch[-1]
    kp.save_solution(tmp_path / "u.kpde", solution)
    loaded = kp.load_solution(tmp_path / "u.kpde", solution.problem)
    np.testing.assert_array_equal(loaded["u"](MIDDLE), solution["u"](MIDDLE))
    again = kp.solve(solution.problem, POINTS, start=solution)
    np.testing.assert_allclose(again["u"](MIDDLE), solution["u"](MIDDLE), rtol=1e-6)


def test_units_of_the_field_and_of_the_input_do_not_change_the_branch(branch):
    """With u = U/1000 and λ = Λ/4000: the same points, folds and step numbers."""

    def scaled(x, u, big):
        return u.laplacian / 1e3 + big / 4e3 * jnp.exp(u.value / 1e3)

    other = kp.continuation(
        bratu_1d(equation=scaled, big=1.0), {"big": (0.0, 4e4)}, POINTS, max_solutions=12
    )
    np.testing.assert_allclose(other.values / 4e3, branch.values, rtol=1e-5, atol=1e-8)
    assert other.folds[0].value / 4e3 == pytest.approx(branch.folds[0].value, rel=1e-7)


ACTIVATION = 0.24


def ignition(x, u, lam):
    return u.laplacian + lam * jnp.exp(u.value / (1 + ACTIVATION * u.value))


def ignition_parameter(middle: float) -> float:
    """λ of the solution with u(1/2): ∫ du / u' = 1/2, with u'² = 2 λ (F(u(1/2)) - F(u))."""
    nodes, weights = np.polynomial.legendre.leggauss(40)

    def difference(s: float) -> float:
        u = middle * (1 - s * s)
        return quad(lambda v: np.exp(v / (1 + ACTIVATION * v)), u, middle, epsabs=1e-13)[0]

    values = [2 * middle * s / np.sqrt(difference(s)) for s in (nodes + 1) / 2]
    return 2 * float(weights @ values / 2) ** 2


def test_a_branch_passes_two_folds_to_a_solution_that_solve_does_not_find():
    """Ignition in a slab: an S whose upper end `solve` does not reach from u = 0."""
    problem = bratu_1d(kp.Gaussian(0.3), ignition)
    values = []
    branch = kp.continuation(
        problem, {"lam": (0.0, 6.0)}, POINTS, callback=lambda value, _: values.append(value)
    )
    assert branch.reached_end
    assert branch.values[-1] == 6.0
    assert sorted(values) == sorted(branch.values)
    middle = float(branch[-1]["u"](MIDDLE)[0])
    assert ignition_parameter(middle) == pytest.approx(6.0, rel=1e-5)
    for fold, sign in zip(branch.folds, (-1, 1), strict=True):
        middle = float(fold.solution["u"](MIDDLE)[0])
        exact = minimize_scalar(
            lambda m, sign=sign: sign * ignition_parameter(m),
            bounds=(0.8 * middle, 1.2 * middle),
            method="bounded",
        )
        assert fold.value == pytest.approx(sign * exact.fun, rel=1e-6)
    alone = kp.solve(problem, POINTS, inputs={"lam": 6.0}, throw=False)
    assert not alone.converged


def test_several_inputs_change_together_with_two_fields():
    """u'' = -a v, v'' = -b u³, with an array and a number, against `solve` at the end."""

    def equations(x, u, v, a, b):
        return u.laplacian + a[0] * v.value + a[1], v.laplacian + b * u.value**3

    problem = boundary_value(
        LINE,
        equations,
        *(kp.Field(name, kp.Gaussian(0.4)) for name in "uv"),
        edge=lambda x, u, v: (u.value, v.value - 1e-3),
        inputs={"a": np.ones(2), "b": 1.0},
    )
    path = {"a": (np.ones(2), np.array([4.0, 2.0])), "b": (1, 8)}
    points = {"equation": 24, "ends": 2}
    branch = kp.continuation(problem, path, points)
    assert branch.reached_end
    assert (branch.name, branch.values[0], branch.values[-1]) == ("position", 0.0, 1.0)
    np.testing.assert_allclose(branch[-1].problem.inputs["a"], [4.0, 2.0])
    end = kp.solve(problem, points, inputs={"a": np.array([4.0, 2.0]), "b": 8.0})
    (middle,) = branch.at(0.5)
    assert float(middle.problem.inputs["b"]) == 4.5
    for name in "uv":
        np.testing.assert_allclose(branch[-1][name](MIDDLE), end[name](MIDDLE), rtol=1e-6)


def test_complex_fields_on_a_periodic_domain():
    """u'' + c u - |u|² u = f on a circle, with the exact solution s exp(ix) by its source."""
    circle = kp.Box(x=(0, 2 * np.pi), periodic="x")

    def equation(x, h, s):
        exact = s * jnp.exp(1j * x[0])
        return h.d("x", "x") - 2 * h.value - h.value * abs(h.value) ** 2 + (3 + s**2) * exact

    problem = kp.Problem(
        kp.Condition("equation", circle.interior, equation),
        fields=[kp.ComplexField("h", kp.Gaussian(1.0))],
        inputs={"s": 0.0},
    )
    branch = kp.continuation(problem, {"s": (0.5, 2.0)}, {"equation": 24})
    assert branch.reached_end
    x = np.linspace(0, 6, 7)
    for value, solution in zip(branch.values, branch, strict=True):
        np.testing.assert_allclose(solution["h"](x[:, None]), value * np.exp(1j * x), atol=1e-5)


def test_low_rank_solver_and_discretization():
    discretization = kp.discretize(bratu_1d(), POINTS, linear_solver=kp.LowRank())
    branch = kp.continuation(discretization, {"lam": (0.0, 3.0)})
    assert branch.reached_end
    exact = brentq(lambda t: bratu_parameter(t) - 3.0, 0, FOLD)
    np.testing.assert_allclose(branch[-1]["u"](MIDDLE), 2 * np.log(np.cosh(exact)), rtol=1e-5)


MISTAKES = {
    "unknown": ({"lamb": (0, 1)}, {}, r"key of path 'lamb'; expected 'lam'. Did you mean 'lam'"),
    "one value": ({"lam": 2.0}, {}, r"path\['lam'\] must be a pair \(start, end\); got 2.0"),
    "three values": ({"lam": (0, 1, 2)}, {}, r"a pair \(start, end\); got \(0, 1, 2\)"),
    "equal": ({"lam": (1, 1)}, {}, "path must be two different ends"),
    "shape": ({"lam": (0.0, np.ones(2))}, {}, "same structure and shapes"),
    "infinite": ({"lam": (0.0, np.inf)}, {}, "finite numbers"),
    "empty": ({}, {}, "a range such as"),
    "step": ({"lam": (0, 1)}, {"step": 0}, "step must be positive.*got 0"),
    "solutions": ({"lam": (0, 1)}, {"max_solutions": 1}, "max_solutions must be at least 2"),
    "sparse": ({"lam": (0, 1)}, {"linear_solver": kp.Sparse()}, "Dense.., LowRank"),
    "callback": ({"lam": (0, 1)}, {"callback": 3}, "a function of value and solution"),
}


@pytest.fixture
def annotations_off():
    from jaxtyping import config

    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


@pytest.mark.usefixtures("annotations_off")
@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_get_advice(name):
    path, options, message = MISTAKES[name]
    with pytest.raises(kp.InputError, match=message):
        kp.continuation(bratu_1d(), path, POINTS, **options)


def test_traced_paths_are_rejected():
    def end(value):
        return kp.continuation(bratu_1d(), {"lam": (0.0, value)}, POINTS)[-1]["u"](MIDDLE)

    with pytest.raises(kp.InputError, match=r"concrete numbers.*outside of jax.jit"):
        jax.grad(lambda value: end(value).sum())(1.0)


def corner(x):
    """Im(z² log z) at all corners: the solution of -Δu = 1 is singular like it."""
    a, b = jnp.abs(x - jnp.array([[0, 0], [1, 0], [0, 1], [1, 1.0]])).T
    return a * b * jnp.log(a**2 + b**2 + 1e-300) + (a**2 - b**2) * jnp.arctan2(b, a)


@pytest.mark.slow
def test_the_fold_of_bratu_on_a_square():
    kernel = kp.Gaussian(0.3) + kp.kernels.FeatureKernel(corner)
    problem = boundary_value(SQUARE, bratu, kernel, edge=zero, inputs={"lam": 1.0})
    points = {"equation": 600, "boundary": 160}
    branch = kp.continuation(problem, {"lam": (0.0, 10.0)}, points, step=0.1, max_solutions=9)
    (fold,) = branch.folds
    assert abs(fold.value - 6.808124) < 1e-6
    assert abs(fold.value - 6.808124423) < 3 * fold.error
