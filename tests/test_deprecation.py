"""Names of the first edition work for one release, and say what they are called now."""

import hashlib
import json

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
        ("RESULT", kp.RESULTS),
        ("LEARNING", kp.learning.RESULTS),
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


@pytest.mark.parametrize(
    ("kind", "given", "old", "new"),
    [
        (kp.Parameter, {"name": "a", "mean": 1.0}, "deviation", "std"),
        (kp.Accuracy, {}, "deviations", "std"),
        (kp.Matern, {"lengthscale": 0.3}, "smoothness", "nu"),
        (kp.RationalQuadratic, {"lengthscale": 0.3}, "mixture", "alpha"),
        (kp.LogNormal, {"median": 0.3}, "spread", "sigma"),
    ],
)
def test_attributes_that_have_moved(kind, given, old, new):
    owner = kind.__name__
    with pytest.warns(DeprecationWarning, match="is now") as caught:
        found = kind(**given, **{old: 2.5})
    assert getattr(found, new) == pytest.approx(2.5, rel=1e-15)
    assert [str(w.message).split(";")[0] for w in caught] == [
        f"{owner}({old}=...) is now {owner}({new}=...)"
    ]
    assert caught[0].filename == __file__
    with pytest.warns(DeprecationWarning, match=f"{owner}.{old} is now {owner}.{new};"):
        assert getattr(found, old) == getattr(found, new)
    with (
        pytest.warns(DeprecationWarning, match="is now"),
        pytest.raises(kp.InputError, match=f"{owner}: {new} is given twice"),
    ):
        kind(**given, **{old: 2.5, new: 2.5})


def test_standard_deviations_by_their_earlier_name():
    noisy = kp.Problem(
        kp.Condition("equation", LINE.interior, lambda x, u, q: -u.laplacian - q),
        kp.Condition("ends", LINE.boundary, lambda x, u: u.value),
        kp.Condition("data", kp.PointCloud([[0.5]]), lambda x, u: u.value - 0.125, noise=0.01),
        fields=[kp.Field("u", kp.Gaussian(0.3)), kp.Parameter("q", mean=0.5, std=1.0)],
    )
    solution = kp.solve(noisy, {"equation": 10, "ends": 2})
    posterior = kp.posterior(solution)
    for old, new in (
        (lambda: posterior["u"].deviation([[0.3]]), posterior["u"].std([[0.3]])),
        (lambda: posterior.parameters["q"].deviation, posterior.parameters["q"].std),
        (lambda: posterior.parameters["q"].spread, posterior.parameters["q"].offset_std),
    ):
        with pytest.warns(DeprecationWarning, match="is now"):
            np.testing.assert_array_equal(old(), new)
    with pytest.warns(DeprecationWarning, match=r"plot\(deviations=...\) is now plot\(std=...\)"):
        solution.plot("u", deviations={"u": posterior["u"].std})
    with pytest.warns(DeprecationWarning, match="is now"):
        found = kp.refine(problem(), POINTS, condition="equation", to=17, rounds=1, by="deviation")
    again = kp.refine(problem(), POINTS, condition="equation", to=17, rounds=1, by="std")
    np.testing.assert_array_equal(found.blocks[0].points, again.blocks[0].points)


def test_files_of_kernels_with_earlier_names(tmp_path):
    def with_kernel(lengthscale, alpha):
        kernel = kp.Matern(4.5, lengthscale) + kp.RationalQuadratic(lengthscale, alpha)
        return kp.Problem(*problem().conditions, fields=[kp.Field("u", kernel)])

    path = tmp_path / "kernels.json"
    kp.save_kernels(path, with_kernel(0.2, 3.0))
    stored = json.loads(path.read_text())
    text = json.dumps({key: value for key, value in stored.items() if key != "digest"})
    content = json.loads(text.replace("nu=", "smoothness=").replace("log_alpha", "log_mixture"))
    assert content != {key: value for key, value in stored.items() if key != "digest"}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps({**content, "digest": digest}))
    found = kp.load_kernels(path, with_kernel(0.5, 1.0))
    numbers = kp.hyperparameters(found.fields[0].kernel)
    assert {name: float(value) for name, value in numbers.items()} == pytest.approx(
        {"first.lengthscale": 0.2, "second.lengthscale": 0.2, "second.alpha": 3.0}
    )


def test_what_there_is():
    assert all(hasattr(kp, name) for name in kp.__all__)
    assert kp.__version__
    assert kp.gallery.__name__ == "kernelpde.gallery"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = kp.nothing
