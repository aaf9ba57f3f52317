"""One command reproduces every part of the paper's tables, quickly, and reports it."""

import json
import subprocess
import sys
from xml.etree import ElementTree

import pytest

import kernelpde as kp
from kernelpde.reproduce import PARTS, as_html, markdown, median_errors, reproduce

pytest.importorskip("matplotlib")

BETTER = {
    "sensitivity": (
        "1200 points, lengthscale 0.151",
        "1200 points, lengthscale 1",
        "u l2",
        1e-2,
    ),
    "elliptic": ("default", "Adam as published, from 1.0", "u l2", 1.5),
    "elliptic-additive": ("learned", "all hyperparameters 1", "u l2", 1e-2),
    "schrodinger": ("learned", "lengthscales 1.0", "abs(h) l2", 0.8),
    "gray-scott": ("case A, kernels re-used", "case A, lengthscales 1", "u l2", 0.1),
    "eikonal": ("learned", "unlearned", "u l2", 0.9),
    "burgers": ("learned", "unlearned", "u l2", 0.5),
    "darcy": ("learned", "lengthscales 1", "a relative", 1.0),
}
"""For each part a case, one that it must be better than, and by which factor, even quickly."""


LONG = {"gray-scott", "eikonal", "schrodinger", "burgers", "darcy", "sensitivity"}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in LONG else n for n in PARTS]
)
def test_each_part_runs_and_learning_pays(name, tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "kernelpde",
            "reproduce",
            name,
            "--quick",
            "--json",
            "--out",
            tmp_path,
        ],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [
        str(tmp_path / "reproduce.md"),
        str(tmp_path / "reproduce.html"),
    ]
    report = json.loads((tmp_path / f"reproduce-{name}.json").read_text())
    chosen = {title: case for title, case in PARTS[name].cases.items() if not case.full_only}
    assert list(report["cases"]) == list(chosen)
    better, worse, key, factor = BETTER[name]
    field, norm = key.rsplit(" ", 1)
    errors = [report["cases"][case][0]["errors"][field][norm] for case in (better, worse)]
    assert errors[0] < factor * errors[1]
    text = (tmp_path / "reproduce.md").read_text()
    for case in chosen.values():
        assert all(f"{published:.2e}" in text for published in case.published.values())
    drawn = "chart" if PARTS[name].figure_only else "solution"
    assert f"reproduce-{name}-{drawn}.png" in text
    assert "kernelpde reproduce --quick" in text


def finished(name: str, quick: bool = False) -> dict:
    """A results file with made-up errors."""
    runs = [
        {"seed": seed, "converged": True, "errors": {"u": {"l2": 10.0**-seed, "linf": 1.0}}}
        for seed in range(3)
    ]
    cases = dict.fromkeys(PARTS[name].cases, runs)
    return {"quick": quick, "seeds": 3, "versions": {"jax": "1"}, "cases": cases}


def test_finished_parts_are_loaded_and_not_computed_again(tmp_path, monkeypatch):
    path = tmp_path / "reproduce-burgers.json"
    report = finished("burgers")
    for runs in report["cases"].values():
        runs.extend({**runs[0], "seed": seed} for seed in (3, 4))
        del runs[5:]
    path.write_text(json.dumps(report))
    said: list[str] = []
    reproduce(["burgers"], out=tmp_path, log=said.append)
    assert said == []
    assert json.loads(path.read_text()) == report
    text = (tmp_path / "reproduce.md").read_text()
    assert "| learned | u, rms | 9.50e-06 | 1.00e+00 | 1.00e+00 | 5 |" in text


def test_quick_and_full_results_do_not_mix(tmp_path):
    (tmp_path / "reproduce-eikonal.json").write_text(json.dumps(finished("eikonal", quick=True)))
    with pytest.raises(kp.InputError, match=r"contains a quick run. Use another --out"):
        reproduce(["burgers"], out=tmp_path)
    (tmp_path / "reproduce-eikonal.json").write_text("{}")
    with pytest.raises(kp.InputError, match="not a results file"):
        reproduce(["eikonal"], out=tmp_path)
    with pytest.raises(kp.InputError, match="unknown part 'navier'; expected one of sensitivity"):
        reproduce(["navier"], out=tmp_path)


def test_medians_and_worst_are_over_seeds():
    report = finished("burgers")
    assert median_errors(report["cases"]["learned"]) == {"u l2": 0.1, "u linf": 1.0}
    text = markdown({"burgers": report}, {"burgers": ["b.png"]})
    assert "| learned | u, rms | 9.50e-06 | 1.00e-01 | 1.00e+00 | 3 |" in text
    page = as_html(text)
    root = ElementTree.fromstring(
        page.replace("<!doctype html>", "")
        .replace('<meta charset="utf-8">', "")
        .replace('<img alt="burgers" src="b.png">', '<img alt="burgers" src="b.png"/>')
    )
    cells = [cell.text for cell in root.iter("td")]
    assert "9.50e-06" in cells
    assert [image.get("src") for image in root.iter("img")] == ["b.png"]
