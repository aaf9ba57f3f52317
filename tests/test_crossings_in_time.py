"""Windows of time, their files and animations, crossed with complex, periodic and masked fields."""

import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

import kernelpde as kp


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
    return kp.Problem(
        kp.Condition("equation", strip.interior, lambda x, u: u.d("t", "t") - u.d("x", "x")),
        kp.Condition("ends", strip.boundary, lambda x, u: u.value),
        kp.Condition("initial", strip.initial, lambda x, u: (u.value - jnp.sin(x[1]), u.d("t"))),
        fields=[kp.Field("u", kp.Gaussian([1.0, 1.5]))],
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
    problem = kp.Problem(
        kp.Condition("equation", disk.interior, lambda x, u: u.d("t") - u.laplacian),
        kp.Condition("boundary", disk.boundary, lambda x, u: u.value - 1.0),
        kp.Condition("initial", disk.initial, lambda x, u: u.value - 1.0),
        fields=[kp.Field("u", kp.Gaussian(1.0))],
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
