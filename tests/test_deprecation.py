"""Names of the first edition work for one release, and say what they are called now."""

import jax
import numpy as np
import pytest

import kernelpde as kp

LINE = kp.Box(x=(0.0, 1.0))


def problem() -> kp.Problem:
    return kp.Problem(
        kp.Condition("equation", LINE.interior, lambda x, u: -u.laplacian + u.value**3 - 1.0),
        kp.Condition("ends", LINE.boundary, lambda x, u: u.value),
        fields=[kp.Field("u", kp.Gaussian(0.3))],
    )


POINTS = {"equation": 15, "ends": 2}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Fresh", kp.Resampled),
        ("Folds", kp.KFold),
        ("Predictive", kp.LeaveOneOutPredictive),
        ("OuterLevenbergMarquardt", kp.learning.LevenbergMarquardt),
        ("OuterGaussNewtonCG", kp.learning.GaussNewtonCG),
    ],
)
def test_names_that_have_moved(old, new):
    with pytest.warns(DeprecationWarning, match=rf"kernelpde.{old} is now kernelpde\."):
        assert getattr(kp, old) is new


def test_arguments_that_have_moved():
    expected = kp.solve(
        problem(), POINTS, solver=kp.GaussNewton(), linear_solver=kp.Dense(nugget=1e-9)
    )
    with pytest.warns(DeprecationWarning, match="solver") as caught:
        found = kp.solve(problem(), POINTS, method=kp.GaussNewton(), solver=kp.Dense(nugget=1e-9))
    assert {str(w.message).split(";")[0] for w in caught} == {
        "solve(method=...) is now solve(solver=...)",
        "solve(solver=...) is now solve(linear_solver=...)",
    }
    assert {w.filename for w in caught} == {__file__}
    np.testing.assert_array_equal(found["u"]([[0.4]]), expected["u"]([[0.4]]))
    with pytest.warns(DeprecationWarning, match=r"LevenbergMarquardt\(tolerance=...\)"):
        loose = kp.solve(problem(), POINTS, tolerance=0.5)
    assert loose.steps < kp.solve(problem(), POINTS).steps
    with pytest.warns(DeprecationWarning, match=r"Solution\.solver is now Solution\.linear_solver"):
        assert found.solver == found.linear_solver
    with (
        pytest.warns(DeprecationWarning, match="solver"),
        pytest.raises(kp.InputError, match="linear_solver is given twice"),
    ):
        kp.solve(problem(), POINTS, solver=kp.Dense(), linear_solver=kp.Dense())


def test_arguments_that_are_grouped_now(tmp_path):
    line = jax.make_mesh((1,), ("rows",))
    expected = kp.learn(
        problem(),
        POINTS,
        method=kp.learning.Bilevel(
            optimizer=kp.LBFGS(steps=3),
            regularizer=kp.L2(1e-3),
            solver=kp.GaussNewton(),
            tolerance=0.1,
            multistart=False,
            final=kp.learning.FinalSolve({"equation": 20, "ends": 2}, 5, kp.Dense(nugget=1e-9)),
        ),
        linear_solver=kp.Automatic(nugget=1e-9, refinement=0),
    )
    with pytest.warns(DeprecationWarning, match="is now") as caught:
        found = kp.learn(
            problem(),
            POINTS,
            optimizer=kp.LBFGS(steps=3),
            regularizer=kp.L2(1e-3),
            method=kp.GaussNewton(),
            tolerance=0.1,
            starts=False,
            final={"equation": 20, "ends": 2},
            final_seed=5,
            final_solver=kp.Dense(nugget=1e-9),
            solver=kp.Automatic(nugget=1e-9, refinement=0),
            mesh=line,
            checkpoint=tmp_path / "run.kpde",
            notes={"a": 1},
        )
    assert {w.filename for w in caught} == {__file__}
    assert found.linear_solver == kp.Dense(nugget=1e-9)
    np.testing.assert_array_equal(found.solution["u"]([[0.4]]), expected.solution["u"]([[0.4]]))
    assert kp.learning.read_notes(tmp_path / "run.kpde") == {"a": 1}
    with pytest.warns(DeprecationWarning, match=r"solve\(blocks=...\) is now solve\(points=...\)"):
        again = kp.solve(problem(), blocks=problem().collocate(POINTS))
    np.testing.assert_array_equal(again["u"]([[0.4]]), kp.solve(problem(), POINTS)["u"]([[0.4]]))


def test_what_there_is():
    assert all(hasattr(kp, name) for name in kp.__all__)
    assert kp.__version__
    assert kp.gallery.__name__ == "kernelpde.gallery"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = kp.nothing
