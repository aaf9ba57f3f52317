"""The pages of the gallery: short, in groups, and right at small size with their kernels."""

import inspect
from pathlib import Path

import numpy as np
import pytest

import kernelpde as kp
from kernelpde.gallery import EXAMPLES, FourierSeries, example_groups, page_summaries

PAGES = Path(kp.gallery.__file__).parent / "pages"

SLOW = {"kirsch", "taylor-green"}
"""Compile for half a minute each."""

COARSE = {"allen-cahn", "burgers-periodic", "kirsch"}
"""So few points do not resolve these, and the result says so."""


@pytest.mark.parametrize("name", page_summaries())
def test_pages_are_short(name):
    text = (PAGES / f"{name.replace('-', '_')}.py").read_text()
    assert len(text.splitlines()) <= 60
    heading, example = page_summaries()[name], EXAMPLES[name]()
    assert heading.summary.endswith(".")
    assert (heading.points, heading.training) == (example.points, example.training)
    assert example.name == name
    clouds = {c.name for c in example.problem.conditions if isinstance(c.region, kp.PointCloud)}
    names = {c.name for c in example.problem.conditions} - clouds
    assert set(example.points) == set(example.training) == names
    assert all(example.training[n] <= example.points[n] for n in names)


def test_at_least_forty_examples_in_groups():
    found = example_groups()
    assert sorted(name for names in found.values() for name in names) == sorted(EXAMPLES)
    assert len(EXAMPLES) >= 40
    assert {"elliptic", "fluids", "solids", "integral equations", "inverse problems"} <= set(found)


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in page_summaries()],
)
def test_pages_are_right(name):
    example = EXAMPLES[name]()
    if example.num_windows > 1:
        solution = kp.march(example.problem, example.num_windows, example.small, throw=False)
    else:
        solution = kp.solve(example.problem, example.small, sampling=example.sampling, throw=False)
    assert solution.converged != (name in COARSE), solution
    errors = {field: size["relative"] for field, size in example.errors(solution).items()}
    assert max(errors.values()) < example.bound, errors
    if isinstance(solution, kp.Evolution):
        assert not example.parameters
        return
    for parameter, value in example.parameters.items():
        assert solution.parameters[parameter] == pytest.approx(value, rel=example.bound)


def test_a_fourier_series_follows_what_is_known():
    heat = FourierSeries(
        np.sin, lambda k: np.real(k**2), lambda u, *_: 0 * u, 0, 2 * np.pi, 1.0, 64, 50
    )
    points = np.random.default_rng(0).random((50, 2)) * [1.0, 2 * np.pi]
    np.testing.assert_allclose(
        heat(points), np.exp(-points[:, 0]) * np.sin(points[:, 1]), atol=1e-12
    )
    # A logistic equation at every point.
    logistic = FourierSeries(
        lambda x: 0.5 + 0 * x,
        lambda k: 1 + 0 * np.real(k),
        lambda u, *_: -np.fft.fft(u**2),
        0,
        1,
        2.0,
        8,
        400,
    )
    points = np.array([[0.0, 0.3], [0.7, 0.1], [2.0, 0.9]])
    np.testing.assert_allclose(logistic(points), 1 / (1 + np.exp(-points[:, 0])), atol=1e-9)


@pytest.mark.parametrize("name", ["kuramoto-sivashinsky", "cahn-hilliard", "allen-cahn"])
def test_fourier_references_are_converged(name):
    """A quarter of the work changes nothing."""
    reference = EXAMPLES[name]().references["u"]
    settings = {key: getattr(reference, key) for key in inspect.signature(FourierSeries).parameters}
    settings |= {"modes": reference.modes // 2, "steps": reference.steps // 2}
    points = np.random.default_rng(0).random((100, 2))
    points = points * [reference.end, reference.high - reference.low] + [0, reference.low]
    # The initial value of Allen and Cahn's equation has a kink where the circle closes.
    limit = 1e-5 if name == "allen-cahn" else 1e-8
    assert np.abs(reference(points) - FourierSeries(**settings)(points)).max() < limit
