"""Solutions in adaptive boxes agree with exact ones, and say when they do not resolve a layer."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import LINE, SQUARE, boundary_value

import kernelpde as kp
from kernelpde.boxes import solve_in_boxes
from kernelpde.gallery import EXAMPLES

KERNEL = kp.Gaussian(0.1)
GRID = np.stack(np.meshgrid(*[(np.arange(41) + 0.5) / 41] * 2, indexing="ij"), -1).reshape(-1, 2)


def rms(values) -> float:
    return float(np.sqrt(np.mean(np.asarray(values) ** 2)))


def relative_error(solution, exact, points=GRID) -> float:
    """Root mean square error relative to the root mean square of the solution."""
    expected = np.asarray(jax.vmap(exact)(points))
    return rms(np.asarray(solution["u"](points)) - expected) / rms(expected)


def convection(diffusion: float) -> kp.Problem:
    """A field that rises along x and falls within a layer at x = 1."""
    return boundary_value(LINE, lambda x, u: u.d("x") - diffusion * u.laplacian - 1.0, KERNEL)


def rise_and_fall(diffusion: float):
    return lambda x: (
        x[0]
        - (
            (jnp.exp((x[0] - 1.0) / diffusion) - jnp.exp(-1.0 / diffusion))
            / -jnp.expm1(-1.0 / diffusion)
        )
    )


def layer() -> kp.Problem:
    return EXAMPLES["layer"](kernel="matern").problem


def layer_field(x):
    return (x[0] - jnp.expm1(x[0] / 0.02) / jnp.expm1(1 / 0.02)) * jnp.sin(jnp.pi * x[1])


@pytest.fixture(scope="module")
def solved_layer():
    return solve_in_boxes(layer(), 1e-3)


def test_a_layer_is_solved_to_the_accuracy(solved_layer):
    assert solved_layer.converged
    error = relative_error(solved_layer, layer_field)
    assert error < 1e-3
    estimate = solved_layer.error_estimate["u"]
    assert 0.5 < estimate.rms / error < 15
    assert estimate.max > estimate.rms


def test_boxes_are_small_and_long_at_a_layer(solved_layer):
    middles = solved_layer.lower + solved_layer.sizes / 2
    at_layer = middles[:, 0] > 0.97
    assert solved_layer.sizes[at_layer, 0].max() < 0.1 * solved_layer.sizes[:, 0].max()
    assert np.median(solved_layer.sizes[at_layer, 1] / solved_layer.sizes[at_layer, 0]) >= 4
    assert np.isclose(np.prod(solved_layer.sizes, axis=1).sum(), 1.0)


def test_errors_decrease_from_level_to_level():
    """Two and a half times the rows, and a tenth of the error."""
    errors = [
        relative_error(solve_in_boxes(layer(), 1e-9, max_rows=n, throw=False), layer_field)
        for n in (400, 1000)
    ]
    assert errors[1] < 0.1 * errors[0]


@pytest.mark.parametrize("diffusion", [0.05, 1e-3])
def test_a_layer_on_a_line(diffusion):
    solution = solve_in_boxes(convection(diffusion), 2e-4, max_rows=1000)
    assert solution.converged
    points = np.linspace(0, 1, 2001)[:, None]
    assert relative_error(solution, rise_and_fall(diffusion), points) < 2e-4


def test_a_layer_in_other_units():
    """Coordinates in thousandths, residuals in millions and a field in thousands."""

    def equation(x, u):
        return 1e6 * (1e3 * u.d("x") - 1e3 * u.d("x", "x") - 1e3)

    problem = boundary_value(kp.Box(x=(5.0, 1005.0)), equation, KERNEL)
    solution = solve_in_boxes(problem, 2e-4, max_rows=1000)
    points = np.linspace(5, 1005, 501)[:, None]
    exact = rise_and_fall(1e-3)
    assert relative_error(solution, lambda x: 1e3 * exact((x - 5.0) / 1e3), points) < 2e-4


def test_a_kink():
    """The regularized distance from the boundary, by its estimate and by the reference."""
    example = EXAMPLES["eikonal"](kernel="matern")
    solution = solve_in_boxes(example.problem, 0.03)
    expected = example.references["u"](GRID)
    error = rms(np.asarray(solution["u"](GRID)) - expected) / rms(expected)
    assert error < 0.03
    assert 0.5 < solution.error_estimate["u"].rms / error < 10


def test_a_shock_in_space_time():
    example = EXAMPLES["burgers"](kernel="matern")
    solution = solve_in_boxes(example.problem, 0.02)
    inner = example.grid[example.grid[:, 0] > 0.02]
    expected = example.references["u"](inner)
    assert rms(np.asarray(solution["u"](inner)) - expected) < 0.02 * rms(expected)


def test_a_disk_with_a_flux_through_its_boundary():
    """u = exp(x) sin 2y in a disk, with Robin conditions."""

    def exact(x):
        return jnp.exp(x[0]) * jnp.sin(2 * x[1])

    def edge(x, u):
        slope = jax.grad(exact)(x) @ x
        return u.normal_derivative + u.value - slope - exact(x)

    disk = kp.Ball([0.0, 0.0], 1.0)
    problem = boundary_value(disk, lambda x, u: -u.laplacian - 3 * exact(x), KERNEL, edge=edge)
    solution = solve_in_boxes(problem, 1e-2)
    inside = 2 * GRID[np.linalg.norm(2 * GRID - 1, axis=1) < 1] - 1
    assert relative_error(solution, exact, inside) < 1e-2


@pytest.mark.parametrize("names", [("x",), ("y",), ("x", "x"), ("x", "y"), ("x", "x", "y", "y")])
def test_derivatives_of_the_field_are_those_of_its_values(solved_layer, names):
    """By central differences of the derivative of one order less."""
    points, step = 0.2 + 0.5 * GRID[::97], np.zeros(2)
    step["xy".index(names[-1])] = 1e-5
    lower = solved_layer["u"].d(*names[:-1])
    difference = (np.asarray(lower(points + step)) - np.asarray(lower(points - step))) / 2e-5
    derivative = np.asarray(solved_layer["u"].d(*names)(points))
    assert rms(derivative - difference) < 1e-4 * max(rms(derivative), 1.0)


def test_a_solution_has_the_methods_of_others(solved_layer):
    view, points = solved_layer["u"], GRID[::50]
    hessian = np.asarray(view.hessian(points))
    np.testing.assert_allclose(
        np.asarray(view.laplacian(points)), np.trace(hessian, axis1=1, axis2=2), atol=1e-10
    )
    assert view.gradient(points).shape == (len(points), 2)
    assert view(points.reshape(-1, 1, 2)).shape == (len(points), 1)
    errors = np.abs(np.asarray(view(points)) - np.asarray(jax.vmap(layer_field)(points)))
    assert rms(errors) < 4 * rms(view.error(points))
    assert rms(solved_layer.residual("equation", points)) < 0.1
    mean_error = solved_layer.error_estimate.of_quantity(lambda s: s["u"](GRID).mean())
    exact_mean = np.mean(np.asarray(jax.vmap(layer_field)(GRID)))
    assert abs(float(view(GRID).mean()) - exact_mean) < 10 * mean_error + 1e-6
    lines = str(solved_layer).splitlines()
    assert len(lines) <= 8
    assert lines[0].startswith("BoxSolution: converged, estimated error")
    assert "u" in solved_layer.to_xarray(resolution=5)
    with pytest.raises(kp.InputError, match="order 4 or less; got order 5"):
        view.d(*"xxxxx")(points)


def test_a_solution_is_plotted_with_its_boxes(solved_layer):
    figure = solved_layer.plot(resolution=20)
    titles = [axis.get_title() for axis in figure.axes]
    assert "solution u" in titles
    assert "estimated error of u" in titles


def test_a_layer_that_is_not_resolved_is_not_converged():
    """Its error is as large as the field."""
    problem = boundary_value(
        SQUARE, lambda x, u: u.d("x") + 0.5 * u.d("y") - 1e-3 * u.laplacian - 1.0, KERNEL
    )
    with pytest.raises(kp.SolveError, match="not resolved") as raised:
        solve_in_boxes(problem, 0.05, max_rows=500)
    solution = raised.value.solution
    assert solution.result is kp.RESULTS.not_resolved
    assert not solution.converged
    assert str(solution).startswith("BoxSolution: NOT converged (not_resolved)")
    assert "500 rows (max_rows)" in solution.message
    assert solution.levels[-1].rows <= 500


def test_a_layer_that_is_resolved_but_inaccurate():
    solution = solve_in_boxes(convection(0.05), 1e-12, max_rows=250, throw=False)
    assert solution.result is kp.RESULTS.accuracy_not_reached
    assert solution.levels[-1].is_resolved
    assert solution.levels[-1].rows <= 250


def test_limits_and_callbacks_end_the_refinement():
    records = []
    stopped = solve_in_boxes(
        layer(), 1e-9, throw=False, callback=lambda r: records.append(r) or len(records) == 2
    )
    assert stopped.result is kp.RESULTS.stopped
    assert stopped.levels == tuple(records)
    assert records[0].rows < records[1].rows
    limited = solve_in_boxes(layer(), 1e-9, throw=False, max_seconds=1e-3)
    assert len(limited.levels) == 1
    assert "max_seconds" in limited.message
    assert not np.isfinite(limited.error_estimate["u"].rms)


def test_other_points_give_another_solution_of_the_same_quality():
    solutions = [solve_in_boxes(layer(), 1e-2, seed=seed) for seed in (0, 0, 1)]
    errors = [relative_error(solution, layer_field) for solution in solutions]
    assert errors[0] == errors[1] != errors[2]
    assert max(errors) < 1e-2


def test_a_start_selects_among_solutions():
    """u'' + u - u³ = 0 has a negative and a positive solution besides zero."""
    problem = boundary_value(
        kp.Box(x=(0, 10)), lambda x, u: u.laplacian + u.value - u.value**3, KERNEL
    )
    start = {"u": lambda x: -jnp.sin(jnp.pi * x[0] / 10)}
    negative = solve_in_boxes(problem, 2e-3, max_rows=800, start=start)
    middle = float(negative["u"]([5.0]))
    assert -1 < middle < -0.9
    restarted = solve_in_boxes(problem, 2e-3, max_rows=800, start=negative)
    assert abs(float(restarted["u"]([5.0])) - middle) < 4e-3


def test_an_equation_that_is_not_finite():
    problem = boundary_value(LINE, lambda x, u: u.laplacian - jnp.log(x[0] - 0.5), KERNEL)
    solution = solve_in_boxes(problem, 1e-3, throw=False)
    assert solution.result is kp.RESULTS.not_finite


def test_a_smooth_kernel_that_stalls_leads_to_boxes():
    """The message of `solve` contains the call, with the requested accuracy."""
    target = kp.Accuracy(1e-4, max_rows=20)
    smooth = kp.solve(convection(1e-3), accuracy=target, throw=False)
    assert "solve_in_boxes(problem, 1e-04)" in smooth.error_estimate.message


def two_fields():
    return kp.Problem(
        kp.Condition("equation", LINE.interior, lambda x, u, v: (u.laplacian - v.value, v.d("x"))),
        fields=[kp.Field("u", KERNEL), kp.Field("v", KERNEL)],
    )


def periodic():
    ring = kp.Box(x=(0, 1), y=(0, 1), periodic="x")
    return boundary_value(ring, lambda x, u: u.laplacian - 1.0, KERNEL)


def noisy():
    data = kp.Condition("data", LINE.interior, lambda x, u: u.value, noise=0.1)
    return boundary_value(LINE, lambda x, u: u.laplacian - 1.0, KERNEL, more=[data])


def in_space():
    cube = kp.Box(x=(0, 1), y=(0, 1), z=(0, 1))
    return boundary_value(cube, lambda x, u: u.laplacian - 1.0, KERNEL)


def of_order_four():
    return boundary_value(LINE, lambda x, u: u.d(*"xxxx") - 1.0, KERNEL)


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        (two_fields, "expected one real field .* got 'u', 'v'"),
        (periodic, "expected no periodic coordinates; got 'x'"),
        (noisy, "expected conditions without noise and data; got 'data'"),
        (in_space, "expected one or two coordinates; got 'x', 'y', 'z'"),
        (
            of_order_four,
            "expected derivatives of order 2 or less; condition 'equation' has order 4",
        ),
    ],
)
def test_problems_that_are_not_supported(problem, expected):
    with pytest.raises(kp.InputError, match=rf"^solve_in_boxes: {expected}.*[Uu]se"):
        solve_in_boxes(problem(), 1e-3)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"accuracy": 0.0}, "accuracy must be positive"),
        ({"accuracy": 2.0}, "accuracy must be positive and finite and at most 1"),
        ({"max_rows": 10}, "max_rows must be"),
        ({"max_seconds": -1.0}, "max_seconds must be positive"),
        ({"seed": -1}, "seed must be"),
        ({"start": {"v": jnp.sin}}, "unknown key of start 'v'; expected 'u'"),
        ({"start": {}}, "start has no field 'u'"),
    ],
)
def test_arguments_that_are_not_supported(options, expected):
    with pytest.raises(kp.InputError, match=expected):
        solve_in_boxes(convection(0.1), **{"accuracy": 1e-3, **options})
