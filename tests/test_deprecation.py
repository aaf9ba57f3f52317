"""Names of the first edition work for one release, and say what they are called now."""

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
    assert [str(w.message).split(";")[0] for w in caught] == [
        "solve(method=...) is now solve(solver=...)",
        "solve(solver=...) is now solve(linear_solver=...)",
    ]
    np.testing.assert_array_equal(found["u"]([[0.4]]), expected["u"]([[0.4]]))
    with pytest.warns(DeprecationWarning, match=r"Solution\.solver is now Solution\.linear_solver"):
        assert found.solver == found.linear_solver
    with (
        pytest.warns(DeprecationWarning, match="solver"),
        pytest.raises(kp.InputError, match="linear_solver is given twice"),
    ):
        kp.solve(problem(), POINTS, solver=kp.Dense(), linear_solver=kp.Dense())


def test_what_there_is():
    assert all(hasattr(kp, name) for name in kp.__all__)
    assert kp.__version__
    assert kp.gallery.__name__ == "kernelpde.gallery"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = kp.nothing
