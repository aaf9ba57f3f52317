"""The command line, as a script would use it."""

import json
import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """What one command has compiled serves the next."""
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True)
def _cached(cache, monkeypatch):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", cache)
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")


def kernelpde(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "kernelpde", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_run_prints_one_json_object():
    run = kernelpde(
        "run", "elliptic", "--lengthscale", "0.2", "--json",
        "--points", "equation=400", "--points", "boundary=80",
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout)
    assert report["problem"] == "elliptic"
    assert report["seed"] == 0
    assert report["points"] == {"equation": 400, "boundary": 80}
    assert report["hyperparameters"]["u"]["lengthscale"] == pytest.approx(0.2)
    assert report["errors"]["u"]["l2"] < 2e-4
    assert report["errors"]["u"]["linf"] >= report["errors"]["u"]["l2"]
    assert report["nugget"] == 1e-12
    assert report["converged"] is True
    assert 3 <= report["iterations"] <= 12
    assert report["seconds"]["compile"] > 0
    assert report["seconds"]["run"] > 0


def test_an_accuracy_from_the_command_line():
    asked = ("run", "elliptic", "--accuracy", "1e-3", "--sampling", "halton")
    report = json.loads(kernelpde(*asked, "--json").stdout)
    assert report["converged"]
    estimated = report["estimated errors"]["u"]["rms"]
    assert estimated <= 1e-3
    assert 0.5 < estimated / report["errors"]["u"]["relative"] < 10
    assert report["points"]["equation"] >= 100
    ended = kernelpde(*asked, "--points", "boundary=9")
    assert "--accuracy chooses points and kernel" in ended.stderr


def test_an_inverse_problem_comes_with_its_uncertainty():
    run = kernelpde("run", "string", "--learn", "--seed", "3", "--json")
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout)
    load = report["parameters"]["load"]
    assert load["truth"] == 1.5
    assert abs(load["mean"] - 1.5) < 3 * load["deviation"]
    assert load["interval"][0] < load["mean"] < load["interval"][1]
    assert 0.3 < report["chi_squared"]["data"] < 2.0
    assert report["errors"]["u"]["l2"] < 3 * report["deviations"]["u"]
    assert report["nugget"] == 1e-10


def test_a_run_that_does_not_converge_has_its_own_exit_code():
    run = kernelpde(
        "run", "elliptic", "--steps", "1", "--points", "equation=100", "--points", "boundary=40"
    )
    assert run.returncode == 1
    assert "NOT converged" in run.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "nonsense"), "Unknown problem 'nonsense'; there are elliptic"),
        (("run", "elliptic", "--lengthscale", "-1"), "must be positive and finite; got -1.0"),
        (("run", "elliptic", "--points", "equation"), "Expected CONDITION=COUNT"),
        (("run", "elliptic", "--points", "edge=3"), "names 'edge', but the conditions are"),
    ],
)
def test_mistakes_get_one_paragraph_and_no_traceback(arguments, message):
    run = kernelpde(*arguments)
    assert run.returncode not in (0, 1) or "kernelpde:" in run.stderr
    text = " ".join(run.stderr.replace("│", " ").split())
    assert message in text
    assert "Traceback" not in run.stderr


def test_learning_from_the_command_line():
    run = kernelpde(
        "run", "elliptic", "--learn", "--from", "1.0", "--json",
        "--points", "equation=600", "--points", "boundary=120",
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout)
    assert report["learning"]["from"] == 1.0
    assert report["learning"]["factorizations"] <= 100
    assert report["hyperparameters"]["u"]["lengthscale"] < 0.3
    assert report["errors"]["u"]["l2"] < 2e-5


@pytest.mark.paper
def test_kernels_are_learned_kept_and_used_again(tmp_path):
    few = ("--points", "equation=300", "--points", "ends=80", "--points", "initial=60")
    path = str(tmp_path / "kernels.json")
    first = kernelpde(
        "run", "gray-scott", "--learn", "--json", "--sampling", "halton", *few,
        "--save-kernels", path,
    )  # fmt: skip
    assert first.returncode == 0, first.stderr
    learned = json.loads(first.stdout)
    assert learned["errors"]["v"]["l2"] < 1e-4
    again = kernelpde(
        "run", "gray-scott-b", "--json", "--sampling", "halton", *few, "--kernels", path
    )
    report = json.loads(again.stdout)
    assert report["hyperparameters"] == learned["hyperparameters"]
    assert report["errors"]["u"]["l2"] < 1e-2


def test_a_complex_problem_reports_its_absolute_value():
    run = kernelpde(
        "run", "schrodinger", "--json", "--lengthscale", "0.3", "--sampling", "halton",
        "--points", "equation=200", "--points", "initial=40", "--steps", "3",
    )  # fmt: skip
    report = json.loads(run.stdout)
    assert set(report["errors"]) == {"h", "abs(h)"}
    assert report["errors"]["abs(h)"]["l2"] <= report["errors"]["h"]["l2"]
