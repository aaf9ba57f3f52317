"""Every benchmark runs, at its smallest size, and reports numbers."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SLOW = pytest.mark.slow
COMMANDS = {
    "speed.py": "speed",
    "accuracy.py": "accuracy",
    "accelerator.py --sizes 300": "accelerator-cpu",
    "gallery.py bratu --seeds 0:1": "gallery",
}
OTHERS = {
    "learning_speed.py": "learning-speed",
    "first_picture.py": "first-picture",
    "pictures.py pendulum": "pictures",
    "first_use.py": "first-use",
    "rough.py speed": "rough-speed",
    "learning.py default": "learning-default",
    "systems.py gray-scott": "systems-gray-scott",
    "shapes.py inside": "shapes-inside",
    "shapes.py flux --seeds 0:1": "shapes-flux",
    "equations.py times": "equations-times",
    "transformations.py compile": "transformations-compile",
    "estimates.py effectivity --names box2 --seeds 0:1": "estimates-effectivity",
    "criteria.py elliptic --seeds 0:1": "criteria-elliptic",
    "calibration.py --families line --seeds 0:1": "inverse-calibration",
    "outliers.py --families line --seeds 0:1": "inverse-outliers",
    "sampling.py --families enzyme --seeds 0:1": "inverse-sampling",
    "robustness.py problems --names box2 --seeds 0:1": "robustness-problems",
}


def numbers_in(tree, path=""):
    """All numbers of a report, with where they are."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from numbers_in(value, f"{path}/{key}")
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            yield from numbers_in(value, f"{path}/{index}")
    elif isinstance(tree, int | float) and not isinstance(tree, bool):
        yield path, tree


@pytest.mark.parametrize(
    ("command", "report"),
    [*COMMANDS.items(), *(pytest.param(*item, marks=SLOW) for item in OTHERS.items())],
)
def test_a_benchmark_runs(tmp_path, command, report):
    """Its report is written, its numbers are finite, and what it times took time."""
    if command.startswith("criteria"):
        pytest.importorskip("optuna")
    before = {path: path.stat().st_mtime_ns for path in (ROOT / "results").iterdir()}
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "smallest.py"), str(tmp_path), *command.split()],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads((tmp_path / "results" / f"{report}.json").read_text())
    numbers = dict(numbers_in(found))
    assert numbers
    assert all(math.isfinite(number) for number in numbers.values())
    timed = [n for path, n in numbers.items() if "seconds" in path or path.endswith("/ratio")]
    assert all(number > 0 for number in timed)
    assert before == {path: path.stat().st_mtime_ns for path in (ROOT / "results").iterdir()}


def test_every_script_is_tried():
    """But for pages and pictures, and what needs packages or processes of its own."""
    apart = {
        "adjoint.py": "scikit-fem",
        "libraries.py": "lineax and meshio",
        "thermometers.py": "scikit-fem",
        "figures.py": "draws what is in results",
        "cavity.py": "compiles for minutes",
        "mistakes.py": "ten minutes, however small",
        "scaling.py": "in processes of full size; test_devices.py",
        "editions.py": "in checkouts of its own",
        "inverse.py": "problems that are not solved with fewer points; test_inverse.py",
        "laws.py": "the same; test_laws.py",
        "series.py": "in checkouts of its own",
        "smallest.py": "it is what runs the others",
    }
    scripts = {path.name for path in (ROOT / "benchmarks").glob("[!_]*.py")}
    tried = {command.split()[0] for command in (*COMMANDS, *OTHERS)}
    assert scripts == tried | set(apart)
    assert not tried & set(apart)
