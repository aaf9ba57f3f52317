"""Programs are shared by sizes and equations, and compiled with options the compiler knows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import SQUARE, boundary_value

import kernelpde as kp
from kernelpde import compiling
from kernelpde.nonlinear import SolveInputs


@pytest.fixture
def other_options(monkeypatch):
    """An option that no compiler knows, beside one that it does."""
    options = {"xla_cpu_prefer_vector_width": 256, "xla_cpu_fly_to_the_moon": True}
    monkeypatch.setattr(compiling, "_OPTIONS", options)


def test_an_option_that_the_compiler_does_not_know_is_left_out(other_options):
    assert compiling.cpu_options({}) == {"xla_cpu_prefer_vector_width": 256}
    cube = compiling.compiled(lambda x: x**3)
    assert float(cube(jnp.asarray(3.0))) == 27.0


def test_a_value_that_makes_no_sense_is_not_known():
    assert compiling.supports_options(xla_cpu_prefer_vector_width=512)
    assert not compiling.supports_options(xla_cpu_prefer_vector_width="wide")


def test_compiled_functions_can_be_mapped_and_differentiated_inside_another_jit():
    cube = compiling.compiled(lambda x: x**3)
    x = jnp.linspace(0.0, 1.0, 5)
    slopes = jax.jit(jax.vmap(jax.grad(cube)))(x)
    np.testing.assert_allclose(slopes, 3.0 * np.asarray(x) ** 2, rtol=1e-15)


def test_the_ladder():
    rungs = [compiling.padded_size(n) for n in range(1, 1001)]
    assert all(n <= rung <= max(1.34 * n, n + 1) for n, rung in enumerate(rungs, start=1))
    assert all(
        compiling.padded_size(n) == n for n in (20, 50, 80, 100, 200, 300, 500, 1000, 1001, 4321)
    )
    assert len(set(rungs)) < 30


def reaction(term, value) -> kp.Problem:
    """-Δu + term(u) = 1 with u = value on the boundary."""
    return boundary_value(
        SQUARE, lambda x, u: -u.laplacian + term(u) - 1.0, kp.Gaussian(0.4), exact=value
    )


def compilations(monkeypatch) -> dict[str, int]:
    """A place where programs are counted from now on, with none there yet."""
    programs = compiling.ProgramCache(100)
    monkeypatch.setattr(compiling, "program_cache", programs)
    return programs.compile_counts


GENERIC = ("_damped_step", "_decide", "evaluate_jets")


def test_other_numbers_of_points_and_other_equations_compile_no_linear_algebra(monkeypatch):
    made = compilations(monkeypatch)
    cubic = reaction(lambda u: u.value**3, lambda x: 0.0)
    kp.solve(cubic, {"equation": 60, "boundary": 30})
    first = dict(made)
    assert all(first[name] == 1 for name in GENERIC)
    for counts in ((59, 27), (51, 30), (60, 26)):
        kp.solve(cubic, dict(zip(("equation", "boundary"), counts, strict=True)))
    assert {**made, "_relative_residuals": 1} == first
    sine = reaction(lambda u: jnp.sin(u.value) * jnp.exp(u.value), lambda x: x[0] * x[1])
    kp.solve(sine, {"equation": 60, "boundary": 30})
    assert {name: made[name] for name in GENERIC} == {name: first[name] for name in GENERIC}


def test_another_equation_learns_with_the_programs_of_the_first(monkeypatch):
    made = compilations(monkeypatch)
    points = {"equation": 60, "boundary": 30}
    kp.learn(reaction(lambda u: u.value**3, lambda x: 0.0), points)
    first = dict(made)
    kp.learn(reaction(lambda u: jnp.sin(u.value) * 2.0, lambda x: 0.1 * x[0]), points)
    generic = {*GENERIC, "full_inner_step", "loss_and_curvature", "prior_row_variance"}
    assert generic <= {name for name in made if made[name] == first.get(name)} | {"line_search"}


@pytest.mark.parametrize("start", [None, {"u": lambda x: x[0] * x[1]}])
def test_padded_rows_change_nothing(start, monkeypatch):
    problem = boundary_value(
        SQUARE,
        lambda x, u: -u.laplacian + u.value**3 - 1.0,
        kp.Matern(4.5, 0.5),
        more=[
            kp.Condition(
                "data",
                kp.PointCloud([[0.5, 0.5], [0.2, 0.3], [0.7, 0.1]]),
                lambda x, u: u.value - 0.05,
                noise=0.1,
            )
        ],
    )
    points = {"equation": 51, "boundary": 21}
    place = np.random.default_rng(0).random((13, 2))
    solver = kp.Dense(nugget=1e-9)
    filled = kp.solve(problem, points, linear_solver=solver, start=start, throw=False)
    monkeypatch.setattr(SolveInputs, "padded", lambda self: self)
    bare = kp.solve(problem, points, linear_solver=solver, start=start, throw=False)
    np.testing.assert_allclose(filled["u"](place), bare["u"](place), rtol=1e-9)
    assert filled.result == bare.result
    for name in ("equation", "boundary", "data"):
        for size in ("rms", "max"):
            np.testing.assert_allclose(
                filled.residuals[name][size], bare.residuals[name][size], rtol=1e-6, atol=1e-12
            )
    np.testing.assert_allclose(filled.condition_number, bare.condition_number, rtol=1e-6)


@pytest.mark.usefixtures("optimized")
@pytest.mark.parametrize("count", [5, 2000])
def test_arctangents_are_right(count):
    # With 512 bits XLA's are wrong by about one; programs that have some are compiled without.
    x = jnp.linspace(-3.0, 3.0, count)
    looped = compiling.compiled(lambda x: jax.lax.fori_loop(0, 2, lambda _, a: jnp.arctan(a), x))
    np.testing.assert_allclose(looped(x), np.arctan(np.arctan(x)), rtol=1e-14)
    plain = compiling.pointwise(lambda x: jnp.arctan(x) + 1)
    np.testing.assert_allclose(plain(x), np.arctan(x) + 1, rtol=1e-14, atol=1e-15)


def test_looking_for_arctangents_does_not_trace_twice():
    traces = []
    doubled = compiling.compiled(lambda x: traces.append(0) or 2 * x)
    doubled(jnp.ones(2000))
    assert len(traces) == 1


@pytest.mark.usefixtures("optimized")
def test_a_residual_with_an_arctangent_and_many_rows():
    line = kp.Box(x=(-3, 3))
    problem = kp.Problem(
        kp.Condition("slope", line.interior, lambda x, u: u.d("x") - 1 / (1 + x[0] ** 2)),
        kp.Condition("values", line.interior, lambda x, u: u.value - jnp.arctan(x[0])),
        fields=[kp.Field("u", kp.Gaussian(0.5))],
    )
    solution = kp.solve(problem, {"slope": 600, "values": 600})
    x = np.linspace(-3, 3, 50)
    np.testing.assert_allclose(solution["u"](x[:, None]), np.arctan(x), atol=1e-6)
