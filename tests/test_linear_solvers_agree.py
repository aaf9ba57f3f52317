"""Low-rank and sparse solvers agree with the dense one, and the dense one with NumPy."""

from dataclasses import replace
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial import KDTree

import kernelpde as kp
from kernelpde.bilevel import (
    Objective,
    loss_and_curvature,
    loss_and_gradient,
    loss_and_solution,
)
from kernelpde.errors import InputError
from kernelpde.functionals import Functionals, Prior, Term, gram
from kernelpde.gallery import darcy, elliptic
from kernelpde.learning import (
    CollocationResidual,
    DataDensity,
    LinearizedCollocation,
    ThetaMap,
)
from kernelpde.linear_solvers import (
    Dense,
    DenseState,
    Level,
    LowRankState,
    SparseState,
    cholesky,
    choose_solver,
    factorize,
    factorize_sparse,
    flops_per_second,
    generic_cholesky,
    lapack_cholesky,
    levels,
    make_pattern,
    precision_times,
    restore_matrix,
)

GAUSSIAN = elliptic(0.3)
MATERN = elliptic(kernel=kp.Matern(3.5, 0.3))


def near_solution(example, points, seed):
    """Rows linearized close to the solution."""
    problem = example.problem
    blocks = problem.collocate(points, seed=seed)
    exact = 0.99 * example.references["u"](np.asarray(blocks[0].points))
    entries = (jnp.asarray(exact)[:, None], jnp.zeros((len(blocks[1].points), 0)))
    return blocks, problem.at_points(blocks).linearize(entries)


def loss_with(example, solver, points):
    problem = example.problem
    blocks, rows = near_solution(example, points, 0)
    others, validation = near_solution(example, {"equation": 60, "boundary": 20}, 1)
    plan = choose_solver(solver, problem.at_points(blocks)).solver_state
    weights = jnp.asarray(np.r_[np.full(60, 1e-2), np.ones(20)])
    parameters = ThetaMap.of(problem.prior)
    near = plan.neighbors(problem.at_points(others).conditions)
    linearized = LinearizedCollocation(
        parameters, rows, validation, weights, plan, neighbor_groups=near
    )
    return Objective(CollocationResidual(), linearized)


def by_differences(loss, step):
    theta = jnp.asarray(loss.linearized.theta_map.vector)
    ends = [float(loss_and_solution(theta + h, loss)[0]) for h in (step, -step)]
    return (ends[0] - ends[1]) / (2 * step)


def test_low_rank_is_the_dense_solution():
    """At the same points and nugget, to much less than the error of either."""
    points = {"equation": 1300, "boundary": 200}
    one = kp.solve(GAUSSIAN.problem, points, linear_solver=kp.Dense(1e-10, refinement_sweeps=0))
    two = kp.solve(GAUSSIAN.problem, points, linear_solver=kp.LowRank(1e-10))
    grid = GAUSSIAN.grid
    difference = np.asarray(one["u"](grid) - two["u"](grid))
    error = GAUSSIAN.errors(one)["u"]["l2"]
    assert np.sqrt(np.mean(difference**2)) < 0.1 * error
    assert two.residuals["equation"]["rms"] == pytest.approx(
        one.residuals["equation"]["rms"], rel=0.2
    )
    assert "rank" in two.linear_solver_message


@pytest.mark.parametrize("evaluate", [loss_and_curvature, loss_and_gradient])
def test_gradient_of_low_rank_is_that_of_dense_and_of_differences(evaluate):
    points = {"equation": 1800, "boundary": 200}
    dense = loss_with(GAUSSIAN, kp.Dense(1e-6, refinement_sweeps=0), points)
    few = loss_with(GAUSSIAN, kp.LowRank(1e-6), points)
    theta = jnp.asarray(few.linearized.theta_map.vector)
    value, gradient, _, reached = evaluate(theta, few)
    expected, slope, _, _ = evaluate(theta, dense)
    assert bool(reached.linear_solution.succeeded)
    # What is cut off is a thousandth of the nugget.
    assert float(value) == pytest.approx(float(expected), rel=5e-3)
    assert float(gradient[0]) == pytest.approx(float(slope[0]), rel=5e-3)
    assert float(gradient[0]) == pytest.approx(by_differences(few, 1e-3), rel=1e-3)


def test_low_rank_with_noise_and_damping_minimizes_what_it_should():
    """z = T⁻¹ (b - Φu) must give u back: u = κ(·, Φ) z on the rows, up to the nugget."""
    problem = GAUSSIAN.problem
    blocks, rows = near_solution(GAUSSIAN, {"equation": 400, "boundary": 80}, 0)
    plan = choose_solver(kp.LowRank(1e-8), problem.at_points(blocks)).solver_state
    noise = jnp.asarray(np.random.default_rng(0).uniform(0.1, 1.0, 480))
    noisy_rows = replace(rows, variance=noise)
    few = jax.jit(lambda b: plan.solve(problem.prior, replace(noisy_rows, rhs=b)))(rows.rhs)
    dense = DenseState(kp.Dense(1e-8, refinement_sweeps=0))
    all_ = dense.solve(problem.prior, noisy_rows)
    size = float(jnp.max(jnp.abs(all_.row_values)))
    np.testing.assert_allclose(few.row_values, all_.row_values, atol=1e-6 * size)
    assert float(few.norm_squared) == pytest.approx(float(all_.norm_squared), rel=1e-5)


def test_low_rank_refuses_what_it_cannot_do():
    rough, blocks = MATERN.problem, MATERN.problem.collocate({"equation": 3000, "boundary": 200})
    with pytest.raises(kp.InputError, match="not smooth enough"):
        choose_solver(kp.LowRank(), rough.at_points(blocks))
    smooth = GAUSSIAN.problem
    blocks = smooth.collocate({"equation": 500, "boundary": 100})
    with pytest.raises(kp.RankError, match="rows per inducing functional"):
        choose_solver(kp.LowRank(), smooth.at_points(blocks), learning=True)


def test_learning_at_low_rank_ends_where_its_derivatives_would():
    """From a lengthscale that is too long, at so few points that the best one is out of reach."""
    points = {"equation": 700, "boundary": 100}
    learned = kp.learn(
        elliptic(0.8).problem,
        points,
        method=kp.learning.Bilevel(
            multistart=False, final=kp.learning.FinalSolve(linear_solver=kp.LowRank(1e-6))
        ),
        linear_solver=kp.LowRank(1e-6),
        max_steps=20,
        throw=False,
    )
    assert learned.result.name == "max_rank_reached"
    assert not learned.converged
    kept = float(learned.problem.hyperparameters["u"]["lengthscale"])
    (beyond,) = np.exp(learned.history[-1].theta)
    assert beyond < kept < 0.8

    def follows(lengthscale):
        problem = elliptic(lengthscale).problem
        blocks = problem.collocate(points)
        choose_solver(kp.LowRank(1e-6), problem.at_points(blocks), learning=True)

    follows(kept)
    with pytest.raises(kp.RankError):
        follows(float(beyond))


def test_automatic_choice_follows_size_and_rank():
    def plan_for(example, points, **limits):
        problem = example.problem
        blocks = problem.collocate(points)
        solver = kp.Automatic(1e-6, **limits)
        return choose_solver(solver, problem.at_points(blocks))

    points = {"equation": 2300, "boundary": 200}
    assert isinstance(plan_for(GAUSSIAN, points).solver_state, DenseState)
    limits = {"dense_rows": 1000, "max_dense_rows": 2000}
    few = plan_for(GAUSSIAN, points, **limits)
    assert isinstance(few.solver_state, LowRankState)
    assert "rank" in few.message
    assert "2500 rows" in few.message
    local = plan_for(MATERN, points, **limits)
    assert isinstance(local.solver_state, SparseState)
    assert "rank over" in local.message


def test_levels_are_an_order_from_coarse_to_fine():
    points = np.random.default_rng(0).random((3000, 2))
    found = list(levels(points, 64, len(points) ** -0.5))
    everyone = np.concatenate([level.members for level in found])
    np.testing.assert_array_equal(np.sort(everyone), np.arange(3000))
    scales = [level.scale for level in found]
    assert all(a > b for a, b in pairwise(scales))
    for level in found[1:-1]:
        apart = KDTree(points[level.members]).query(points[level.members], k=2)[0][:, 1]
        assert apart.min() > 0.3 * level.scale


def test_elimination_sees_only_what_is_before_and_nothing_twice():
    points = np.random.default_rng(1).random((1200, 2))
    groups = [*levels(points, 64, len(points) ** -0.5)]
    pattern = make_pattern(points, groups, 3.0)
    done = np.zeros(1201, dtype=bool)
    done[1200] = True
    for kind, position in zip(pattern.batch_kind, pattern.position, strict=True):
        batch = pattern.batches[kind]
        columns, rows = np.asarray(batch.columns[position]), np.asarray(batch.rows[position])
        assert done[rows].all()
        real = columns[columns < 1200]
        assert not done[real].any()
        assert np.unique(real).size == real.size
        done[real] = True
    assert done.all()


@pytest.fixture(scope="module")
def small():
    """A Gram matrix, and its factor with a pattern that sees everything."""
    problem = MATERN.problem
    blocks = problem.collocate({"equation": 150, "boundary": 40})
    plan = kp.Sparse().init(problem.at_points(blocks))
    count = plan.pattern.padding_index
    points = np.asarray(plan.functionals.points)[:-1]
    some = np.random.default_rng(0).permutation(count)
    groups = [Level(some[:64], 1.0), Level(some[64:], 1.0)]
    pattern = make_pattern(points, groups, 10.0)
    matrix = np.asarray(gram(problem.prior, plan.functionals, plan.functionals))[:-1, :-1]
    return problem, plan, pattern, matrix


def test_a_factor_that_sees_everything_is_exact(small):
    problem, plan, pattern, matrix = small
    nothing = jnp.zeros(len(matrix) + 1)
    factor = factorize_sparse(problem.prior, plan.functionals, nothing, 1e-13, pattern)
    vector = np.random.default_rng(0).standard_normal(len(matrix))
    longer = jnp.asarray(np.r_[vector, 0.0])
    np.testing.assert_allclose(factor.covariance_times(longer)[:-1], matrix @ vector, atol=1e-6)
    back = factor.precision_times(factor.covariance_times(longer))
    np.testing.assert_allclose(back, longer, atol=1e-3)


def test_precision_and_its_derivative_in_the_kernel(small):
    _, plan, pattern, matrix = small
    vector = matrix @ np.random.default_rng(0).standard_normal(len(matrix))
    longer = jnp.asarray(np.r_[vector, 0.0])

    def moved(shift):
        kernel = kp.Matern(3.5, 0.3)
        where = kernel.log_lengthscale + shift
        return Prior((eqx.tree_at(lambda k: k.log_lengthscale, kernel, where),))

    def product(shift):
        return precision_times(moved(shift), plan.functionals, 1e-8, pattern, longer)

    slope = jax.jit(jax.jacfwd(product))(0.0)

    def dense(shift):
        return gram(moved(shift), plan.functionals, plan.functionals)[:-1, :-1]

    lifted = np.asarray(dense(0.0)) + 1e-8 * np.diag(np.diag(dense(0.0)))
    change = np.array(jax.jvp(dense, (0.0,), (1.0,))[1])
    change += 1e-8 * np.diag(np.diag(change))
    expected = -np.linalg.solve(lifted, change @ np.linalg.solve(lifted, vector))
    size = np.max(np.abs(expected))
    np.testing.assert_allclose(slope[:-1], expected, atol=1e-5 * size)


@pytest.fixture(scope="module")
def solved_sparsely():
    return kp.solve(MATERN.problem, {"equation": 900, "boundary": 120}, linear_solver=kp.Sparse())


def test_sparse_has_the_error_of_dense(solved_sparsely):
    dense = kp.solve(MATERN.problem, {"equation": 900, "boundary": 120})
    ours, theirs = (MATERN.errors(s)["u"]["l2"] for s in (solved_sparsely, dense))
    assert ours < 1.5 * theirs
    assert "Sparse" in solved_sparsely.linear_solver_message


def test_sparse_solution_is_evaluated_and_kept(solved_sparsely, tmp_path):
    """Values and derivatives between the points, and the same again from a file."""
    u, grid = solved_sparsely["u"], np.random.default_rng(0).uniform(0.1, 0.9, (50, 2))
    step = np.array([1e-3, 0.0])
    slope = (u(grid + step) - u(grid - step)) / 2e-3
    np.testing.assert_allclose(u.d("x")(grid), slope, atol=2e-3 * np.max(np.abs(slope)))
    kp.save_solution(tmp_path / "u.npz", solved_sparsely)
    again = kp.load_solution(tmp_path / "u.npz", MATERN.problem)
    np.testing.assert_array_equal(again["u"](grid), u(grid))
    with pytest.raises(kp.InputError, match="sparse solver"):
        kp.posterior(solved_sparsely)


def test_gradient_of_sparse_is_that_of_differences():
    solver = kp.Sparse(nugget=1e-8, tolerance=1e-10)
    loss = loss_with(MATERN, solver, {"equation": 500, "boundary": 80})
    theta = jnp.asarray(loss.linearized.theta_map.vector)
    value, gradient, _, reached = loss_and_curvature(theta, loss)
    assert bool(reached.linear_solution.succeeded)
    assert float(value) > 0
    assert float(gradient[0]) == pytest.approx(by_differences(loss, 1e-3), rel=1e-3)


def test_sparse_says_when_it_does_not_converge():
    """A Gaussian kernel has no screening."""
    solver = kp.Sparse(max_iterations=20)
    with pytest.raises(kp.SolveError, match="Conjugate gradients"):
        kp.solve(elliptic(0.3).problem, {"equation": 900, "boundary": 120}, linear_solver=solver)


def test_sparse_refuses_averages():
    square = kp.Box(x=(0, 1), y=(0, 1))
    means = kp.box_averages([[0.4, 0.4]], [[0.6, 0.6]], nodes=2)
    problem = kp.Problem(
        kp.Condition("mean", means, lambda x, u, value: u.value - value, data={"value": [1.0]}),
        kp.Condition("boundary", square.boundary, lambda x, u: u.value),
        fields=[kp.Field("u", kp.Matern(2.5, 0.3))],
    )
    with pytest.raises(kp.InputError, match="averages"):
        kp.solve(problem, {"boundary": 40}, linear_solver=kp.Sparse())


@pytest.fixture(scope="module")
def noisy():
    """Darcy's problem at a smooth state, with many observations."""
    problem = darcy(0.5, observations=300).problem
    blocks = problem.collocate({"equation": 700, "boundary": 100})
    entries = tuple(
        jnp.stack(
            [
                jnp.sin(2 * b.points[:, 0] + k) * jnp.cos((k + 1) * b.points[:, 1])
                for k in range(len(r.nonlinear))
            ],
            axis=1,
        )
        if r.nonlinear
        else jnp.zeros((len(b.points), 0))
        for r, b in zip(problem.residuals, blocks, strict=True)
    )
    return problem, blocks, problem.at_points(blocks).linearize(entries)


def density_with(noisy, solver):
    problem, blocks, rows = noisy
    learned = problem.with_noises((None, None, jnp.log(jnp.asarray(1e-3))))
    plan = choose_solver(solver, problem.at_points(blocks)).solver_state
    parameters = ThetaMap.of(learned.prior, learned.noises)
    linearized = LinearizedCollocation(
        parameters, rows, None, jnp.ones(0), plan, neighbor_groups=()
    )
    return Objective(DataDensity((2,)), linearized)


def test_density_of_data_at_low_rank_is_that_of_dense_and_has_its_gradient(noisy):
    """The loss itself is rounding at the level of 1e-7: differences want a long step."""
    few, dense = (density_with(noisy, s) for s in (kp.LowRank(1e-7), kp.Dense(1e-7, 1e-6, 0)))
    theta = jnp.asarray(few.linearized.theta_map.vector)
    assert len(theta) == 5
    value, gradient, normal, _ = loss_and_curvature(theta, few)
    expected = loss_and_curvature(theta, dense)
    assert float(value) == pytest.approx(float(expected[0]), rel=1e-5)
    size = float(jnp.max(jnp.abs(expected[1])))
    np.testing.assert_allclose(gradient, expected[1], atol=2e-3 * size)
    scale = np.sqrt(np.outer(*2 * [np.diag(expected[2])]))
    np.testing.assert_allclose(normal / scale, expected[2] / scale, atol=1e-2)
    step = 1e-2
    slopes = [
        (float(loss_and_solution(theta + h, few)[0]) - float(loss_and_solution(theta - h, few)[0]))
        / (2 * step)
        for h in step * jnp.eye(len(theta))
    ]
    np.testing.assert_allclose(gradient, slopes, atol=2e-3 * size)


def test_standard_deviations_at_low_rank_are_those_of_dense(noisy):
    problem, blocks, rows = noisy
    left, right = (
        Functionals(jnp.asarray(np.random.default_rng(n).random((7, 2))), jnp.ones((7, 1)), (term,))
        for n, term in enumerate((Term(0, ((0, 0),)), Term(1, ((1, 0),))))
    )
    found, arguments = [], (problem.prior, rows)

    @eqx.filter_jit
    def conditioned(plan):
        solved = plan.solve(problem.prior, rows)
        return (
            jnp.sqrt(solved.variance(*arguments, left)),
            jnp.sqrt(solved.variance(*arguments, right)),
            solved.covariance(*arguments, left, right),
            solved.quadratic_form(rows.rhs),
            jnp.diag(solved.covariance(*arguments, left, left)),
        )

    for solver in (kp.LowRank(1e-8), kp.Dense(1e-8, 1e-6, 0)):
        plan = choose_solver(solver, problem.at_points(blocks)).solver_state
        found.append(conditioned(plan))
    for few, dense in zip(*(f[:4] for f in found), strict=True):
        np.testing.assert_allclose(few, dense, rtol=1e-2, atol=5e-3 * np.max(np.abs(dense)))
    np.testing.assert_allclose(found[0][0] ** 2, found[1][4], rtol=2e-2)


def test_folds_are_refused_where_there_is_no_inverse(noisy):
    problem, _, _ = noisy
    with pytest.raises(kp.InputError, match="no inverse"):
        kp.learn(problem, {"equation": 100, "boundary": 40}, linear_solver=kp.Sparse())
    with pytest.raises(kp.InputError, match="no inverse"):
        kp.learn(
            GAUSSIAN.problem,
            {"equation": 100, "boundary": 40},
            validation=kp.KFold(),
            linear_solver=kp.LowRank(),
        )


def test_time_is_estimated_before_a_large_solve(caplog):
    """From operations: a triangular solve takes one of M N², the normal equations two."""
    caplog.set_level("INFO", "kernelpde.linear_solvers")
    solution = kp.solve(GAUSSIAN.problem, {"equation": 5900, "boundary": 400})
    assert "Estimated time per step" in caplog.text
    assert "rank" in solution.linear_solver_message
    problem = GAUSSIAN.problem
    choice = choose_solver(kp.Automatic(), problem.at_points(solution.point_sets))
    assert isinstance(choice.solver_state, LowRankState)
    rank = len(choice.solver_state.stack.points)
    assert choice.seconds == pytest.approx(3 * 6300 * rank**2 / flops_per_second(), rel=0.5)


def spd(size, seed, condition=1e3):
    rng = np.random.default_rng(seed)
    q, _ = np.linalg.qr(rng.standard_normal((size, size)))
    matrix = (q * np.geomspace(1, 1 / condition, size)) @ q.T
    scales = np.geomspace(0.1, 10.0, size)
    matrix = scales[:, None] * matrix * scales
    return jnp.asarray((matrix + matrix.T) / 2)


MATRIX = spd(30, 0, 20.0)
NOISE = jnp.asarray(np.diag(MATRIX) * np.random.default_rng(1).random(30) * (np.arange(30) % 2))
RHS = jnp.asarray(np.random.default_rng(2).standard_normal(30))
DIRECTION = 0.1 * spd(30, 3)
MAX_NUGGET = 1e-6


def test_panels_give_the_factor_of_the_whole():
    """Large matrices are factored some rows at a time, and the other triangle stays."""
    root = np.random.default_rng(0).standard_normal((23, 23))
    matrix = root @ root.T + 23 * np.eye(23)
    whole, good = cholesky(jnp.asarray(matrix))
    parts, fine = cholesky(jnp.asarray(matrix), panel_size=7)
    assert bool(good)
    assert bool(fine)
    np.testing.assert_allclose(np.triu(parts), np.triu(whole), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(np.tril(parts, -1), np.tril(matrix, -1))
    assert not bool(cholesky(jnp.asarray(matrix - 40 * np.eye(23)), panel_size=7)[1])


def test_solve_with_noise_per_row():
    solved = factorize(MATRIX, NOISE, 0.0, MAX_NUGGET).solve(RHS, 2)
    expected = np.linalg.solve(np.asarray(MATRIX) + np.diag(NOISE), RHS)
    np.testing.assert_allclose(solved, expected, rtol=1e-9)


def test_nugget_is_relative_to_the_diagonal():
    factor = factorize(MATRIX, NOISE, 1e-3, MAX_NUGGET)
    total = np.asarray(MATRIX) + np.diag(NOISE)
    lifted = total + 1e-3 * np.diag(np.diag(total))
    np.testing.assert_allclose(factor.solve(RHS), np.linalg.solve(lifted, RHS), rtol=1e-9)
    assert factor.log_det() == pytest.approx(np.linalg.slogdet(lifted)[1], rel=1e-12)
    np.testing.assert_allclose(
        factor.diagonal_of_inverse(), np.diag(np.linalg.inv(lifted)), rtol=1e-9
    )


def test_scaling_rows_scales_the_solution():
    """Diagonal scaling commutes with everything: nugget, factor and refinement."""
    scales = jnp.asarray(2.0 ** np.random.default_rng(4).integers(-20, 20, 30))
    plain = factorize(MATRIX, NOISE, 1e-6, MAX_NUGGET).solve(RHS, 2)
    scaled_matrix = scales[:, None] * MATRIX * scales
    scaled = factorize(scaled_matrix, scales**2 * NOISE, 1e-6, MAX_NUGGET)
    np.testing.assert_array_equal(scaled.solve(scales * RHS, 2) * scales, plain)


def test_refinement_removes_the_bias_of_the_nugget():
    exact = np.linalg.solve(np.asarray(MATRIX), RHS)

    def error(sweeps):
        solved = factorize(MATRIX, 0 * NOISE, 1e-4, MAX_NUGGET).solve(RHS, sweeps)
        return np.linalg.norm(solved - exact) / np.linalg.norm(exact)

    assert error(1) < 0.2 * error(0)
    assert error(2) < 0.2 * error(1)


def everything(t):
    factor = factorize(MATRIX + t * DIRECTION, NOISE * (1 + t), 1e-3, MAX_NUGGET)
    return jnp.stack(
        [
            jnp.sum(factor.solve(RHS * (1 + t * t + t), 2) ** 2),
            factor.log_det(),
            jnp.sum(jnp.log(factor.diagonal_of_inverse())),
        ]
    )


def test_derivatives_against_finite_differences():
    step = 1e-5
    central = (everything(step) - everything(-step)) / (2 * step)
    forward = jax.jacfwd(everything)(0.0)
    reverse = jax.jacrev(everything)(0.0)
    np.testing.assert_allclose(forward, central, rtol=2e-8)
    np.testing.assert_allclose(reverse, forward, rtol=1e-10)
    np.testing.assert_allclose(jax.jit(jax.jacrev(everything))(0.0), forward, rtol=1e-10)


def test_second_derivatives():
    step = 1e-4
    slope = jax.jacfwd(lambda t: everything(t)[0])
    central = (slope(step) - slope(-step)) / (2 * step)
    assert jax.jacfwd(slope)(0.0) == pytest.approx(float(central), rel=1e-6)


def count(jaxpr, name):
    total = 0
    for equation in jaxpr.eqns:
        total += equation.primitive.name == name
        for value in jax.tree.leaves(
            list(equation.params.values()), is_leaf=lambda v: hasattr(v, "eqns")
        ):
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                total += count(inner, name)
    return total


def test_the_gradient_adds_no_factorization_and_no_matrix_product():
    def loss(t):
        return jnp.sum(
            factorize(MATRIX + t * DIRECTION, NOISE, 1e-12, MAX_NUGGET).solve(RHS, 2) ** 2
        )

    value, gradient = jax.make_jaxpr(loss)(0.0), jax.make_jaxpr(jax.grad(loss))(0.0)
    assert count(value.jaxpr, "ffi_call") > 0
    assert count(gradient.jaxpr, "ffi_call") == count(value.jaxpr, "ffi_call")
    assert count(gradient.jaxpr, "cholesky") == count(value.jaxpr, "cholesky")


def test_batched_factorizations():
    stack = jnp.stack([spd(12, seed) for seed in range(3)])
    noise, rhs = jnp.zeros(12), jnp.arange(1.0, 13.0)
    solved = jax.jit(jax.vmap(lambda m: factorize(m, noise, 1e-12, MAX_NUGGET).solve(rhs, 2)))(
        stack
    )
    for matrix, solution in zip(stack, solved, strict=True):
        np.testing.assert_allclose(solution, np.linalg.solve(matrix, rhs), rtol=1e-6)


def test_batched_escalation_is_per_matrix():
    singular = jnp.ones((4, 4)) - 1e-9 * jnp.eye(4)
    stack = jnp.stack([singular, jnp.eye(4) + 1.0])
    nuggets = jax.vmap(lambda m: factorize(m, jnp.zeros(4), 1e-12, MAX_NUGGET).nugget)(stack)
    assert nuggets[0] > 1e-12
    assert nuggets[1] == 1e-12


def test_escalation_finds_the_first_nugget_that_works():
    # Eigenvalues of the scaled matrix: 4 - 3e and, three times, -e: any nugget above e will do.
    e = 3e-9
    matrix = (1 + e) * jnp.ones((4, 4)) - e * jnp.eye(4)
    factor = factorize(matrix, jnp.zeros(4), 1e-12, MAX_NUGGET)
    assert factor.nugget == pytest.approx(1e-8, rel=1e-12)
    assert factor.result == kp.RESULTS.nugget_raised.code
    lifted = np.asarray(matrix) + 1e-8 * np.eye(4)
    solved = factor.solve(jnp.arange(4.0), 0)
    np.testing.assert_allclose(lifted @ solved, np.arange(4.0), atol=1e-6)


def test_failures_have_a_code_and_a_message():
    indefinite = factorize(jnp.array([[1.0, 2.0], [2.0, 1.0]]), jnp.zeros(2), 1e-12, MAX_NUGGET)
    assert indefinite.result == kp.RESULTS.not_positive_definite.code
    assert "largest nugget" in kp.RESULTS.from_code(int(indefinite.result)).value
    assert indefinite.nugget == 1e-6
    nan = factorize(jnp.full((2, 2), jnp.nan), jnp.zeros(2), 1e-12, MAX_NUGGET)
    assert nan.result == kp.RESULTS.not_finite.code
    for factor in (indefinite, nan):
        assert np.isnan(factor.solve(jnp.ones(2))).all()
        assert np.isnan(factor.log_det())
        assert np.isnan(factor.diagonal_of_inverse()).all()


def test_condition_is_a_lower_bound_that_follows_the_truth():
    for condition in (1e3, 1e6):
        matrix = spd(40, 5, condition)
        scale = 1 / np.sqrt(np.diag(matrix))
        truth = np.linalg.cond(scale[:, None] * np.asarray(matrix) * scale)
        bound = float(factorize(matrix, jnp.zeros(40), 0.0, MAX_NUGGET).condition_number())
        assert truth / 100 < bound <= truth


def test_factor_leaves_the_lower_triangle_on_every_platform():
    for function in (lapack_cholesky, generic_cholesky):
        both, positive = jax.jit(function)(MATRIX)
        assert positive
        factor = np.triu(both)
        np.testing.assert_allclose(factor.T @ factor, MATRIX, rtol=1e-10, atol=1e-13)
        np.testing.assert_array_equal(np.tril(both, -1), np.tril(MATRIX, -1))
        np.testing.assert_array_equal(restore_matrix(both, jnp.diagonal(MATRIX)), MATRIX)


def test_settings_out_of_range_are_refused():
    with pytest.raises(InputError, match=r"nugget must be .*at least 0 and at most 1; got -1"):
        Dense(nugget=-1.0)
    with pytest.raises(InputError, match="refinement_sweeps must be at least 0; got -1"):
        Dense(refinement_sweeps=-1)
