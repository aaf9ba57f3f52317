"""Estimated errors follow true ones, and solutions reach the accuracy asked for."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import LINE, SQUARE, boundary_value

import kernelpde as kp
from kernelpde.solution import SolveRecord, estimate_error

PLACES = np.random.default_rng(3).random((300, 2))


def wave(x):
    return jnp.sin(5 * x[0]) * jnp.cos(4 * x[1]) + 0.3 * x[0]


def cubic(kernel, exact=wave, boundary=None, interior=None) -> kp.Problem:
    """-Δu + u³ = f with a known solution."""

    def equation(x, u):
        source = -jnp.trace(jax.hessian(exact)(x)) + exact(x) ** 3
        return -u.laplacian + u.value**3 - source

    return kp.Problem(
        kp.Condition("equation", interior or SQUARE.interior, equation),
        kp.Condition("boundary", boundary or SQUARE.boundary, lambda x, u: u.value - exact(x)),
        fields=[kp.Field("u", kernel)],
    )


def true_error(solution, exact=wave, places=PLACES) -> float:
    known = np.asarray(jax.vmap(exact)(places))
    found = np.asarray(solution["u"](places))
    return float(np.linalg.norm(found - known) / np.linalg.norm(known))


def ratio(solution, exact=wave, places=PLACES) -> float:
    return solution.error_estimate["u"].rms / true_error(solution, exact, places)


@pytest.mark.parametrize("lengthscale", [0.1, 0.2, 0.4, 0.8])
@pytest.mark.parametrize("count", [60, 240])
def test_effectivity(lengthscale, count):
    """True errors from 1e-1 to 1e-8, by too few points or by a kernel that does not suit."""
    points = {"equation": count, "boundary": count // 3}
    solution = kp.solve(cubic(kp.Gaussian(lengthscale)), points, seed=4, throw=False)
    # A solution that is marked as bad may be worse than it looks.
    assert (0.5 if solution.converged else 0.25) < ratio(solution) < 10


KERNELS = {
    "matern": kp.Matern(3.5, 0.5),
    "scaled": 3.0 * kp.Gaussian([0.3, 0.4]),
    "sum": kp.Gaussian(0.3) + kp.Matern(4.5, 1.0),
    "frozen": kp.freeze(kp.Gaussian(0.3)),
    "gibbs": kp.Gibbs(kp.BumpLengthscale(0.3, [(0.0, 1.0), (0.0, 1.0)], (3, 3))),
}


@pytest.mark.parametrize(
    "kernel", [pytest.param(k, marks=pytest.mark.slow) if k == "gibbs" else k for k in KERNELS]
)
def test_effectivity_of_other_kernels(kernel):
    points = {"equation": 200, "boundary": 70}
    solution = kp.solve(cubic(KERNELS[kernel]), points, throw=False)
    assert 0.5 < ratio(solution) < 10


@pytest.mark.parametrize(
    "linear_solver", [kp.LowRank(1e-10), kp.Sparse(1e-8, radius=4.0)], ids=["low rank", "sparse"]
)
def test_effectivity_with_other_solvers(linear_solver):
    kernel = kp.Gaussian(0.4) if isinstance(linear_solver, kp.LowRank) else kp.Matern(3.5, 0.5)
    solution = kp.solve(
        cubic(kernel),
        {"equation": 300, "boundary": 100},
        linear_solver=linear_solver,
        throw=False,
    )
    assert 0.5 < ratio(solution) < 10


def test_complex_periodic_fields():
    """-u'' + u = f on a circle, with a complex solution."""
    circle = kp.Box(x=(0.0, 2 * np.pi), periodic="x")

    def exact(x):
        return jnp.exp(jnp.sin(2 * x[0])) + 1j * jnp.cos(3 * x[0])

    def second(part):
        return lambda x: jax.grad(jax.grad(lambda s: part(exact(jnp.array([s])))))(x[0])

    def equation(x, u):
        source = -second(jnp.real)(x) - 1j * second(jnp.imag)(x) + exact(x)
        return -u.laplacian + u.value - source

    problem = kp.Problem(
        kp.Condition("equation", circle.interior, equation),
        fields=[kp.ComplexField("u", kp.Gaussian(0.6))],
    )
    solution = kp.solve(problem, {"equation": 30}, throw=False)
    places = np.linspace(0, 2 * np.pi, 200)[:, None]
    known = np.asarray(jax.vmap(exact)(places))
    error = np.abs(np.asarray(solution["u"](places)) - known)
    true = np.sqrt(np.mean(error**2) / np.mean(np.abs(known) ** 2))
    assert 0.5 < solution.error_estimate["u"].rms / true < 10
    assert solution["u"].error(places).shape == (200,)


def test_where_and_what():
    """The estimate as a function of place, and of quantities that are derived."""
    solution = kp.solve(cubic(kp.Gaussian(0.2)), {"equation": 150, "boundary": 50}, throw=False)
    error = np.abs(np.asarray(solution["u"](PLACES)) - np.asarray(jax.vmap(wave)(PLACES)))
    estimated = solution["u"].error(PLACES)
    assert np.corrcoef(np.log(error), np.log(estimated))[0, 1] > 0.6
    assert 0.3 < solution.error_estimate["u"].max * _size() / error.max() < 10

    def flux(s):
        ends = np.stack([np.ones(50), np.linspace(0, 1, 50)], axis=1)
        return s["u"].d("x")(ends).mean()

    height = np.linspace(0, 1, 50)
    exact = np.mean(5 * np.cos(5) * np.cos(4 * height) + 0.3)
    found = float(solution.error_estimate.of_quantity(flux))
    assert 0.1 < found / abs(float(flux(solution)) - exact) < 100
    assert "u: " in str(solution.error_estimate)
    assert f"estimated error {solution.error_estimate.largest:.1e}" in str(solution)
    assert "Estimated errors" in solution.report()


def _size() -> float:
    return float(np.sqrt(np.mean(np.asarray(jax.vmap(wave)(PLACES)) ** 2)))


def test_errors_at_a_point_do_not_depend_on_others():
    """Which change of lengthscales is the smaller one is a question for the whole domain."""
    solution = kp.solve(cubic(kp.Gaussian(0.25)), {"equation": 100, "boundary": 60})
    where = np.array([[0.4, 0.7], [0.5, 0.5], [0.9, 0.1]])
    alone = np.stack([solution["u"].error(point) for point in where])
    far = np.concatenate([where, [[1.5, 1.5], [-3.0, 0.2]]])
    np.testing.assert_allclose(solution["u"].error(where), alone, rtol=1e-3)
    np.testing.assert_allclose(solution["u"].error(far)[:3], alone, rtol=1e-3)
    estimate = solution.error_estimate
    mean = estimate.of_quantity(lambda s: s["u"](where).mean())
    both = estimate.of_quantity(lambda s: np.array([s["u"](where).mean(), 1e6 * s["u"](far[-1])]))
    assert both[0] == pytest.approx(float(mean), rel=1e-3)


def test_own_points_are_halved():
    rng = np.random.default_rng(5)
    edge = SQUARE.boundary.sample(60, rng, "uniform").points
    inside = kp.PointCloud(rng.random((180, 2)))
    problem = cubic(kp.Gaussian(0.3), boundary=kp.PointCloud(edge), interior=inside)
    solution = kp.solve(problem, throw=False)
    assert 0.5 < ratio(solution) < 1000
    assert solution.error_estimate.resampled.point_sets[0].rows_per_equation == 90


def test_what_cannot_be_judged_is_said(tmp_path):
    points = {"equation": 60, "boundary": 20}
    problem = cubic(kp.Polynomial(6, 1.0))
    estimate = estimate_error(kp.solve(problem, points, throw=False))
    assert "no lengthscales" in str(estimate)
    assert "not converged" in str(estimate)
    good = kp.solve(cubic(kp.Gaussian(0.4)), points)
    kp.save_solution(tmp_path / "u.kpde", good)
    again = kp.load_solution(tmp_path / "u.kpde", cubic(kp.Gaussian(0.4)))
    np.testing.assert_allclose(
        again.error_estimate["u"].rms, good.error_estimate["u"].rms, rtol=1e-6
    )
    with pytest.raises(kp.InputError, match="outside of transformations"):
        jax.jit(lambda s: s.error_estimate.largest)(good)


@pytest.mark.parametrize("accuracy", [1e-2, 1e-4, 1e-6])
def test_an_accuracy_is_reached(accuracy):
    solution = kp.solve(cubic(kp.Gaussian(1.0)), accuracy=accuracy)
    assert solution.converged
    assert solution.error_estimate["u"].rms <= accuracy
    assert true_error(solution) <= 2 * accuracy
    assert solution.problem.at_points(solution.point_sets).num_rows < 700


def test_an_accuracy_of_two_fields_on_a_line():
    """Both fields are as accurate as asked for, though one is a thousand times smaller."""

    def small(x):
        return 1e-3 * jnp.cos(7 * x[0])

    def large(x):
        return jnp.sin(3 * x[0])

    def equation(x, u, v):
        first = -u.laplacian + 1e3 * v.value - 9 * large(x) - 1e3 * small(x)
        return first, -v.laplacian + v.value - 50 * small(x)

    problem = boundary_value(
        LINE,
        equation,
        kp.Gaussian(0.5),
        kp.Field("v", kp.Gaussian(0.5)),
        edge=lambda x, u, v: (u.value - large(x), v.value - small(x)),
    )
    solution = kp.solve(problem, accuracy=1e-5)
    places = np.linspace(0, 1, 101)[:, None]
    for name, exact in (("u", large), ("v", small)):
        known = np.asarray(jax.vmap(exact)(places))
        error = np.asarray(solution[name](places)) - known
        assert np.sqrt(np.mean(error**2) / np.mean(known**2)) < 2e-5


def test_an_accuracy_with_kernels_that_are_held():
    solution = kp.solve(cubic(kp.freeze(kp.Gaussian(0.4))), accuracy=1e-4)
    assert true_error(solution) <= 2e-4
    assert float(kp.hyperparameters(solution.kernels[0].first.kernel)["lengthscale"]) == 0.4


def test_an_accuracy_with_inputs_on_a_circle_and_of_own_points():
    """u'' + u' = k cos x with u(0) = 0, whose solution is known; k is an input."""
    circle = kp.Box(x=(0.0, 2 * np.pi), periodic="x")
    problem = kp.Problem(
        kp.Condition(
            "equation",
            circle.interior,
            lambda x, u, k: u.laplacian + u.d("x") - k * jnp.cos(x[0]),
        ),
        kp.Condition("beginning", kp.PointCloud([[0.0]]), lambda x, u: u.value),
        fields=[kp.Field("u", kp.Gaussian(1.0))],
        inputs={"k": 1.0},
    )
    solution = kp.solve(problem, accuracy=1e-6, inputs={"k": 3.0})
    places = np.linspace(0, 6, 50)[:, None]
    exact = 1.5 * (1 - np.cos(places[:, 0]) + np.sin(places[:, 0]))
    error = np.asarray(solution["u"](places)) - exact
    assert np.sqrt(np.mean(error**2) / np.mean(exact**2)) < 2e-6


def test_points_that_are_all_given_make_one_level():
    rng = np.random.default_rng(5)
    edge = kp.PointCloud(SQUARE.boundary.sample(60, rng, "uniform").points)
    inside = kp.PointCloud(rng.random((150, 2)))
    problem = cubic(kp.Gaussian(0.3), boundary=edge, interior=inside)
    assert kp.solve(problem, accuracy=1e-1).converged
    rest = kp.solve(problem, accuracy=1e-12, throw=False)
    assert "all conditions have user-supplied points" in str(rest)
    assert rest.result is kp.RESULTS.accuracy_not_reached


def test_what_is_not_reached_is_said():
    def corner(x):
        return jnp.sqrt(x[0] ** 2 + x[1] ** 2 + 1e-30) ** 0.7

    problem = cubic(kp.Gaussian(0.3), corner)
    wanted = kp.Accuracy(1e-9, max_rows=400)
    with pytest.raises(kp.SolveError, match="NOT converged") as refusal:
        kp.solve(problem, accuracy=wanted)
    solution = refusal.value.solution
    assert not solution.converged
    assert "1e-09 requested, not reached" in str(solution)
    levels = re.findall(r"(\d+) rows (\de-\d+)", str(solution))
    rows = solution.problem.at_points(solution.point_sets).num_rows
    assert len(levels) > 1
    assert (str(rows), f"{solution.error_estimate['u'].rms:.0e}") in levels
    assert 0.1 < ratio(solution, corner) < 20
    assert solution.problem.at_points(solution.point_sets).num_rows <= 400


def test_a_time_limit_ends_with_the_best_solution():
    wanted = kp.Accuracy(1e-12, max_seconds=1e-3)
    steps = []
    solution = kp.solve(
        cubic(kp.Gaussian(0.5)), accuracy=wanted, throw=False, callback=steps.append
    )
    assert not solution.converged
    assert "max_seconds" in str(solution)
    assert np.isfinite(solution.error_estimate.largest)
    # Learning ended at its first record, and the solve of the first level was completed.
    assert sum(isinstance(record, kp.LearningRecord) for record in steps) == 1
    assert 0.5 < ratio(solution) < 10


def test_a_callback_that_ends_learning_ends_the_refinement():
    steps = []

    def third(record):
        steps.append(record)
        return len(steps) == 3

    solution = kp.solve(cubic(kp.Gaussian(0.5)), accuracy=1e-12, throw=False, callback=third)
    assert solution.result is kp.RESULTS.stopped
    assert [isinstance(record, kp.LearningRecord) for record in steps] == [True] * 3 + [False]


def test_more_accurate_than_rounding():
    wanted = kp.Accuracy(1e-13, max_rows=300)
    solution = kp.solve(cubic(kp.Gaussian(0.5)), accuracy=wanted, throw=False)
    assert solution.result is kp.RESULTS.accuracy_not_reached
    assert not solution.converged
    assert "more than 300 rows (max_rows)" in str(solution)
    assert 0.5 < ratio(solution) < 10


def test_noise_has_a_posterior_instead():
    data = kp.PointCloud(np.linspace(0, 1, 9)[:, None])
    problem = kp.Problem(
        kp.Condition("equation", LINE.interior, lambda x, u: -u.laplacian + u.value),
        kp.Condition("data", data, lambda x, u: u.value - x[0], noise=0.1),
        fields=[kp.Field("u", kp.Gaussian(0.3))],
    )
    with pytest.raises(kp.InputError, match="requires noise-free conditions"):
        kp.solve(problem, accuracy=1e-3)
    estimate = kp.solve(problem, {"equation": 12}, throw=False).error_estimate
    assert np.isfinite(estimate["u"].rms)


def test_an_accuracy_with_averages():
    """Only the mean of u is known besides its slopes: averages are neither drawn nor halved."""

    def exact(x):
        return jnp.cos(3 * x[0])

    whole = kp.box_averages([[0.0]], [[1.0]], nodes=24)
    mean = np.sin(3.0) / 3.0
    problem = kp.Problem(
        kp.Condition("equation", LINE.interior, lambda x, u: u.d("x", "x") + 9 * jnp.cos(3 * x[0])),
        kp.Condition("slope", LINE["x=1"], lambda x, u: u.d("x") + 3 * jnp.sin(3.0)),
        kp.Condition("mean", whole, lambda x, u: u.value - mean),
        fields=[kp.Field("u", kp.Gaussian(0.5))],
    )
    solution = kp.solve(problem, accuracy=1e-6)
    places = np.linspace(0, 1, 300)[:, None]
    assert true_error(solution, exact, places) < 2e-6


def test_estimates_with_learned_noise_and_unknown_fields():
    """The estimate of an inverse problem is of its discretization, not of its data."""
    rng = np.random.default_rng(8)
    places = np.linspace(0.05, 0.95, 15)[:, None]
    measured = np.sin(np.pi * places[:, 0]) + 0.02 * rng.normal(size=15)
    problem = boundary_value(
        LINE,
        lambda x, u, f: -u.d("x", "x") - f.value,
        kp.Gaussian(0.4),
        kp.Field("f", 5.0 * kp.Gaussian(0.4)),
        more=[
            kp.Condition(
                "data",
                kp.PointCloud(places),
                lambda x, u, d: u.value - d,
                data={"d": measured},
                noise=kp.LearnedNoise(0.02),
            )
        ],
    )
    few = kp.solve(problem, {"equation": 12, "ends": 2}, throw=False)
    many = kp.solve(problem, {"equation": 60, "ends": 2}, throw=False)
    grid = np.linspace(0, 1, 200)[:, None]
    for name in "uf":
        best = np.asarray(many[name](grid))
        away = np.linalg.norm(np.asarray(few[name](grid)) - best) / np.linalg.norm(best)
        # Data decide much by the prior, and that is not what two sets of points disagree about.
        assert 0.3 * away < few.error_estimate[name].rms
        assert many.error_estimate.resampled.point_sets[2].points is many.point_sets[2].points


def test_an_accuracy_inside_of_jit_is_refused():
    problem = boundary_value(
        LINE, lambda x, u, k: -k * u.d("x", "x") - 1.0, kp.Gaussian(0.4), inputs={"k": 1.0}
    )

    def middle(k):
        return kp.solve(problem, accuracy=1e-3, inputs={"k": k})["u"](np.array([[0.5]]))[0]

    with pytest.raises(kp.InputError, match="depends on computed values"):
        jax.jit(middle)(2.0)
    found = kp.solve(problem, accuracy=1e-6)

    def again(k):
        inside = kp.solve(found.problem, found.point_sets, inputs={"k": k})
        return inside["u"](np.array([[0.5]]))[0]

    np.testing.assert_allclose(jax.grad(again)(2.0), -1.0 / 32, rtol=1e-5)


def test_levels_are_reported_while_they_run():
    seen: list = []
    solution = kp.solve(cubic(kp.Gaussian(0.3)), accuracy=1e-3, callback=seen.append)
    learned = [record for record in seen if isinstance(record, kp.LearningRecord)]
    solved = [record for record in seen if isinstance(record, SolveRecord)]
    assert isinstance(seen[0], kp.LearningRecord)
    assert len(learned) + len(solved) == len(seen)
    assert solved[-len(solution.history) :] == list(solution.history)
    rest = kp.solve(
        cubic(kp.Gaussian(0.3)), accuracy=kp.Accuracy(1e-3, max_rows=1), max_steps=1, throw=False
    )
    assert rest.result is kp.RESULTS.max_steps_reached
    assert not rest.converged


def test_a_field_that_is_zero_is_right():
    problem = boundary_value(LINE, lambda x, u: -u.d("x", "x"), kp.Gaussian(0.4))
    solution = kp.solve(problem, accuracy=1e-3)
    assert solution.error_estimate["u"] == (0.0, 0.0)


@pytest.mark.parametrize("dimension", [2, 3])
def test_harmonic_functions_are_met_between_points(dimension):
    """Δu = 0: the residual is compared to the second derivatives, not to their sum, which is 0."""
    names = "xyz"[:dimension]
    box = kp.Box(**dict.fromkeys(names, (0.0, 1.0)))

    def exact(x):
        return jnp.exp(np.sqrt(dimension - 1) * x[0]) * jnp.prod(jnp.cos(x[1:]))

    problem = boundary_value(box, lambda x, u: u.laplacian, kp.Gaussian(1.0), exact=exact)
    solution = kp.solve(problem, {"equation": 150, "boundary": 150})
    places = np.random.default_rng(2).random((200, dimension))
    assert true_error(solution, exact, places) < 1e-5
    rough = problem.with_kernels([kp.Gaussian(0.05)])
    assert not kp.solve(rough, {"equation": 150, "boundary": 150}, throw=False).converged


def rod(measured, places, unknown):
    """-u'' = f, or = q x (1 - x), from noisy temperatures."""

    def field(x, u, f):
        return -u.d("x", "x") - f.value

    def number(x, u, q):
        return -u.d("x", "x") - q * x[0] * (1 - x[0])

    given = {"data": {"d": measured}, "noise": 0.005}
    others = {
        "field": kp.Field("f", 5.0 * kp.Gaussian(0.3)),
        "number": kp.Parameter("q", 10.0, 5.0),
    }
    return boundary_value(
        LINE,
        field if unknown == "field" else number,
        kp.Gaussian(0.3),
        others[unknown],
        more=[kp.Condition("data", kp.PointCloud(places), lambda x, u, d: u.value - d, **given)],
    )


@pytest.mark.parametrize("unknown", ["field", "number"])
def test_points_add_little_to_what_data_leave_open(unknown):
    """The difference to many more points, in deviations, is at most about what was asked for."""
    rng = np.random.default_rng(12)
    places = rng.uniform(0, 1, (25, 1))
    x = places[:, 0]
    exact = np.sin(np.pi * x) if unknown == "field" else (x - 2 * x**3 + x**4)
    problem = rod(exact + 0.005 * rng.normal(size=25), places, unknown)
    solution = kp.solve(problem, accuracy=kp.Accuracy(posterior_std=0.2))
    fine = kp.solve(solution.problem, {"equation": 150, "ends": 2}, seed=9)
    known = kp.posterior(fine)
    if unknown == "number":
        apart = abs(float(solution.parameters["q"]) - float(fine.parameters["q"]))
        assert apart < 0.4 * float(known.parameters["q"].std)
        return
    grid = np.linspace(0, 1, 200)[:, None]
    for name in "uf":
        apart = np.asarray(solution[name](grid)) - np.asarray(fine[name](grid))
        deviation = np.asarray(known[name].std(grid))
        assert np.sqrt(np.mean(apart**2)) < 0.4 * np.sqrt(np.mean(deviation**2))


def test_deviations_are_for_noisy_data():
    with pytest.raises(kp.InputError, match="no posterior standard deviations"):
        kp.solve(cubic(kp.Gaussian(0.3)), accuracy=kp.Accuracy(posterior_std=0.2))
    places = np.linspace(0.1, 0.9, 9)[:, None]
    noisy = rod(np.sin(np.pi * places[:, 0]), places, "field")
    with pytest.raises(kp.InputError, match=r"Accuracy\(posterior_std=0.2\)"):
        kp.solve(noisy, accuracy=1e-3)
    asked = kp.Accuracy(posterior_std=1e-9, max_rows=1)
    rest = kp.solve(noisy, accuracy=asked, throw=False)
    assert not rest.converged
    assert "1e-09 std requested, not reached" in str(rest)


def test_a_law_alone_has_estimates():
    """Nothing but a law is unknown: there is no field whose error could be compared."""
    x = np.linspace(0, 1, 20)[:, None]
    data = {"y": np.sin(3 * x[:, 0])}
    problem = kp.Problem(
        kp.Condition("data", x, lambda x, k, y: k(x[0]).value - y, noise=0.01, data=data),
        fields=[kp.Law("k", 1.0 * kp.Gaussian(0.4), T=(0, 1))],
    )
    solution = kp.solve(problem, {})
    where = np.array([0.2, 0.7])
    estimated = solution.error_estimate.of_quantity(lambda s: s["k"](where))
    assert not solution.error_estimate
    assert np.all((estimated > 0) & (estimated < 0.02))
    assert np.all(np.isfinite(solution["k"].error(where)))
