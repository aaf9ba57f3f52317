"""What everyday situations lead to: own points, other units, starts, and results that say so."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kernelpde as kp
from kernelpde.solution import midpoints

LINE = kp.Box(x=(0.0, 1.0))
WHERE = np.linspace(0.01, 0.99, 200)[:, None]


def wave(x):
    return jnp.sin(7.0 * x[0])


def equation(x, u):
    return -u.d(0, 0) + u.value - 50.0 * wave(x)


def end(x, u):
    return u.value - wave(x)


def own_points(count: int = 60, kernel=None) -> kp.Problem:
    inside = np.random.default_rng(2).uniform(0.01, 0.99, (count, 1))
    return kp.Problem(
        kp.Condition("equation", inside, equation),
        kp.Condition("ends", [[0.0], [1.0]], end),
        fields=[kp.Field("u", kp.Gaussian(0.3) if kernel is None else kernel)],
    )


def error(solution, where=WHERE, exact=wave) -> float:
    found = np.asarray(solution["u"](where))
    return float(np.abs(found - np.asarray(jax.vmap(exact)(where))).max())


def test_learning_on_own_points_leaves_some_out():
    problem = own_points()
    learned = kp.learn(problem)
    assert learned.converged
    assert error(learned.solution) < 1e-6
    assert float(learned.kernels[0].lengthscale) > 0.1
    # All of them are used in the end, in the order in which they were given.
    np.testing.assert_array_equal(
        learned.solution.point_sets[0].points, problem.conditions[0].region.points
    )


def test_own_points_and_drawn_ones_in_one_problem():
    problem = own_points()
    mixed = problem.with_conditions(
        [problem.conditions[0], kp.Condition("ends", LINE.boundary, end)]
    )
    assert error(kp.learn(mixed, {"ends": 2}).solution) < 1e-6
    drawn = problem.with_conditions(
        [kp.Condition("equation", LINE.interior, equation), problem.conditions[1]]
    )
    assert error(kp.learn(drawn, {"equation": 40}).solution) < 1e-6


def test_few_own_points_are_left_out_one_by_one():
    few = own_points(8)
    with pytest.raises(kp.InputError, match=r"no points for validation.*KFold\(\)"):
        kp.learn(few, validation=kp.HeldOut())
    learned = kp.learn(few, throw=False)
    assert error(learned.solution) < 0.5
    with pytest.raises(kp.InputError, match="60 of its 60 points cannot be held out"):
        kp.learn(own_points(), validation=kp.HeldOut(points={"equation": 60}))


def heat(duration: float, length: float, size: float) -> tuple[kp.Problem, callable]:
    box = kp.Box(t=(0.0, duration), x=(0.0, length), time="t")
    rate = 0.2 * length**2 / duration

    def known(x):
        return size * jnp.exp(-x[0] / duration) * jnp.sin(2.0 * x[1] / length)

    def inside(x, u):
        forcing = (-1.0 + 0.2 * 4.0) * known(x) / duration
        return u.d("t") - rate * u.d("x", "x") - forcing

    problem = kp.Problem(
        kp.Condition("equation", box.interior, inside),
        kp.Condition("ends", box.boundary, lambda x, u: u.value - known(x)),
        kp.Condition("initial", box.initial, lambda x, u: u.value - known(x)),
        fields=[kp.Field("u", kp.Gaussian([0.3 * duration, 0.3 * length]))],
    )
    return problem, known


def test_units_change_no_digit_that_matters():
    errors, codes = [], set()
    for duration, length, size in ((1.0, 1.0, 1.0), (1e6, 20.0, 1e-7), (1e-9, 1e9, 3e8)):
        problem, known = heat(duration, length, size)
        learned = kp.learn(problem, {"equation": 80, "ends": 30, "initial": 20})
        where = np.random.default_rng(0).random((200, 2)) * [duration, length]
        errors.append(error(learned.solution, where, known) / size)
        codes.add((learned.result, learned.solution.result))
    assert max(errors) < 1e-5
    assert max(errors) < 1.5 * min(errors) or max(errors) - min(errors) < 1e-8
    assert len(codes) == 1


def test_one_lengthscale_for_time_and_space_becomes_two_where_extents_are_not_alike():
    problem, known = heat(1e4, 1.0, 1.0)
    isotropic = problem.with_kernels([kp.Gaussian(0.3)])
    learned = kp.learn(isotropic, {"equation": 80, "ends": 30, "initial": 20})
    assert learned.kernels[0].lengthscale.shape == (2,)
    where = np.random.default_rng(0).random((200, 2)) * [1e4, 1.0]
    assert error(learned.solution, where, known) < 1e-5


@pytest.mark.parametrize("sizes", [(1.0, 1.0), (1e8, 1e-8)])
def test_fields_of_unlike_size_are_balanced(sizes):
    first, second = sizes

    def both(x, u, v):
        # u = s sin 3x, v = r cos 2x
        one = -u.d("x", "x") + first / second * v.value
        two = -v.d("x", "x") + second / first * u.value
        known, other = jnp.sin(3.0 * x[0]), jnp.cos(2.0 * x[0])
        return one - first * (9.0 * known + other), two - second * (4.0 * other + known)

    problem = kp.Problem(
        kp.Condition("equation", LINE.interior, both),
        kp.Condition(
            "ends",
            LINE.boundary,
            lambda x, u, v: (
                u.value - first * jnp.sin(3.0 * x[0]),
                v.value - second * jnp.cos(2.0 * x[0]),
            ),
        ),
        fields=[kp.Field("u", kp.Gaussian(0.4)), kp.Field("v", kp.Gaussian(0.4))],
    )
    solution = kp.solve(problem, {"equation": 30, "ends": 2})
    for name, size, known in (("u", first, np.sin(3 * WHERE)), ("v", second, np.cos(2 * WHERE))):
        assert np.abs(np.asarray(solution[name](WHERE)) / size - known[:, 0]).max() < 1e-6


def on_line(kernel) -> kp.Problem:
    return kp.Problem(
        kp.Condition("equation", LINE.interior, equation),
        kp.Condition("ends", LINE.boundary, end),
        fields=[kp.Field("u", kernel)],
    )


POINTS = {"equation": 30, "ends": 2}


def test_a_solution_that_holds_at_its_points_alone_is_not_converged():
    with pytest.raises(kp.SolveError, match=r"'equation'.*lengthscale is far below") as caught:
        kp.solve(on_line(kp.Gaussian(0.002)), POINTS)
    solution = caught.value.solution
    assert solution.result is kp.RESULTS.test_residual_too_large
    assert not solution.converged
    assert solution.test_residuals["equation"] > 0.3
    assert solution.test_residuals["ends"] is None
    (row,) = [line for line in solution.report().splitlines() if "  equation " in line]
    assert row.endswith("relative")


def test_residuals_between_points_are_those_at_other_points():
    problem = on_line(kp.Gaussian(0.15))
    solution = kp.solve(problem, POINTS)
    drawn = problem.collocate_condition("equation", 30, seed=2_000_003, sampling="halton")
    others = np.asarray(drawn.points)

    def size(values) -> float:
        return float(np.sqrt(np.mean(np.asarray(values) ** 2)))

    # The equation is made of -u'', u and 50 sin 7x.
    u = solution["u"]
    parts = size(u.d("x", "x")(others)) + size(u(others)) + size(50.0 * np.sin(7.0 * others))
    expected = size(solution.residual("equation", others)) / parts
    assert solution.test_residuals["equation"] == pytest.approx(expected, rel=1e-6)


def test_learning_returns_what_it_has_and_says_what_it_is_worth():
    """A step inside of the domain is no function of a smooth kernel."""

    def jump(x, u):
        return u.d("x") - 400.0 * jnp.exp(-(((x[0] - 0.5) / 0.0014) ** 2))

    problem = kp.Problem(
        kp.Condition("equation", LINE.interior, jump),
        kp.Condition("left", LINE["x=0"], lambda x, u: u.value),
        fields=[kp.Field("u", kp.Gaussian(0.3))],
    )
    learned = kp.learn(problem, {"equation": 40, "left": 1})
    assert not learned.solution.converged
    assert not learned.converged
    assert "not converged" in repr(learned)
    assert "learn the kernel" not in repr(learned)


SQUARE = kp.Box(x=(0.0, 1.0), y=(0.0, 1.0))


def bowl(x):
    return x[0] ** 2 + 1.5 * x[1] ** 2


def monge_ampere() -> kp.Problem:
    return kp.Problem(
        kp.Condition(
            "equation",
            SQUARE.interior,
            lambda x, u: u.d("x", "x") * u.d("y", "y") - u.d("x", "y") ** 2 - 6.0,
        ),
        kp.Condition("boundary", SQUARE.boundary, lambda x, u: u.value - bowl(x)),
        fields=[kp.Field("u", kp.Gaussian(1.0))],
    )


def test_learning_begins_where_it_is_told_to():
    points = {"equation": 60, "boundary": 40}
    with pytest.raises(
        kp.InputError, match=r"derivatives of its residual.*Choose another initial guess"
    ):
        kp.solve(monge_ampere(), points)
    start = {"u": lambda x: 0.8 * bowl(x) + 0.1 * x[0]}
    learned = kp.learn(monge_ampere(), points, start=start)
    where = np.random.default_rng(0).random((100, 2))
    assert error(learned.solution, where, bowl) < 1e-5
    again = kp.solve(monge_ampere(), points, start=learned.solution, throw=False)
    assert error(again, where, bowl) < 1e-4


def test_a_residual_that_is_no_number_at_zero_is_told_where_to_begin():
    def singular(x, u):
        # u = 1 + x: -u'' + 1/u = 1 / (1 + x)
        return -u.d("x", "x") + 1.0 / u.value - 1.0 / (1.0 + x[0])

    problem = kp.Problem(
        kp.Condition("equation", LINE.interior, singular),
        kp.Condition("ends", LINE.boundary, lambda x, u: u.value - 1.0 - x[0]),
        fields=[kp.Field("u", kp.Gaussian(0.6))],
    )
    with pytest.raises(kp.InputError, match=r"NaN or infinite at u = 0.*start="):
        kp.solve(problem, POINTS)
    solution = kp.solve(problem, POINTS, start={"u": lambda x: 1.5})
    assert error(solution, WHERE, lambda x: 1.0 + x[0]) < 1e-6


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ({"w": lambda x: 0.0}, "unknown field 'w'"),
        ({"u": 3.0}, "expected a function of a point for field 'u'"),
        ({"u": lambda x: jnp.sqrt(-1.0 - x[0])}, "NaN or infinite values"),
    ],
)
def test_starts_that_cannot_be_used_are_refused(start, message):
    with pytest.raises(kp.InputError, match=message):
        kp.solve(monge_ampere(), {"equation": 20, "boundary": 12}, start=start)


def test_the_final_solve_has_the_noise_that_was_learned():
    rng = np.random.default_rng(5)
    x = rng.uniform(0, 1, (80, 1))
    y = np.sin(5 * x[:, 0]) + 0.05 * rng.normal(size=80)
    problem = kp.Problem(
        kp.Condition(
            "data", x, lambda x, u, y: u.value - y, noise=kp.LearnedNoise(0.5), data={"y": y}
        ),
        fields=[kp.Field("u", 1.0 * kp.Gaussian(0.3))],
    )
    learned = kp.learn(problem)
    noise = float(learned.problem.conditions[0].noise_std)
    assert noise == pytest.approx(0.05, rel=0.3)
    np.testing.assert_allclose(learned.solution.point_sets[0].noise, noise, rtol=1e-12)
    assert kp.posterior(learned.solution).loo_chi_squared["data"] == pytest.approx(1.0, abs=0.3)


@pytest.mark.parametrize(("peclet", "seed"), [(150.0, 0), (150.0, 2), (250.0, 1), (300.0, 0)])
def test_lengthscales_that_rounding_does_not_allow_are_shortened(peclet, seed):
    # A boundary layer: learning, with a larger nugget than solving, ends with lengthscales with
    # which the equation is not met at its own points.
    def layer(x):
        return jnp.exp((x[0] - 1.0) * peclet)

    problem = kp.Problem(
        kp.Condition("equation", LINE.interior, lambda x, u: u.d(0) - u.d(0, 0) / peclet),
        kp.Condition("ends", LINE.boundary, lambda x, u: u.value - layer(x)),
        fields=[kp.Field("u", kp.Gaussian(0.1))],
    )
    points = {"equation": 150, "ends": 2}
    learned = kp.learn(problem, points, sampling="uniform", seed=seed)
    where = np.linspace(0.0, 1.0, 500)[:, None]
    exact = np.asarray(jax.vmap(layer)(where))
    error = np.asarray(learned.solution["u"](where)) - exact
    relative = np.sqrt(np.mean(error**2) / np.mean(exact**2))
    # Residuals between points may be small where errors are not: the estimated error tells.
    assert relative < 0.1 or (peclet > 200 and not learned.converged)
    assert learned.problem.prior == learned.solution.problem.prior


@pytest.mark.parametrize("ends", [(1.0, 2.0), (3.0, 3.0), (-2e-5, 1e-5)])
def test_a_solution_without_curvature_is_met(ends):
    # Of -u'' = 0 there is nothing but rounding to compare the residual to.
    line = kp.Box(x=(0, 2))
    problem = kp.Problem(
        kp.Condition("equation", line.interior, lambda x, u: -u.laplacian),
        kp.Condition(
            "ends", np.array([[0.0], [2.0]]), lambda x, u, y: u.value - y, data={"y": ends}
        ),
        fields=[kp.Field("u", kp.Gaussian(0.6))],
    )
    solution = kp.solve(problem, {"equation": 20})
    x = np.linspace(0, 2, 21)[:, None]
    expected = ends[0] + (ends[1] - ends[0]) * x[:, 0] / 2
    np.testing.assert_allclose(
        np.asarray(solution["u"](x)), expected, atol=1e-5 * np.abs(ends).max()
    )


def test_what_is_named_like_data_has_a_value_by_default_and_gets_the_data():
    line = kp.Box(x=(0, 1))
    problem = kp.Problem(
        kp.Condition("equation", line.interior, lambda x, u, k=2.0: -k * u.laplacian - 2.0),
        kp.Condition(
            "ends",
            np.array([[0.0], [1.0]]),
            lambda x, u, y=5.0, *, z=7.0: u.value - y - z,
            data={"y": [1.0, 0.0], "z": [0.0, 1.0]},
        ),
        fields=[kp.Field("u", kp.Gaussian(0.4))],
    )
    solution = kp.solve(problem, {"equation": 20})
    # u = 1 + x (1 - x) / 2.
    np.testing.assert_allclose(np.asarray(solution["u"](np.array([[0.5]]))), [1.125], atol=1e-6)


def test_points_of_ones_own_are_looked_at_between():
    """A kernel too narrow for its points meets the equation at them and nowhere else."""
    bad = kp.solve(own_points(60, kp.Gaussian(0.004)), throw=False)
    assert bad.result is kp.RESULTS.test_residual_too_large
    assert error(bad) > 0.1
    assert bad.test_residuals["equation"] > 0.3
    good = kp.solve(own_points(60, kp.Gaussian(0.3)))
    assert error(good) < 1e-6
    assert good.test_residuals["equation"] < 1e-4


def test_places_between_points_of_a_grid_are_none_of_them():
    """Halfway along a side of a cell, or in its middle."""
    along = np.arange(9) / 8
    points = np.stack(np.meshgrid(along, 3 * along, indexing="ij"), axis=-1).reshape(-1, 2)
    problem = kp.Problem(
        kp.Condition("equation", points, lambda x, u: u.laplacian + 2.0),
        fields=[kp.Field("u", kp.Gaussian(1.0))],
    )
    block = midpoints(problem.residuals[0], problem.collocate()[0])
    cells = 8 * np.asarray(block.points) / [1, 3]
    nearest = np.sort(np.abs(cells - np.round(cells)), axis=1)
    assert len(cells) > 60
    np.testing.assert_allclose(nearest[:, 1], 0.5)
    assert set(nearest[:, 0].round(9)) <= {0.0, 0.5}


def test_the_report_says_where_there_are_no_test_points():
    data = np.ones((60, 1))[:, 0]
    inside = np.random.default_rng(2).uniform(0.01, 0.99, (60, 1))
    problem = kp.Problem(
        kp.Condition(
            "equation", inside, lambda x, u, f: -u.d(0, 0) + u.value - f, data={"f": data}
        ),
        kp.Condition("ends", [[0.0], [1.0]], lambda x, u: u.value),
        fields=[kp.Field("u", kp.Gaussian(0.3))],
    )
    solution = kp.solve(problem)
    assert solution.test_residuals["equation"] is None
    (row,) = [line for line in solution.report().splitlines() if "  equation " in line]
    assert row.endswith("not available")


@pytest.mark.parametrize(
    ("solver", "lengthscale"),
    [
        (kp.Dense(), 0.003),
        (kp.Dense(), 0.3),
        # Short lengthscales are refused by it before there is a solution.
        (kp.LowRank(), 0.3),
        (kp.Sparse(), 0.003),
        (kp.Sparse(), 0.3),
    ],
)
def test_points_of_ones_own_on_a_circle_and_with_every_solver(solver, lengthscale):
    """Good and bad kernels are told apart, for a complex field on a circle."""
    circle = kp.Box(x=(0.0, 1.0), periodic="x")
    inside = np.random.default_rng(4).uniform(0.0, 1.0, (60, 1))
    kernel = (
        kp.Matern(4.5, lengthscale) if isinstance(solver, kp.Sparse) else kp.Gaussian(lengthscale)
    )

    def turning(x, u):
        return -u.d("x", "x") + u.value - (1 + 4 * jnp.pi**2) * jnp.exp(2j * jnp.pi * x[0])

    problem = kp.Problem(
        kp.Condition("equation", kp.PointCloud(inside), turning),
        kp.Condition("somewhere", circle.interior, turning),
        fields=[kp.ComplexField("u", kernel)],
    )
    solution = kp.solve(problem, {"somewhere": 1}, linear_solver=solver, throw=False)
    assert (solution.test_residuals["equation"] < 0.05) == (lengthscale > 0.1)
    if lengthscale < 0.1:
        assert not solution.converged
