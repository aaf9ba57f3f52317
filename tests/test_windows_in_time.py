"""Windows of time reach exact solutions, go on from disk, and can be animated."""

import json

import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image
from problems import boundary_value, observed, zero

import kernelpde as kp
from kernelpde.gallery import gray_scott

ROD = kp.Box(t=(0, 2), x=(0, 1), time="t")
GRID = np.stack(np.meshgrid(np.linspace(0, 2, 41), np.linspace(0, 1, 31)), axis=-1)


def reaction(x, u):
    """uₜ = 0.1 uₓₓ - u³ + f with u = exp(-t/2) sin πx."""
    exact = jnp.exp(-x[0] / 2) * jnp.sin(jnp.pi * x[1])
    source = -exact / 2 + 0.1 * jnp.pi**2 * exact + exact**3
    return u.d("t") - 0.1 * u.d("x", "x") + u.value**3 - source


def diffusion_problem():
    return boundary_value(
        ROD,
        reaction,
        kp.Gaussian([0.8, 0.5]),
        more=[kp.Condition("initial", ROD.initial, lambda x, u: u.value - jnp.sin(jnp.pi * x[1]))],
    )


POINTS = {"equation": 90, "ends": 24, "initial": 24}


def test_windows_reach_the_exact_solution_at_linear_cost():
    evolution = kp.march(diffusion_problem(), 4, POINTS)
    exact = np.exp(-GRID[..., 0] / 2) * np.sin(np.pi * GRID[..., 1])
    np.testing.assert_allclose(evolution["u"](GRID), exact, atol=2e-5)
    np.testing.assert_allclose(evolution["u"].d("t")(GRID), -exact / 2, atol=1e-3)
    assert evolution.times.tolist() == [0.0, 0.5, 1.0, 1.5, 2.0]
    sizes = [sum(len(b.points) for b in s.point_sets) for s in evolution.solutions]
    assert sizes == [sum(POINTS.values())] * 4


def test_residuals_and_pictures_are_those_of_all_windows():
    evolution = kp.march(diffusion_problem(), 4, POINTS)
    points = np.random.default_rng(1).random((30, 2)) * [2.0, 1.0]
    left = evolution.residual("equation", points)
    assert left.shape == (30, 1)
    for number in range(4):
        here = (points[:, 0] >= number / 2) & (points[:, 0] < (number + 1) / 2)
        own = evolution.solutions[number].residual("equation", points[here])
        np.testing.assert_allclose(left[here], own, rtol=1e-9, atol=1e-12)
    figure = evolution.plot(
        references={"u": lambda x: np.exp(-x[:, 0] / 2) * np.sin(np.pi * x[:, 1])}
    )
    titles = [axis.get_title() for axis in figure.axes if axis.get_title()]
    assert titles == ["solution u", "error of u", "residual of equation"]
    assert figure.axes[0].get_xlim() == (0.0, 2.0)


def test_neighboring_windows_meet():
    evolution = kp.march(diffusion_problem(), 4, POINTS)
    x = np.linspace(0, 1, 15)
    for number, time in enumerate((0.5, 1.0, 1.5)):
        at = np.stack([np.full(15, time), x], axis=1)
        before, after = (evolution.solutions[number + k]["u"](at) for k in (0, 1))
        np.testing.assert_allclose(after, before, atol=1e-5)


def test_kernels_learned_in_the_first_window_serve_all():
    evolution = kp.march(
        diffusion_problem(), 2, {"equation": 60, "ends": 20, "initial": 20}, learning={}
    )
    assert evolution.learned is not None
    first, second = (s.problem.hyperparameters["u"]["lengthscale"] for s in evolution.solutions)
    np.testing.assert_array_equal(first, second)
    assert not np.allclose(first, [0.8, 0.5])


def test_equations_of_second_order_hand_over_their_rate():
    """uₜₜ = uₓₓ with u = cos πt sin πx."""
    problem = boundary_value(
        ROD,
        lambda x, u: u.d("t", "t") - u.d("x", "x"),
        kp.Gaussian([0.4, 0.4]),
        more=[
            kp.Condition(
                "initial", ROD.initial, lambda x, u: (u.value - jnp.sin(jnp.pi * x[1]), u.d("t"))
            )
        ],
    )
    evolution = kp.march(problem, 4, {"equation": 120, "ends": 30, "initial": 30})
    exact = np.cos(np.pi * GRID[..., 0]) * np.sin(np.pi * GRID[..., 1])
    np.testing.assert_allclose(evolution["u"](GRID), exact, atol=1e-4)


def test_data_points_fall_into_their_windows():
    where = np.array([[0.2, 0.5], [0.3, 0.2], [1.7, 0.4]])
    values = np.exp(-where[:, 0] / 2) * np.sin(np.pi * where[:, 1])
    problem = diffusion_problem()
    data = observed(where, values, 1e-3)
    with_data = problem.with_conditions([*problem.conditions, data])
    evolution = kp.march(with_data, 4, POINTS)
    counts = [
        [len(b.points) for c, b in zip(s.problem.conditions, s.point_sets, strict=True)]
        for s in evolution.solutions
    ]
    assert [len(c) for c in counts] == [4, 3, 3, 4]
    assert counts[0][3] == 2
    assert counts[3][3] == 1


def relative_error(evolution, exact):
    """Relative root mean square error, and the largest one at the end."""
    values = np.asarray(evolution["u"](GRID))
    return np.sqrt(np.mean((values - exact) ** 2) / np.mean(exact**2))


@pytest.mark.parametrize("rate", [-0.5, 2.0])
def test_estimates_include_errors_of_earlier_windows(rate):
    """uₜ = 0.1 uₓₓ + (r + 0.1 π²) u with u = exp(rt) sin πx: errors decay or grow with u."""
    problem = boundary_value(
        ROD,
        lambda x, u: u.d("t") - 0.1 * u.d("x", "x") - (rate + 0.1 * jnp.pi**2) * u.value,
        kp.Gaussian([0.5, 0.4]),
        more=[kp.Condition("initial", ROD.initial, lambda x, u: u.value - jnp.sin(jnp.pi * x[1]))],
    )
    evolution = kp.march(problem, 4, {"equation": 24, "ends": 8, "initial": 8})
    exact = np.exp(rate * GRID[..., 0]) * np.sin(np.pi * GRID[..., 1])
    error = relative_error(evolution, exact)
    assert 1e-7 < error < 1e-2
    assert 1 / 3 < evolution.error_estimate["u"].rms / error < 3
    end = GRID[:, -1]
    estimated = np.asarray(evolution["u"].error(end))
    gap = np.abs(np.asarray(evolution["u"](end)) - exact[:, -1])
    assert estimated.shape == (31,)
    assert 1 / 4 < np.sqrt(np.mean(estimated**2) / np.mean(gap**2)) < 4
    assert "estimated error" in repr(evolution)
    assert len(repr(evolution).splitlines()) <= 8


def test_an_accuracy_of_an_evolution_is_reached_or_the_reason_is_given():
    exact = np.exp(-GRID[..., 0] / 2) * np.sin(np.pi * GRID[..., 1])
    evolution = kp.march(diffusion_problem(), 2, accuracy=1e-4)
    assert evolution.converged
    assert evolution.error_estimate.largest <= 1e-4
    assert relative_error(evolution, exact) <= 1e-4
    limited = kp.Accuracy(1e-13, max_rows=200)
    evolution = kp.march(diffusion_problem(), 2, accuracy=limited, throw=False)
    assert not evolution.converged
    assert evolution.result is kp.RESULTS.accuracy_not_reached
    assert "max_rows" in evolution.message or "rounding" in evolution.message
    assert relative_error(evolution, exact) <= 2 * evolution.error_estimate.largest
    with pytest.raises(kp.SolveError, match="Estimated errors by level") as caught:
        kp.march(diffusion_problem(), 2, accuracy=limited)
    assert isinstance(caught.value.solution, kp.Evolution)


def test_marching_needs_time_and_an_initial_condition():
    square = kp.Box(x=(0, 1), y=(0, 1))
    still = kp.Problem(
        kp.Condition("boundary", square.boundary, zero), fields=[kp.Field("u", kp.Gaussian(0.3))]
    )
    with pytest.raises(kp.InputError, match="no time coordinate"):
        kp.march(still, 2, {"boundary": 10})
    problem = diffusion_problem()
    later = problem.with_conditions(problem.conditions[:2])
    with pytest.raises(kp.InputError, match=r"one condition at t = 0, .*; got none"):
        kp.march(later, 2, {"equation": 9, "ends": 4})
    with pytest.raises(kp.InputError, match="at least one window"):
        kp.march(diffusion_problem(), 0, POINTS)
    with pytest.raises(kp.InputError, match="got neither"):
        kp.march(diffusion_problem(), 2)
    with pytest.raises(kp.InputError, match="got both"):
        kp.march(diffusion_problem(), 2, POINTS, accuracy=1e-3)
    with pytest.raises(kp.InputError, match="always learned"):
        kp.march(diffusion_problem(), 2, accuracy=1e-3, learning={})


def test_kernels_saved_and_applied_to_another_initial_condition(tmp_path):
    path = tmp_path / "kernels.json"
    kernels = [kp.Gaussian([0.37, 0.0701]), kp.Gaussian([1 / 3, 0.09])]
    one = gray_scott(1.0).problem.with_kernels(kernels)
    kp.save_kernels(path, one)
    other = kp.load_kernels(path, gray_scott(0.3, "gray-scott-b").problem)
    for a, b in zip(one.prior.kernels, other.prior.kernels, strict=True):
        np.testing.assert_array_equal(a.log_lengthscale, b.log_lengthscale)
    assert other.conditions[2].residual.modes == ((-1, 4), (1, 5))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(format="something"), "is not a file of kernels"),
        (lambda c: c.update(version=2), "has version 2; this program reads 1"),
        (lambda c: c.update(fields=["u"]), "contains kernels of the fields"),
        (lambda c: c["arrays"].pop("0.log_lengthscale"), "do not match these kernels"),
        (lambda c: c["arrays"].update({"0.log_lengthscale": [1.0]}), "of shape"),
        (lambda c: c["arrays"].update({"0.log_lengthscale": ["a", 1]}), "must hold numbers"),
        (lambda c: c["arrays"].update({"0.log_lengthscale": [float("nan"), 1]}), "finite numbers"),
    ],
)
def test_foreign_and_damaged_files_are_refused(tmp_path, change, message):
    path, problem = tmp_path / "kernels.json", gray_scott(1.0).problem
    kp.save_kernels(path, problem)
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(kp.InputError, match=message):
        kp.load_kernels(path, problem)
    path.write_text("{")
    with pytest.raises(kp.InputError, match="it is not JSON"):
        kp.load_kernels(path, problem)
    with pytest.raises(kp.InputError, match="cannot be read"):
        kp.load_kernels(tmp_path / "none.json", problem)


def test_a_march_that_was_stopped_goes_on(tmp_path):
    problem = diffusion_problem()
    whole = kp.march(problem, 3, POINTS, learning={"max_steps": 2}, throw=False)

    class Stop(Exception):
        pass

    def stop(number, solution):
        if number == 1:
            raise Stop

    options = {"learning": {"max_steps": 2}, "throw": False, "checkpoint": tmp_path}
    with pytest.raises(Stop):
        kp.march(problem, 3, POINTS, **options, callback=stop)
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "window-0000.kpde",
        "window-0001.kpde",
    ]
    again = kp.march(problem, 3, POINTS, **options)
    np.testing.assert_allclose(again["u"](GRID), whole["u"](GRID), rtol=0, atol=1e-9)
    for name, value in whole.problem.hyperparameters["u"].items():
        np.testing.assert_array_equal(again.problem.hyperparameters["u"][name], value)
    read = kp.march(problem, 3, POINTS, **options)
    assert read.learned is None
    np.testing.assert_array_equal(read["u"](GRID), again["u"](GRID))


def test_windows_of_another_run_are_refused(tmp_path):
    problem = diffusion_problem()
    kp.march(problem, 2, POINTS, checkpoint=tmp_path)
    with pytest.raises(kp.InputError, match=r"seed: the file has 0, expected 1"):
        kp.march(problem, 2, POINTS, checkpoint=tmp_path, seed=1)
    with pytest.raises(kp.InputError, match=r"windows: the file has 2, expected 4"):
        kp.march(problem, 4, POINTS, checkpoint=tmp_path)
    other = problem.with_kernels((kp.Gaussian([0.8, 0.4]),))
    with pytest.raises(kp.InputError, match=r"kernels: the file has"):
        kp.march(other, 2, POINTS, checkpoint=tmp_path)
    warmer = kp.Condition("initial", ROD.initial, lambda x, u: u.value - 2 * jnp.sin(3 * x[1]))
    equations = [c for c in problem.conditions if c.name != "initial"]
    with pytest.raises(kp.InputError, match=r"'initial' is another one"):
        kp.march(problem.with_conditions([*equations, warmer]), 2, POINTS, checkpoint=tmp_path)


def test_the_order_in_time_is_that_of_the_equations():
    third = kp.Condition("equation", ROD.interior, lambda x, u: u.d("t", "t", "t") - u.value)
    initial = kp.Condition("initial", ROD.initial, lambda x, u: u.value)
    problem = kp.Problem(third, initial, fields=[kp.Field("u", kp.Gaussian(0.5))])
    with pytest.raises(kp.InputError, match="time derivatives of order 3"):
        kp.march(problem, 2, {"equation": 9, "initial": 4})


class Stop(Exception):
    pass


def stop(number, solution):
    raise Stop


def schrodinger() -> kp.Problem:
    """A plane wave on a circle, h = exp(i (x - t / 2)): complex, periodic, of first order."""
    ring = kp.Box(t=(0, 0.4), x=(-np.pi, np.pi), time="t", periodic="x")
    return kp.Problem(
        kp.Condition("equation", ring.interior, lambda x, h: 1j * h.d("t") + 0.5 * h.d("x", "x")),
        kp.Condition("initial", ring.initial, lambda x, h: h.value - jnp.exp(1j * x[1])),
        fields=[kp.ComplexField("h", kp.Gaussian([1.0, 1.5]))],
    )


def wave() -> kp.Problem:
    """A standing wave, u = cos t sin x: of second order in time."""
    strip = kp.Box(t=(0, 0.8), x=(0, np.pi), time="t")
    return boundary_value(
        strip,
        lambda x, u: u.d("t", "t") - u.d("x", "x"),
        kp.Gaussian([1.0, 1.5]),
        more=[
            kp.Condition("initial", strip.initial, lambda x, u: (u.value - jnp.sin(x[1]), u.d("t")))
        ],
    )


@pytest.mark.parametrize(
    ("make", "points", "exact"),
    [
        (
            schrodinger,
            {"equation": 80, "initial": 20},
            lambda p: np.exp(1j * (p[:, 1] - p[:, 0] / 2)),
        ),
        (
            wave,
            {"equation": 80, "ends": 16, "initial": 20},
            lambda p: np.cos(p[:, 0]) * np.sin(p[:, 1]),
        ),
    ],
)
def test_windows_on_disk(tmp_path, make, points, exact):
    problem = make()
    name = problem.fields[0].name.removesuffix("_real")
    whole = kp.march(problem, 2, points)
    with pytest.raises(Stop):
        kp.march(problem, 2, points, checkpoint=tmp_path, callback=stop)
    again = kp.march(problem, 2, points, checkpoint=tmp_path)
    where = np.random.default_rng(0).random((50, 2)) * [0.4, 3.0]
    np.testing.assert_allclose(again[name](where), exact(where), atol=1e-4)
    np.testing.assert_allclose(again[name](where), whole[name](where), atol=1e-8)


def test_animations_of_complex_fields_and_of_shapes(tmp_path):
    found = kp.march(schrodinger(), 2, {"equation": 60, "initial": 20}, throw=False)
    found.animate("h", frames=3).save(tmp_path / "h.gif")
    disk = kp.Extrusion(kp.Ball((0.0, 0.0), 1.0), t=(0, 0.5))
    problem = boundary_value(
        disk,
        lambda x, u: u.d("t") - u.laplacian,
        kp.Gaussian(1.0),
        edge=lambda x, u: u.value - 1.0,
        more=[kp.Condition("initial", disk.initial, lambda x, u: u.value - 1.0)],
    )
    solution = kp.solve(problem, {"equation": 60, "boundary": 30, "initial": 30}, throw=False)
    solution.animate(frames=3).save(tmp_path / "u.gif")
    for name in ("h.gif", "u.gif"):
        with Image.open(tmp_path / name) as drawn:
            assert drawn.n_frames == 3
    # Outside of the disk nothing is drawn: the corners of the square are white.
    with Image.open(tmp_path / "u.gif") as drawn:
        colors = np.asarray(drawn.convert("RGB"))
    assert (colors.reshape(-1, 3) == 255).all(axis=1).mean() > 0.3
