"""Every feature with every solver: each cell agrees with Dense, or is refused with a reason.

The sparse solver orders its first points one by one and lets them see all before them; here these
are few, so that neighbors count as they do for many points.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import LINE, SQUARE, boundary_value, observed, regression, relative_error

import kernelpde as kp
from kernelpde.kernels import FeatureKernel

NUGGET = 1e-10
DENSE = kp.Dense(nugget=NUGGET, refinement_sweeps=0)
SOLVERS = {
    "low rank": kp.LowRank(nugget=NUGGET),
    "sparse": kp.Sparse(nugget=NUGGET, num_maximin=12),
    "automatic": kp.Automatic(nugget=NUGGET, refinement_sweeps=0),
}
AGREES = {"low rank": 1e-5, "sparse": 1e-4, "automatic": 1e-12}
"""How closely a solver agrees with Dense relative to the size of what is found. Low rank leaves out
what is below the nugget, times the condition; the sparse solver what is farther than its radius."""

RING = kp.Box(x=(0.0, 1.0), periodic="x")
ON_LINE = np.linspace(0.03, 0.97, 40)[:, None]
POINTS = {"equation": 60, "ends": 2}


def smooth(lengthscale=0.3):
    return kp.Gaussian(lengthscale)


def rough(lengthscale=0.4):
    return kp.Matern(4.5, lengthscale)


def exact(x):
    return jnp.sin(3.0 * x[0]) + x[0]


def source(x):
    return 9.0 * jnp.sin(3.0 * x[0]) + exact(x) ** 3


def equation(x, u):
    return -u.d("x", "x") + u.value**3 - source(x)


def end(x, u):
    return u.value - exact(x)


@dataclass
class Feature:
    """A problem, where its points are, and what is looked at of its solution."""

    problem: Callable[[Callable], kp.Problem]
    points: dict[str, int] | None = None
    fields: tuple[str, ...] = ("u",)


def on_line(kernel):
    return boundary_value(LINE, equation, kernel, edge=end)


def periodic(base):
    def around(x, u):
        wave = jnp.sin(2 * np.pi * x[0])
        return -u.d("x", "x") + u.value + u.value**3 - (4 * np.pi**2 + 1) * wave - wave**3

    return kp.Problem(
        kp.Condition("equation", RING.interior, around), fields=[kp.Field("u", base())]
    )


def complex_field(base):
    def wave(x):
        return jnp.exp(2j * x[0]) * (1 + x[0])

    def helmholtz(x, h):
        # (1 + x) e^{2ix}: its second derivative is (4i - 4 (1 + x)) e^{2ix}
        second = (4j - 4 * (1 + x[0])) * jnp.exp(2j * x[0])
        return h.d("x", "x") + (5 + 1j) * h.value - second - (5 + 1j) * wave(x)

    return boundary_value(
        LINE, helmholtz, kp.ComplexField("h", base()), edge=lambda x, h: h.value - wave(x)
    )


def averages(base):
    low = np.linspace(0.0, 0.9, 10)[:, None]
    means = kp.box_averages(low, low + 0.1)
    values = np.mean(np.sin(3 * means.points) + means.points, axis=(1, 2))
    return boundary_value(
        LINE, equation, base(), edge=end, more=[observed(means, values, 0.1, name="means")]
    )


def mixing(base):
    def both(x, u, v):
        first = -u.d("x", "x") + v.value - source(x) + exact(x) ** 3
        return first, -v.d("x", "x") + u.value - 1.0

    return boundary_value(
        LINE,
        both,
        base(),
        kp.Field("v", base()),
        edge=lambda x, u, v: (u.value - exact(x), v.value),
        mixing=[[1.0, 0.3], [0.2, 1.0]],
    )


def unknown_number(base):
    x = np.linspace(0.05, 0.95, 15)[:, None]
    y = np.asarray(np.sin(3 * x[:, 0]) + x[:, 0])

    def with_rate(x, u, rate):
        return -u.d("x", "x") + rate * u.value**3 - source(x)

    return boundary_value(
        LINE,
        with_rate,
        base(),
        kp.Parameter("rate", 0.7, 0.5),
        edge=end,
        more=[observed(x, y, 1e-2)],
    )


def own_points(base):
    inside = np.random.default_rng(0).uniform(0.01, 0.99, (60, 1))
    return kp.Problem(
        kp.Condition("equation", inside, lambda x, u: -u.d("x0", "x0") + u.value**3 - source(x)),
        kp.Condition("ends", np.array([[0.0], [1.0]]), end),
        fields=[kp.Field("u", base())],
    )


FEATURES = {
    "plain": Feature(lambda base: on_line(base()), POINTS),
    "periodic": Feature(periodic, {"equation": 80}),
    "complex": Feature(complex_field, POINTS, ("h",)),
    "averages": Feature(averages, POINTS),
    "mixing": Feature(mixing, POINTS, ("u", "v")),
    "varying lengthscale": Feature(
        lambda base: on_line(kp.Gibbs(kp.BumpLengthscale(0.3, [(0.0, 1.0)], [3]))), POINTS
    ),
    "unknown number": Feature(unknown_number, POINTS),
    "own points": Feature(own_points),
    "scaled kernel": Feature(lambda base: on_line(4.0 * base()), POINTS),
    "sum of kernels": Feature(lambda base: on_line(base() + 0.5 * base(0.8)), POINTS),
}
REFUSED = {("averages", "sparse"): "averages are not local"}


def values(solution, feature) -> np.ndarray:
    fields = [np.asarray(solution[name](ON_LINE)) for name in feature.fields]
    numbers = [np.array([number]) for number in solution.parameters.values()]
    return np.concatenate([*fields, *numbers])


LONG = {"varying lengthscale", "mixing"}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in LONG else n for n in FEATURES]
)
def test_a_feature_with_every_solver(name, request):
    """One test for a row of the grid, so that the dense solution is found once."""
    if name == "periodic":
        # Without optimizations conjugate gradients of the sparse solver do not converge.
        request.getfixturevalue("optimized")
    feature, expected = FEATURES[name], {}
    for solver, linear_solver in SOLVERS.items():
        base = rough if solver == "sparse" else smooth
        problem = feature.problem(base)
        if base not in expected:
            dense = kp.solve(problem, feature.points, linear_solver=DENSE)
            expected[base] = values(dense, feature)
        if (name, solver) in REFUSED:
            with pytest.raises(kp.InputError, match=REFUSED[name, solver]):
                kp.solve(problem, feature.points, linear_solver=linear_solver)
            continue
        found = kp.solve(problem, feature.points, linear_solver=linear_solver)
        error = np.abs(values(found, feature) - expected[base]).max()
        assert error < AGREES[solver] * np.abs(expected[base]).max(), solver


@pytest.mark.usefixtures("optimized")
def test_the_sparse_solver_knows_neighbors_across_the_period():
    # Without optimizations of the compiler its conjugate gradients do not converge.
    solver = kp.Sparse(num_maximin=12)
    found = kp.solve(periodic(rough), {"equation": 160}, linear_solver=solver)
    assert np.abs(np.asarray(found["u"](ON_LINE)) - np.sin(2 * np.pi * ON_LINE[:, 0])).max() < 1e-4
    ends = np.asarray(found["u"](np.array([[0.0], [1.0]])))
    assert ends[0] == pytest.approx(ends[1], abs=1e-9)


class OwnKernel(kp.AbstractKernel):
    """A kernel of a user's own, which knows nothing of periods."""

    kernel: kp.Gaussian

    def partials(self, x, y, orders):
        return self.kernel.partials(x, y, orders)


class OwnPeriodicKernel(OwnKernel):
    def make_periodic(self, periods):
        return self.kernel.make_periodic(periods)


def test_a_kernel_of_ones_own_is_periodic_or_refused():
    with pytest.raises(kp.InputError, match="cannot be made periodic"):
        periodic(lambda: OwnKernel(kp.Gaussian(0.3)))
    with pytest.raises(kp.InputError, match="cannot be made periodic"):
        periodic(lambda: 2.0 * OwnKernel(kp.Gaussian(0.3)) + kp.Gaussian(0.2))
    problem = periodic(lambda: OwnPeriodicKernel(kp.Gaussian(0.3)))
    assert problem.fields[0].kernel(np.array([0.0]), np.array([1.0])) == pytest.approx(1.0)


def noisy(count=300):
    rng = np.random.default_rng(3)
    x = rng.uniform(0, 1, (count, 1))
    y = np.sin(4 * x[:, 0]) + 0.1 * rng.normal(size=count)
    return regression(x, y, kp.LearnedNoise(0.3), 1.0 * smooth())


def test_learned_noise_and_posterior_with_every_solver():
    found = {}
    for solver in ("automatic", "low rank"):
        learned = kp.learn(noisy(), linear_solver=SOLVERS[solver])
        bars = np.asarray(kp.posterior(learned.solution)["u"].std(ON_LINE))
        found[solver] = float(learned.problem.conditions[0].noise_std), bars
    noise, bars = found["automatic"]
    assert noise == pytest.approx(0.1, rel=0.15)
    assert found["low rank"][0] == pytest.approx(noise, rel=1e-3)
    np.testing.assert_allclose(found["low rank"][1], bars, rtol=1e-2)
    with pytest.raises(kp.InputError, match="no inverse"):
        kp.learn(noisy(), linear_solver=SOLVERS["sparse"])


def test_posterior_of_a_sparse_solution_is_refused():
    solution = kp.solve(on_line(rough()), POINTS, linear_solver=SOLVERS["sparse"])
    with pytest.raises(kp.InputError, match="sparse solver, which has no covariances"):
        kp.posterior(solution)


def decay(kernel, extra=()):
    box = kp.Box(t=(0.0, 1.0), x=(0.0, 1.0), time="t")

    def known(x):
        return jnp.exp(-x[0]) * jnp.sin(np.pi * x[1])

    return boundary_value(
        box,
        lambda x, u: u.d("t") - 0.1 * u.d("x", "x") - (0.1 * np.pi**2 - 1) * known(x),
        kernel,
        more=[kp.Condition("initial", box.initial, lambda x, u: u.value - known(x)), *extra],
    )


WINDOW = {"equation": 60, "ends": 20, "initial": 12}
IN_TIME = np.random.default_rng(5).uniform(0.02, 0.98, (50, 2))


@pytest.mark.slow
def test_windows_in_time_with_every_solver():
    expected = {}
    for solver, linear_solver in SOLVERS.items():
        kernel = kp.Matern(4.5, 0.6) if solver == "sparse" else kp.Gaussian(0.4)
        kind = type(kernel)
        if kind not in expected:
            expected[kind] = np.asarray(
                kp.march(decay(kernel), 2, WINDOW, linear_solver=DENSE)["u"](IN_TIME)
            )
        solution = kp.march(decay(kernel), 2, WINDOW, linear_solver=linear_solver)
        found = np.asarray(solution["u"](IN_TIME))
        error = np.abs(found - expected[kind]).max()
        # The second window takes over what the first has missed.
        assert error < 20 * AGREES[solver] * np.abs(expected[kind]).max(), solver


def sensors(noise, region=None):
    rng = np.random.default_rng(7)
    where = rng.uniform(0.05, 0.95, (40, 2))
    if region == "averages":
        width = np.array([0.0, 0.05])
        where = kp.box_averages(where - width, where + width)
        places = where.points
        y = np.mean(np.exp(-places[..., 0]) * np.sin(np.pi * places[..., 1]), axis=1)
    else:
        y = np.exp(-where[:, 0]) * np.sin(np.pi * where[:, 1])
    y = y + 0.01 * rng.normal(size=len(y))
    return observed(where, y, noise, name="sensors")


@pytest.mark.parametrize(
    "region",
    [None, pytest.param("averages", marks=pytest.mark.slow)],
    ids=["points", "averages"],
)
def test_windows_with_learned_noise(region):
    problem = decay(1.0 * kp.Gaussian([0.5, 0.4]), [sensors(kp.LearnedNoise(0.05), region)])
    found = kp.march(problem, 2, WINDOW, learning={"max_steps": 6})
    known = np.exp(-IN_TIME[:, 0]) * np.sin(np.pi * IN_TIME[:, 1])
    assert np.abs(np.asarray(found["u"](IN_TIME)) - known).max() < 0.02
    first, second = (s.problem.conditions[-1].noise_std for s in found.solutions)
    assert first == second
    assert first != 0.05


def test_an_average_across_windows_is_refused():
    across = kp.box_averages([[0.4, 0.2]], [[0.6, 0.3]])
    condition = observed(across, [0.5], 0.1, name="mean")
    with pytest.raises(kp.InputError, match="reaches across the start of a window"):
        kp.march(decay(kp.Gaussian(0.4), [condition]), 2, WINDOW)


def test_posterior_of_a_complex_field():
    """Its parts are those of the two real fields; draws have their mean and standard deviation."""
    posterior = kp.posterior(kp.solve(complex_field(smooth), POINTS))
    view, where = posterior["h"], ON_LINE[::8]
    np.testing.assert_allclose(
        view.std(where),
        np.hypot(posterior["h_real"].std(where), posterior["h_imag"].std(where)),
        rtol=1e-12,
    )
    np.testing.assert_allclose(view.mean(where), posterior.solution["h"](where), rtol=1e-9)
    drawn = np.asarray(view.sample(where, jax.random.key(0), 4000))
    spread = np.sqrt(np.mean(np.abs(drawn - drawn.mean(0)) ** 2, axis=0))
    np.testing.assert_allclose(spread, view.std(where), rtol=0.1)
    joint = posterior.sample({"h": where}, jax.random.key(1), 10)["h"]
    assert joint.shape == (10, len(where))
    assert np.iscomplexobj(joint)


@pytest.mark.parametrize("factor", [0.02, 1.0, 50.0])
def test_error_bars_that_data_contradict_say_so(factor):
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 1, (80, 1))
    y = np.sin(4 * x[:, 0]) + 0.1 * rng.normal(size=80)
    problem = regression(x, y, 0.1 * factor, smooth(0.4))
    solution = kp.solve(problem, linear_solver=kp.Dense(nugget=1e-10))
    if factor == 1.0:
        assert "unreliable" not in repr(kp.posterior(solution))
        return
    with pytest.warns(UserWarning, match="may be unreliable.*should be about 1"):
        posterior = kp.posterior(solution)
    assert "may be unreliable" in repr(posterior)


FLOWER = kp.Implicit(
    lambda x, y: jnp.sqrt(x**2 + y**2 + 1e-30) - 0.8 - 0.15 * jnp.cos(5 * jnp.arctan2(y, x)),
    x=(-1, 1),
    y=(-1, 1),
)


def bend(x):
    return jnp.sin(2 * x[0]) * jnp.exp(x[1])


def bend_and_layer(x):
    return bend(x) + 3 * jnp.exp(4 * x[0])


def poisson(domain, kernel, exact=bend):
    def equation(x, u):
        return u.laplacian - jnp.trace(jax.hessian(exact)(x))

    return boundary_value(domain, equation, kernel, exact=exact)


def error(solution, domain, exact=bend, field="u"):
    points = domain.interior.sample(300, np.random.default_rng(5)).points
    return relative_error(solution[field], exact, points)


CROSSINGS = {
    "dense": (kp.Dense(), kp.Gaussian(0.6), 1e-6, 1e-6),
    "low rank": (kp.LowRank(max_rank=300), kp.Gaussian(0.6), 1e-4, 1e-4),
    "sparse": (kp.Sparse(), kp.Matern(2.5, 0.5), 2e-2, 1e-2),
}


@pytest.mark.parametrize("solver", CROSSINGS)
def test_an_implicit_shape_and_known_functions_with_every_solver(solver):
    linear_solver, kernel, shape_bound, function_bound = CROSSINGS[solver]
    flower = kp.solve(
        poisson(FLOWER, kernel),
        {"equation": 400, "boundary": 120},
        linear_solver=linear_solver,
        throw=False,
    )
    assert error(flower, FLOWER) < shape_bound
    known = kernel + FeatureKernel(lambda x: jnp.exp(4 * x[0]))
    layer = kp.solve(
        poisson(SQUARE, known, bend_and_layer),
        {"equation": 250, "boundary": 80},
        linear_solver=linear_solver,
        throw=False,
    )
    assert error(layer, SQUARE, bend_and_layer) < function_bound


def test_windows_on_an_extruded_shape():
    disc = kp.Ball((0, 0), 1.0, coordinates=("x", "y"))
    domain = kp.Extrusion(disc, t=(0, 1))

    def exact(x):
        return jnp.exp(-2 * x[0]) * jnp.sin(x[1]) * jnp.sin(x[2])

    problem = boundary_value(
        domain,
        lambda x, u: u.d("t") - u.d("x", "x") - u.d("y", "y"),
        kp.Gaussian([0.8, 1.0, 1.0]),
        exact=exact,
        more=[kp.Condition("initial", domain.initial, lambda x, u: u.value - exact(x))],
    )
    evolution = kp.march(problem, 2, {"equation": 200, "boundary": 100, "initial": 80})
    assert evolution.converged
    assert error(evolution, domain, exact) < 1e-4


def test_an_integral_on_a_periodic_domain():
    """-u'' = 4π² sin 2πx on a circle has a solution up to a constant; its mean settles that."""
    circle = kp.Box(x=(0, 1), periodic="x")
    problem = kp.Problem(
        kp.Condition(
            "equation",
            circle.interior,
            lambda x, u: -u.d("x", "x") - 4 * jnp.pi**2 * jnp.sin(2 * jnp.pi * x[0]),
        ),
        kp.Condition(
            "mean",
            kp.PointCloud([[0.3]]),
            lambda x, u: kp.integral(lambda y, u: u.value, over=circle.interior) - 2.0,
        ),
        fields=[kp.Field("u", kp.Gaussian(0.3))],
    )
    solution = kp.solve(problem, {"equation": 40})
    assert error(solution, circle, lambda x: 2 + jnp.sin(2 * jnp.pi * x[0])) < 1e-7


def test_measured_integrals_with_learned_noise_and_outliers():
    """A density from noisy amounts up to x, some of them wrong."""
    line = kp.Box(x=(0, 1))
    rng = np.random.default_rng(3)
    x = np.sort(rng.random(60))
    amounts = x + 0.3 * np.sin(3 * x) + 0.01 * rng.standard_normal(60)
    wrong = amounts.copy()
    wrong[[10, 35]] += 0.7

    def problem(noise, data):
        return kp.Problem(
            kp.Condition(
                "amounts",
                kp.PointCloud(x[:, None], coordinates=("x",)),
                lambda x, u, amount: kp.integral(lambda y, u: u.value, start=[0.0], end=x) - amount,
                data={"amount": data},
                noise=noise,
            ),
            kp.Condition("flat", line.side(x=0), lambda x, u: u.value - 1.9),
            fields=[kp.Field("u", kp.Gaussian(0.4))],
        )

    def exact(x):
        return 1 + 0.9 * jnp.cos(3 * x[0])

    learned = kp.learn(problem(kp.LearnedNoise(0.05), amounts), {"flat": 1}, throw=False)
    (level,) = (np.asarray(c.noise_std) for c in learned.problem.conditions if c.name == "amounts")
    assert 0.006 < float(level) < 0.016
    assert error(learned.solution, line, exact) < 0.1
    robust = kp.solve(problem(kp.StudentT(0.01), wrong), {"flat": 1}, throw=False)
    plain = kp.solve(problem(0.01, wrong), {"flat": 1}, throw=False)
    assert 3 * error(robust, line, exact) < error(plain, line, exact)


@pytest.mark.parametrize("solver", [kp.LowRank, kp.Sparse])
def test_kernels_that_hold_functions_with_solvers_and_devices(solver):
    mesh = jax.make_mesh((1,), ("rows",))
    problem = poisson(SQUARE, kp.Gaussian(0.5) + FeatureKernel(lambda x: jnp.exp(x[0])))
    points = {"equation": 120, "boundary": 40}
    found = [
        kp.solve(problem, points, linear_solver=chosen, throw=False)["u"]([[0.3, 0.6]])
        for chosen in (kp.Dense(1e-8), solver(1e-8), solver(1e-8, mesh=mesh))
    ]
    np.testing.assert_allclose(found[2], found[1], rtol=1e-9)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-3)


CORNER = kp.Polygon([(0, 0), (1, 0), (1, 1), (-1, 1), (-1, -1), (0, -1)])


def singular(x):
    """r^(2/3) sin(2θ/3) at the corner of an L-shape."""
    angle = jnp.arctan2(x[1], x[0])
    angle = jnp.where(angle < -1e-9, angle + 2 * jnp.pi, angle)
    return jnp.sqrt(x[0] ** 2 + x[1] ** 2) ** (2 / 3) * jnp.sin(2 / 3 * angle)


def corner_exact(x):
    return 1.7 * singular(x) + jnp.exp(x[0]) * jnp.sin(x[1])


def corner_problem(kernel):
    return boundary_value(
        CORNER, lambda x, u: u.laplacian, kernel, exact=corner_exact, names=("equation", "edges")
    )


def test_a_singular_function_makes_an_l_shape_smooth():
    points = {"equation": 300, "edges": 120}
    places = CORNER.interior.sample(500, np.random.default_rng(0)).points
    with_it = kp.solve(corner_problem(kp.Gaussian(0.7) + FeatureKernel(singular)), points)
    without = kp.solve(corner_problem(kp.Gaussian(0.7)), points, throw=False)
    assert with_it.converged
    errors = [relative_error(s["u"], corner_exact, places) for s in (with_it, without)]
    assert errors[0] < 1e-5
    assert errors[1] > 1e3 * errors[0]


def test_variances_are_learned_and_kept(tmp_path):
    problem = corner_problem(kp.Gaussian(0.7) + 2.0 * FeatureKernel(singular, 0.5))
    learned = kp.learn(problem, {"equation": 150, "edges": 80})
    assert learned.solution.converged
    kp.save_kernels(tmp_path / "kernels.json", learned.problem)
    again = kp.load_kernels(tmp_path / "kernels.json", problem)
    ours, theirs = (p.hyperparameters["u"] for p in (again, learned.problem))
    for name, value in theirs.items():
        np.testing.assert_array_equal(ours[name], value)


def test_factors_make_boundary_conditions_exact():
    def bubble(x):
        return x[0] * (1 - x[0]) * x[1] * (1 - x[1])

    square = kp.Box(x=(0, 1), y=(0, 1))
    problem = kp.Problem(
        kp.Condition(
            "equation",
            square.interior,
            lambda x, u: (
                u.laplacian + 2 * jnp.pi**2 * jnp.sin(jnp.pi * x[0]) * jnp.sin(jnp.pi * x[1])
            ),
        ),
        fields=[kp.Field("u", FeatureKernel(bubble) * kp.Gaussian(0.5))],
    )
    solution = kp.solve(problem, {"equation": 150})
    edge = square.boundary.sample(100, np.random.default_rng(0)).points
    assert np.abs(np.asarray(solution["u"](edge))).max() < 1e-14
    x = square.interior.sample(300, np.random.default_rng(1)).points
    truth = np.sin(np.pi * x[:, 0]) * np.sin(np.pi * x[:, 1])
    np.testing.assert_allclose(solution["u"](x), truth, atol=1e-5)


def test_functions_are_found_by_what_they_compute():
    scale = 1.0

    def trend(x):
        return scale * x[0]

    line = kp.Box(x=(0, 1))
    problem = kp.Problem(
        kp.Condition("slope", line.interior, lambda x, u: u.d("x") - 1.0),
        kp.Condition("right", line.side(x=1), lambda x, u: u.value - 1.0),
        fields=[kp.Field("u", FeatureKernel(trend))],
    )
    first = kp.solve(problem, {"slope": 3, "right": 1})["u"]([[2.0]])
    scale = 3.0
    second = kp.solve(problem, {"slope": 3, "right": 1})["u"]([[2.0]])
    np.testing.assert_allclose([first, second], 2.0, rtol=1e-6)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: FeatureKernel(lambda x: x)([0.0], [0.0]).shape, None),
        (
            lambda: FeatureKernel(lambda x: x[:, None])([0.0], [0.0]),
            "one number or a vector|IndexError",
        ),
        (lambda: FeatureKernel(lambda x: x[0], (1.0, 2.0))([0.0], [0.0]), "there are 1 functions"),
        (lambda: FeatureKernel(lambda x: x[0], -1.0), "variance"),
    ],
)
def test_what_is_no_feature_is_refused(make, reason):
    if reason is None:
        assert make() == ()
        return
    with pytest.raises(kp.InputError, match=reason):
        make()


def test_on_a_periodic_domain_functions_have_to_be_periodic():
    circle = kp.Box(x=(0, 2), y=(0, 1), periodic="x")

    def problem(function):
        def corner_exact(x):
            return jnp.abs(jnp.sin(jnp.pi * x[0])) + jnp.cos(jnp.pi * x[0]) * x[1]

        return kp.Problem(
            kp.Condition("values", circle.interior, lambda x, u: u.value - corner_exact(x)),
            fields=[kp.Field("u", kp.Gaussian([0.7, 0.7]) + FeatureKernel(function))],
        ), corner_exact

    # Two kinks in a period, which the function knows and the Gaussian kernel does not.
    known, corner_exact = problem(lambda x: jnp.abs(jnp.sin(jnp.pi * x[0])))
    x = np.random.default_rng(2).random((200, 2)) * [6.0, 1.0] - [2.0, 0.0]
    solution = kp.solve(known, {"values": 200})
    np.testing.assert_allclose(solution["u"](x), jax.vmap(corner_exact)(x), atol=1e-5)
    with pytest.raises(kp.InputError, match=r"has the period 2 in coordinate 0, but φ does not"):
        kp.solve(problem(lambda x: jnp.abs(x[0] - 1))[0], {"values": 60})
