"""The command line, as a script would use it."""

import json
import signal
import subprocess
import sys
import time

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


def test_solve_prints_one_json_object():
    run = kernelpde(
        "solve", "elliptic", "--no-learn", "--lengthscale", "0.2", "--json",
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
    assert 3 <= report["num_steps"] <= 12
    assert report["seconds"]["compile"] > 0
    assert report["seconds"]["run"] > 0


def test_an_accuracy_from_the_command_line():
    asked = ("solve", "elliptic", "--accuracy", "1e-3", "--sampling", "halton")
    report = json.loads(kernelpde(*asked, "--json").stdout)
    assert report["converged"]
    estimated = report["estimated_errors"]["u"]["rms"]
    assert estimated <= 1e-3
    assert 0.5 < estimated / report["errors"]["u"]["relative"] < 10
    assert report["points"]["equation"] >= 100
    ended = kernelpde(*asked, "--points", "boundary=9")
    assert "--accuracy selects points and kernel" in ended.stderr


def test_an_inverse_problem_comes_with_its_uncertainty():
    run = kernelpde("solve", "string", "--seed", "3", "--json")
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout)
    load = report["parameters"]["load"]
    assert load["truth"] == 1.5
    assert abs(load["mean"] - 1.5) < 3 * load["std"]
    assert load["interval"][0] < load["mean"] < load["interval"][1]
    assert 0.3 < report["chi_squared"]["data"] < 2.0
    assert report["errors"]["u"]["l2"] < 3 * report["std"]["u"]
    assert report["nugget"] == 1e-10


def test_a_run_that_does_not_converge_has_its_own_exit_code(tmp_path):
    run = kernelpde(
        "solve", "elliptic", "--no-learn", "--max-steps", "1",
        "--points", "equation=100", "--points", "boundary=40", "--out", tmp_path,
    )  # fmt: skip
    assert run.returncode == 1
    assert "NOT converged" in run.stdout
    # What is made of it later says so too, and slices leave other pictures alone.
    before = {path.name for path in tmp_path.glob("*.png")}
    drawn = kernelpde("plot", tmp_path, "--at", "y=0.5", "--resolution", "11")
    assert drawn.returncode == 0
    assert "This solution has not converged. The maximum number of steps" in drawn.stderr
    assert {path.name for path in tmp_path.glob("*.png")} - before == {"solution-2.png"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("solve", "nonsense"), "Unknown problem 'nonsense'; expected one of elliptic"),
        (
            ("solve", "elliptic", "--no-learn", "--lengthscale", "-1"),
            "must be positive and finite; got -1.0",
        ),
        (("solve", "elliptic", "--points", "equation"), "Expected CONDITION=COUNT"),
        (
            ("solve", "elliptic", "--no-learn", "--points", "edge=3"),
            "unknown key of points 'edge'",
        ),
    ],
)
def test_mistakes_get_one_paragraph_and_no_traceback(arguments, message):
    run = kernelpde(*arguments)
    assert run.returncode not in (0, 1) or "kernelpde:" in run.stderr
    text = " ".join(run.stderr.replace("│", " ").split())
    assert message in text
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (("solve", "nonsense"), "InputError", "Unknown problem"),
        (("solve",), "MissingParameter", "NAME|FILE.py"),
        (("plot", "nowhere"), "InputError", "there is no such file"),
    ],
)
def test_errors_are_json_if_that_is_asked_for(arguments, kind, message):
    run = kernelpde(*arguments, "--json")
    error = json.loads(run.stdout)["error"]
    assert run.returncode == error["exit_code"] == 2
    assert error["kind"] == kind
    assert message in error["message"]


@pytest.mark.parametrize("arguments", [("--help",), ("solve", "--help"), ("--version",)])
def test_help_does_not_wait_for_jax(arguments):
    check = (
        "import sys; sys.argv = ['kernelpde', *sys.argv[1:]]\n"
        "from kernelpde.cli import main\n"
        "try: main()\n"
        "finally: assert 'jax' not in sys.modules and 'numpy' not in sys.modules"
    )
    run = subprocess.run([sys.executable, "-c", check, *arguments], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_an_interrupted_run_says_how_it_goes_on(tmp_path):
    # Shells let what they start in the background ignore Ctrl-C, and all that it starts.
    begin = (
        "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "runpy.run_module('kernelpde', run_name='__main__', alter_sys=True)"
    )
    command = [sys.executable, "-c", begin, "solve", "elliptic", "--lengthscale", "1.0"]
    run = subprocess.Popen([*command, "--out", str(tmp_path)], stderr=subprocess.PIPE, text=True)
    for _ in range(1200):
        if (tmp_path / "run.kpde").exists():
            break
        time.sleep(0.1)
    run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=60)
    assert run.returncode == 130
    assert f"To continue: kernelpde resume {tmp_path}" in said
    assert "Traceback" not in said


def test_learning_from_the_command_line():
    run = kernelpde(
        "solve", "elliptic", "--lengthscale", "1.0", "--json",
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
        "solve", "gray-scott", "--json", "--sampling", "halton", *few,
        "--save-kernels", path,
    )  # fmt: skip
    assert first.returncode == 0, first.stderr
    learned = json.loads(first.stdout)
    assert learned["errors"]["v"]["l2"] < 1e-4
    again = kernelpde(
        "solve",
        "gray-scott-b",
        "--no-learn",
        "--json",
        "--sampling",
        "halton",
        *few,
        "--kernels",
        path,
    )
    report = json.loads(again.stdout)
    assert report["hyperparameters"] == learned["hyperparameters"]
    assert report["errors"]["u"]["l2"] < 1e-2


def test_a_complex_problem_reports_its_absolute_value():
    run = kernelpde(
        "solve", "schrodinger", "--no-learn", "--json", "--lengthscale", "0.3",
        "--sampling", "halton",
        "--points", "equation=200", "--points", "initial=40", "--max-steps", "3",
    )  # fmt: skip
    report = json.loads(run.stdout)
    assert set(report["errors"]) == {"h", "abs(h)"}
    assert report["errors"]["abs(h)"]["l2"] <= report["errors"]["h"]["l2"]
