"""Low-rank and sparse solvers against the dense one, and the choice between them."""

from dataclasses import replace
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial import KDTree

import kernelpde as kp
from kernelpde.functionals import Functionals, Prior, Term, gram
from kernelpde.gallery import darcy, elliptic
from kernelpde.learning import (
    Loss,
    ThetaMap,
    density_and_curvature,
    loss_and_curvature,
    loss_and_gradient,
    loss_and_state,
)
from kernelpde.linear_solvers import (
    DenseState,
    Level,
    LowRankState,
    SparseState,
    choose_solver,
    factorize_sparse,
    flops_per_second,
    levels,
    make_pattern,
    precision_times,
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
    return Loss(parameters, rows, validation, weights, plan, None, neighbor_groups=near)


def by_differences(loss, step):
    theta = jnp.asarray(loss.theta_map.vector)
    ends = [float(loss_and_state(theta + h, loss)[0]) for h in (step, -step)]
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
    theta = jnp.asarray(few.theta_map.vector)
    value, gradient, _, reached = evaluate(theta, few)
    expected, slope, _, _ = evaluate(theta, dense)
    assert bool(reached.succeeded)
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
    theta = jnp.asarray(loss.theta_map.vector)
    value, gradient, _, reached = loss_and_curvature(theta, loss)
    assert bool(reached.succeeded)
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
    return Loss(parameters, rows, None, jnp.ones(0), plan, None, data=(2,), neighbor_groups=())


def test_density_of_data_at_low_rank_is_that_of_dense_and_has_its_gradient(noisy):
    """The loss itself is rounding at the level of 1e-7: differences want a long step."""
    few, dense = (density_with(noisy, s) for s in (kp.LowRank(1e-7), kp.Dense(1e-7, 1e-6, 0)))
    theta = jnp.asarray(few.theta_map.vector)
    assert len(theta) == 5
    value, gradient, normal, _ = density_and_curvature(theta, few)
    expected = density_and_curvature(theta, dense)
    assert float(value) == pytest.approx(float(expected[0]), rel=1e-5)
    size = float(jnp.max(jnp.abs(expected[1])))
    np.testing.assert_allclose(gradient, expected[1], atol=2e-3 * size)
    scale = np.sqrt(np.outer(*2 * [np.diag(expected[2])]))
    np.testing.assert_allclose(normal / scale, expected[2] / scale, atol=1e-2)
    step = 1e-2
    slopes = [
        (float(loss_and_state(theta + h, few)[0]) - float(loss_and_state(theta - h, few)[0]))
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
