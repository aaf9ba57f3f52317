"""What is drawn is what was computed."""

import html
import re
from base64 import b64decode

import numpy as np
import pytest
from problems import boundary_value

import kernelpde as kp
from kernelpde.geometry import Grid, make_grid
from kernelpde.plotting import Panel, draw_panels, figure_to_html
from kernelpde.problem import problem_grid

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
pyplot = pytest.importorskip("matplotlib.pyplot")


def poisson(domain, **options) -> kp.Problem:
    return boundary_value(
        domain,
        lambda x, u: u.laplacian + 1.0,
        kp.Gaussian(0.5),
        names=("equation", "boundary"),
        **options,
    )


@pytest.fixture(scope="module")
def square() -> kp.Solution:
    return kp.solve(poisson(kp.Box(x=(0, 1), y=(0, 2))), {"equation": 80, "boundary": 40})


def by_title(figure, title: str):
    found = [axis for axis in figure.axes if axis.get_title() == title]
    assert len(found) == 1, [axis.get_title() for axis in figure.axes]
    return found[0]


def mesh_of(axis) -> np.ndarray:
    return np.ma.filled(axis.collections[0].get_array().astype(float), np.nan)


def test_plane_shows_values_errors_residuals_and_points(square):
    figure = square.plot(
        references={"u": lambda p: p[:, 0]}, resolution=21, units={"u": "K", "x": "m"}
    )
    x, y = np.meshgrid(np.linspace(0, 1, 21), np.linspace(0, 2, 21))
    points = np.stack([x, y], axis=-1)
    values = np.asarray(square["u"](points))
    shown = by_title(figure, "solution u")
    np.testing.assert_allclose(mesh_of(shown).reshape(21, 21), values, atol=1e-12)
    error = mesh_of(by_title(figure, "error of u")).reshape(21, 21)
    size = np.abs(values - x)
    np.testing.assert_allclose(error, np.maximum(size, 1e-6 * size.max()), atol=1e-12)
    residual = np.abs(square.residual("equation", points.reshape(-1, 2))[:, 0])
    drawn = mesh_of(by_title(figure, "residual of equation"))
    np.testing.assert_allclose(drawn.reshape(-1), np.maximum(residual, 1e-6 * residual.max()))
    assert shown.get_xlabel() == "x [m]"
    assert shown.get_ylabel() == "y"
    marked = {line.get_label(): line.get_xydata() for line in shown.get_lines()}
    np.testing.assert_array_equal(marked["equation"], square.point_sets[0].points)
    np.testing.assert_array_equal(marked["boundary"], square.point_sets[1].points)
    assert any(bar.get_ylabel() == "u [K]" for bar in figure.axes)


def test_outside_the_domain_nothing_is_drawn():
    ring = kp.Ball((0.0, 0.0), 1.0, coordinates=("x", "y")) - kp.Ball(
        (0.0, 0.0), 0.4, coordinates=("x", "y")
    )
    solution = kp.solve(poisson(ring), {"equation": 150, "boundary": 80}, throw=False)
    axis = by_title(solution.plot(resolution=31), "solution u")
    drawn = mesh_of(axis).reshape(31, 31)
    x, y = np.meshgrid(np.linspace(-1, 1, 31), np.linspace(-1, 1, 31))
    radius = np.hypot(x, y)
    np.testing.assert_array_equal(np.isfinite(drawn), (radius <= 1) & (radius > 0.4))


def test_a_field_of_a_part_is_drawn_in_that_part():
    disc = kp.Ball((0, 0), 0.5)
    around = kp.Box(x=(-1, 1), y=(-1, 1)) - disc
    outer = kp.union([around[f"{name}={end}"] for name in "xy" for end in (-1, 1)])
    problem = kp.Problem(
        kp.Condition("around", around.interior, lambda x, u: u.laplacian),
        kp.Condition("disc", disc.interior, lambda x, v: v.laplacian - 1),
        kp.Condition("interface", around.interface(disc), lambda x, u, v: u.value - v.value),
        kp.Condition("outer", outer, lambda x, u: u.value),
        fields=[kp.Field("u", kp.Gaussian(0.5)), kp.Field("v", kp.Gaussian(0.5))],
    )
    counts = {"around": 40, "disc": 20, "interface": 12, "outer": 24}
    solution = kp.solve(problem, counts, throw=False)
    figure = solution.plot("u", "v", residuals=["disc"], resolution=41)
    inside = np.hypot(*np.meshgrid(np.linspace(-1, 1, 41), np.linspace(-1, 1, 41))) < 0.5
    for title, expected in (
        ("solution u", ~inside),
        ("solution v", inside),
        ("residual of disc", inside),
    ):
        shown = np.isfinite(mesh_of(by_title(figure, title)).reshape(41, 41))
        assert np.mean(shown == expected) > 0.97, title


def test_line_shows_reference_and_band():
    problem = poisson(kp.Box(x=(0, 1)))
    solution = kp.solve(problem, {"equation": 12, "boundary": 2})
    figure = solution.plot(
        references={"u": lambda p: 0.5 * p[:, 0] * (1 - p[:, 0])},
        std={"u": lambda p: np.full(len(p), 0.1)},
    )
    axis = by_title(figure, "solution u")
    lines = {line.get_label(): line.get_xydata() for line in axis.get_lines()}
    where = lines["u"][:, :1]
    np.testing.assert_allclose(lines["u"][:, 1], solution["u"](where), atol=1e-13)
    np.testing.assert_allclose(lines["reference"][:, 1], 0.5 * where[:, 0] * (1 - where[:, 0]))
    band = axis.collections[0].get_paths()[0].vertices[:, 1]
    assert np.ptp(band) == pytest.approx(np.ptp(lines["u"][:, 1]) + 2 * 1.96 * 0.1, rel=1e-6)


def test_slices_hold_the_rest_in_the_middle_or_where_asked():
    problem = poisson(kp.Box(x=(0, 1), y=(0, 1), z=(0, 4)))
    assert problem_grid(problem, 5, free=2).fixed == {"z": 2.0}
    grid = problem_grid(problem, 5, {"x": 0.25}, free=2)
    assert grid.fixed == {"x": 0.25}
    np.testing.assert_array_equal(grid.points[:, 0], 0.25)
    assert grid.shape == (5, 5)
    lasting = poisson(kp.Box(t=(0, 1), x=(0, 2), y=(0, 4), time="t"))
    assert problem_grid(lasting, 5, free=2).fixed == {"t": 0.5}
    assert problem_grid(lasting, 5, {"t": 1.0}, free=1).fixed == {"t": 1.0, "y": 2.0}
    with pytest.raises(kp.InputError, match="unknown coordinate 'w'"):
        problem_grid(problem, 5, {"w": 0.0})
    with pytest.raises(kp.InputError, match="at least 2 for each of 3"):
        make_grid([problem.conditions[0].region], ("x", "y", "z"), 1)


def test_learning_and_solving_draw_their_records():
    problem = poisson(kp.Box(x=(0, 1), y=(0, 1)))
    found = kp.learn(problem, {"equation": 50, "boundary": 30}, throw=False, max_steps=5)
    figure = found.plot()
    steps = {line.get_label(): line.get_xydata() for line in figure.axes[0].get_lines()}
    np.testing.assert_array_equal(steps["steps"][:, 1], [r.loss for r in found.history])
    assert len(steps["evaluations"]) == len(found.evaluations)
    path = figure.axes[2].get_lines()[0].get_ydata()
    np.testing.assert_array_equal(
        path, [r.hyperparameters["u"]["lengthscale"] for r in found.history]
    )
    residuals = {line.get_label(): line.get_ydata() for line in figure.axes[1].get_lines()}
    assert residuals["equation"][-1] == found.history[-1].residuals["equation"]
    drawn = found.solution.history.plot().axes[0].get_lines()[0].get_ydata()
    np.testing.assert_array_equal(drawn, [r.residuals["equation"] for r in found.solution.history])


def drawn(values) -> tuple:
    """A panel of these values on a wide domain: its colors and what their bar says."""
    axes = {"x": np.linspace(0, 4, 9), "y": np.linspace(0, 1.6, 5)}
    grid = Grid(("x", "y"), axes, {}, np.ones((9, 5), dtype=bool))
    panel = Panel("solution u", values, label="u [m]", points={"a": np.array([[1.0, 1.0]])})
    figure = draw_panels([panel], grid)
    figure.canvas.draw()
    axis = by_title(figure, "solution u")
    (bar,) = (other for other in figure.axes if other is not axis)
    return figure, axis, bar


def test_powers_of_ten_stand_in_labels_of_colors():
    x = np.linspace(0, 4, 9)[:, None] + np.zeros(5)
    figure, axis, bar = drawn(2e-7 * x)
    assert bar.get_ylabel() == r"u [m] ($\times 10^{-7}$)"
    ticks = {t.get_text(): p for t, p in zip(bar.get_yticklabels(), bar.get_yticks(), strict=True)}
    assert all(float(text) * 1e-7 == pytest.approx(place) for text, place in ticks.items())
    assert not bar.yaxis.get_offset_text().get_text()
    # The whole title is in the picture.
    assert axis.title.get_window_extent().y1 <= figure.bbox.y1
    _, _, bar = drawn(20 * x)
    assert bar.get_ylabel() == "u [m]"


def test_what_is_constant_looks_constant():
    _, axis, _ = drawn(-3.0 + 1e-9 * np.random.default_rng(0).random((9, 5)))
    low, high = axis.collections[0].get_clim()
    assert high - low == pytest.approx(3e-3)
    assert (low + high) / 2 == pytest.approx(-3.0)


def test_lengthscales_of_coordinates_have_their_names():
    strip = kp.Box(t=(0, 1), x=(0, 2))
    problem = poisson(strip).with_kernels((kp.Gaussian([0.3, 0.6]),))
    found = kp.learn(problem, {"equation": 30, "boundary": 20}, throw=False, max_steps=2)
    lines = {line.get_label(): line.get_ydata() for line in found.plot().axes[2].get_lines()}
    assert list(lines) == ["lengthscale in t", "lengthscale in x"]
    last = found.history[-1].hyperparameters["u"]["lengthscale"]
    np.testing.assert_array_equal([values[-1] for values in lines.values()], last)


def test_recorded_residuals_are_those_at_validation_points():
    """Against the solution of the same kernel at the training points, looked at elsewhere."""
    problem = poisson(kp.Box(x=(0, 1), y=(0, 1)))
    training = {"equation": 50, "boundary": 30}
    solver = kp.Dense(nugget=1e-10, refinement_sweeps=0)
    found = kp.learn(problem, training, throw=False, max_steps=4, linear_solver=solver)
    solution = kp.solve(found.problem, training, linear_solver=solver, throw=False)
    elsewhere = problem.collocate(training, seed=1_000_003)[0].points
    residual = np.asarray(solution.residual("equation", elsewhere))
    recorded = found.history[-1].residuals["equation"]
    assert recorded == pytest.approx(np.sqrt(np.mean(residual**2)), rel=1e-2)


def test_lengthscales_are_drawn_or_said_not_to_vary(square):
    with pytest.raises(kp.InputError, match="Use a Gibbs kernel"):
        square.plot_lengthscales()
    field = kp.BumpLengthscale((0.3,), ((0.0, 1.0), (0.0, 1.0)), (2, 2))
    problem = poisson(kp.Box(x=(0, 1), y=(0, 1))).with_kernels((kp.Gibbs(field),))
    solution = kp.solve(problem, {"equation": 40, "boundary": 24}, throw=False)
    axis = by_title(solution.plot_lengthscales(), "lengthscale of u")
    np.testing.assert_allclose(mesh_of(axis), 0.3, rtol=1e-12)


def test_results_show_themselves_in_notebooks():
    """The summary, escaped, and a picture; the summary alone where nothing can be drawn."""
    line = kp.Box(x=(0, 1))
    problem = boundary_value(line, lambda x, u: u.laplacian + 1, kp.Gaussian(0.4))
    points = {"equation": 15, "ends": 2}
    solution, learned = (
        kp.solve(problem, points),
        kp.learn(problem, points, max_steps=2, throw=False),
    )
    before = pyplot.get_fignums()
    for shown in (solution, learned, kp.posterior(solution)):
        text = shown._repr_html_()
        summary, picture = re.fullmatch(
            r'<pre>(.*)</pre><img alt="solution" src="data:image/png;base64,(.*)">', text, re.DOTALL
        ).groups()
        assert html.unescape(summary) == repr(shown)
        assert b64decode(picture).startswith(b"\x89PNG")
    assert pyplot.get_fignums() == before

    def refused(**options):
        raise kp.InputError("There is nothing to draw.")

    assert figure_to_html("a < b", refused) == "<pre>a &lt; b</pre>"
