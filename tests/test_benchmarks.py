"""Every benchmark runs, at its smallest size, and its lines hold finite numbers."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks import _report
from benchmarks.__main__ import benchmarks, listing

ROOT = Path(__file__).parent.parent
SLOW = pytest.mark.slow
COMMANDS = ("speed gram", "accuracy", "accelerator --sizes 300", "gallery bratu")
OTHERS = (
    "speed step learning networks",
    "inside",
    "first-use",
    "programs --cases readme",
    "learning default",
    "estimates effectivity --names box2 --seeds 500:501",
    "criteria elliptic",
    "layers --cases eikonal",
    "corners --names jump",
    "networks --seconds 1",
    "calibration --families line",
    "outliers --families line",
    "sampling --families enzyme",
    "robustness problems --names box2",
)
UNTRIED = {
    "adjoint": "needs scikit-fem",
    "cavity": "compiles for minutes",
    "evolutions": "marches of full size: tests/test_windows_in_time.py",
    "figures": "learns at full size; the site draws them",
    "front": "draws the pictures of the front page at full size",
    "inverse": "not solvable with fewer points: tests/test_inverse.py",
    "laws": "not solvable with fewer points: tests/test_inverse.py",
    "libraries": "needs lineax",
    "mistakes": "ten minutes at any size",
    "peers": "processes of full size",
    "regression": "needs tinygp, scikit-learn and statsmodels",
    "reproduce": "tests/test_reproduce.py",
    "rough": "compiles for minutes",
    "scaling": "processes of full size: tests/test_devices_agree.py",
    "side-by-side": "scripts of full size: tests/test_code_of_pages_runs.py",
    "tables": "tested below",
    "thermometers": "needs scikit-fem",
    "windows": "compiles for minutes",
}


def run(*arguments: str) -> str:
    process = subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert process.returncode == 0, process.stderr[-2000:]
    return process.stdout


def numbers_in(value, path=""):
    """All numbers of a line, with their paths."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from numbers_in(item, f"{path}/{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from numbers_in(item, f"{path}/{index}")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value


def stored() -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in (ROOT / "results").iterdir()}


@pytest.mark.parametrize("command", [*COMMANDS, *(pytest.param(c, marks=SLOW) for c in OTHERS)])
def test_a_benchmark_runs(command):
    """Its lines have a case and finite figures, times are positive, and none is stored."""
    if command.startswith("criteria"):
        pytest.importorskip("optuna")
    if command.startswith("sampling"):
        pytest.importorskip("blackjax")
    before = stored()
    name, *options = command.split()
    output = run(name, "--smallest", *options)
    lines = [json.loads(text) for text in output.splitlines() if text.startswith("{")]
    assert lines
    for line in lines:
        assert line["name"] == name
        assert line["case"]
        assert line["command"].startswith(f"python -m benchmarks {name}")
        assert line["versions"]["kernelpde"]
        numbers = dict(numbers_in({k: v for k, v in line.items() if k != "seed"}))
        assert numbers
        assert all(math.isfinite(number) for number in numbers.values())
        timed = [n for path, n in numbers.items() if "seconds" in path or "ratio" in path]
        assert all(number > 0 for number in timed)
    assert before == stored()


def test_every_benchmark_is_tried_or_says_why_not():
    tried = {command.split()[0] for command in (*COMMANDS, *OTHERS)}
    assert set(benchmarks()) == tried | set(UNTRIED)
    assert not tried & set(UNTRIED)


def test_names_are_listed_with_one_line_each():
    output = run()
    assert output.strip() == listing()
    for name in benchmarks():
        assert f"  {name} " in output


def test_tables_of_pages_are_those_of_the_results():
    run("tables", "--check")


def test_a_run_replaces_that_of_the_same_case_and_seed(tmp_path, monkeypatch):
    monkeypatch.setattr(_report, "RESULTS", tmp_path)
    for seed, error in ((0, 1.0), (1, 2.0), (0, 1 / 3)):
        _report.record("example", {"case": "first", "seed": seed, "l2": np.float64(error)})
    lines = _report.load("example", case="first")
    assert [(line["seed"], line["l2"]) for line in lines] == [(0, 0.33333333), (1, 2.0)]
    assert _report.column(_report.load("example", seed=1), "l2") == [2.0]
    with pytest.raises(FileNotFoundError, match="python -m benchmarks other"):
        _report.load("other")


def test_results_have_one_line_per_case_and_seed():
    paths = sorted((ROOT / "results").glob("*.jsonl"))
    lines = [json.loads(text) for path in paths for text in path.read_text().splitlines()]
    assert len(lines) < 6000
    runs = [line for line in lines if "gate" not in line]
    identities = [(line["name"], line["case"], line.get("seed")) for line in runs]
    assert len(identities) == len(set(identities))
    for line in runs:
        assert line["commit"]
        assert line["date"]
