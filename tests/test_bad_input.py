"""What is refused, and what the message says."""

import subprocess
import sys

import numpy as np
import pytest

import kernelpde as kp

SQUARE = kp.Box(x=(0, 1), y=(0, 1))
U = kp.Field("u", kp.Gaussian(0.2))
BOUNDARY = kp.Condition("boundary", SQUARE.boundary, lambda x, u: u.value)
CLOUD = np.random.default_rng(0).random((5, 2))


def value_only(x, u):
    return u.value


def with_data(values, points=CLOUD):
    return kp.Condition("data", points, lambda x, u, y: u.value - y, data={"y": values})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: kp.Gaussian(-0.2), r"lengthscale must be positive and finite; got -0.2"),
        (lambda: kp.Gaussian([0.1, 0.0]), r"positive and finite; got \[0.1, 0.0\]"),
        (lambda: kp.Gaussian(np.nan), "positive and finite; got nan"),
        (lambda: kp.Gaussian([[0.1]]), "one number per coordinate; got an array of shape"),
        (lambda: -1.0 * kp.Gaussian(0.1), "variance must be positive"),
        (lambda: kp.Matern(2.0, 0.1), "half-integer 0.5, 1.5, 2.5, ...; got 2.0"),
        (lambda: kp.Polynomial(0), "degree must be a positive integer; got 0"),
        (lambda: kp.Periodic(1.0, -2.0), "period must be positive and finite; got -2.0"),
        (lambda: kp.Gaussian(0.1).on(), "non-empty list"),
        (lambda: kp.Gaussian(0.1).on("x")([0.0], [1.0]), "by name needs a domain"),
        (lambda: kp.Gaussian(0.1).on(2)([0.0], [1.0]), "the points have 1 coordinates"),
        (lambda: kp.Gaussian([0.1, 0.2])([0.0], [1.0]), "has 2 entries.*points have 1 coordinates"),
        (lambda: kp.Field("u v", kp.Gaussian(0.1)), "usable as an argument"),
        (lambda: kp.Problem(fields=[U]), "at least one condition and one field"),
        (
            lambda: kp.Problem(BOUNDARY, BOUNDARY, fields=[U]),
            "every condition must have a different name",
        ),
        (lambda: kp.Problem(BOUNDARY, fields=[U, U]), "every field must have a different name"),
        (
            lambda: kp.Problem(
                BOUNDARY,
                kp.Condition("b", kp.Box(a=(0, 1), b=(0, 1)).boundary, value_only),
                fields=[U],
            ),
            "have different coordinates",
        ),
        (
            lambda: kp.Problem(
                BOUNDARY, kp.Condition("c", np.zeros((1, 3)), value_only), fields=[U]
            ),
            r"expected points with 2 coordinates \('x', 'y'\); got 3",
        ),
        (
            lambda: kp.Problem(BOUNDARY, fields=[kp.Field("u", kp.Gaussian(0.1).on("z"))]),
            "Unknown coordinate 'z' in a kernel's restriction; the domain has 'x', 'y'",
        ),
        (lambda: with_data([1, 2, np.nan, 4, 5]), "'y' hold a NaN or infinite entry in row 2"),
        (
            lambda: with_data([1, 2]),
            r"expected 5 rows in data 'y', one per point; got shape \(2,\)",
        ),
        (lambda: with_data([1.0], SQUARE.interior), "requires user-supplied points"),
        (
            lambda: kp.Condition("n", CLOUD, value_only, noise=-1.0),
            "nonnegative standard deviation; got -1.0",
        ),
    ],
)
def test_refused_when_described(make, message):
    with pytest.raises(kp.InputError, match=message):
        make()


def solve(condition, points=None, kernel=None, **options):
    field = U if kernel is None else kp.Field("u", kernel)
    return kp.solve(kp.Problem(condition, fields=[field]), points, **options)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: solve(BOUNDARY), r"no number of points given. Expected points=\{'boundary': 300"),
        (lambda: solve(BOUNDARY, {"edge": 3}), "unknown key of points 'edge'; expected 'boundary'"),
        (lambda: solve(BOUNDARY, {"boundary": -3}), "number of points must be at least 1; got -3"),
        (lambda: solve(BOUNDARY, {"boundary": 5}, max_steps=0), "max_steps must be at least 1"),
        (
            lambda: solve(
                kp.Condition("c", np.array([[0.5, 0.5], [0.2, 0.1], [0.5, 0.5]]), value_only)
            ),
            r"1 of its 3 points are duplicates, for example \[0.5, 0.5\]",
        ),
        (
            lambda: solve(
                kp.Condition("hole", (SQUARE - kp.Ball((3, 3), 1.0))["sphere"], value_only),
                {"hole": 10},
            ),
            "region 'sphere' is empty",
        ),
        (
            lambda: solve(
                kp.Condition("e", SQUARE.interior, lambda x, u: u.laplacian),
                {"e": 5},
                kp.Matern(1.5, 0.2),
            ),
            "nu = 1.5 allows derivatives up to order 2.*order 4 is needed.*2.5 or higher",
        ),
        (
            lambda: solve(
                kp.Condition("e", SQUARE.interior, lambda x, u: u.laplacian - x[0].value), {"e": 5}
            ),
            r"are numbers, without \.value or derivatives: write q, not q\.value",
        ),
        (
            lambda: solve(BOUNDARY, {"boundary": 5}, kp.FunctionKernel(lambda x, y: x - y)),
            "a kernel must return one number",
        ),
    ],
)
def test_refused_when_solved(run, message):
    with pytest.raises(kp.InputError, match=message):
        run()


def test_repeated_measurements_are_fine_if_noisy():
    points = np.array([[0.5, 0.5], [0.5, 0.5]])
    condition = kp.Condition(
        "data", points, lambda x, u, y: u.value - y, noise=0.1, data={"y": [1.0, 3.0]}
    )
    solution = solve(condition)
    # Two measurements of variance 0.01 and prior variance 1: mean 2 / (1 + 0.005).
    assert solution["u"](points[0]) == pytest.approx(2 / 1.005, rel=1e-9)


def test_thirty_two_bit_mode_is_refused():
    program = "import kernelpde as kp; kp.Gaussian(0.2)"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, env={}
    )
    assert run.returncode != 0
    assert "PrecisionError: kernelpde needs 64-bit floats" in run.stderr
    assert 'jax.config.update("jax_enable_x64", True)' in run.stderr


def test_importing_flips_no_flags():
    program = (
        "import jax; before = dict(jax.config.values); import kernelpde; "
        "assert dict(jax.config.values) == before"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120, env={})


def test_systems_that_cannot_fit_are_refused_before_they_begin(monkeypatch):
    monkeypatch.setattr("kernelpde.memory.physical_bytes", lambda: 1e6)
    box = kp.Box(x=(0, 1))
    problem = kp.Problem(
        kp.Condition("equation", box.interior, lambda x, u: u.laplacian - 1.0),
        kp.Condition("ends", box.boundary, lambda x, u: u.value),
        fields=[kp.Field("u", kp.Gaussian(0.5))],
    )
    points = {"equation": 298, "ends": 2}
    with pytest.raises(kp.InputError, match=r"solve: 300 rows need about 0\.00158 GB.*at most 226"):
        kp.solve(problem, points)
    with pytest.raises(kp.InputError, match=r"learn: 300 rows need about 0\.00259 GB"):
        kp.learn(problem, points)
