"""The code in the README and in the documentation runs as written, and its figures are measured."""

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from kernelpde.gallery import schrodinger

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"

CENTER = 0.722219
"""u(0.5, 0.5) of the README's problem: second differences on 64², 128², 256² squares and Newton's
method, extrapolated in h² twice: 0.722218996, 0.722219007."""


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)


def words(text: str) -> list[str]:
    """Without numbers, whose last digits are those of a machine."""
    return re.findall(r"[^\W\d]{2,}", re.sub(r"[-+]?\d[\d.]*(?:e[-+]?\d+)?", " ", text))


def results(name: str, case: str) -> list[dict]:
    """The stored runs of one case of a benchmark."""
    text = (ROOT / "results" / f"{name}.jsonl").read_text()
    lines = [line for line in map(json.loads, text.splitlines()) if line["case"] == case]
    assert lines, (name, case)
    return lines


def median(lines: list[dict], figure: str) -> float:
    return float(np.median([line[figure] for line in lines if figure in line]))


@pytest.fixture(autouse=True)
def somewhere_else(tmp_path, monkeypatch):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    monkeypatch.chdir(tmp_path)
    yield
    pyplot.close("all")


def test_code_of_the_readme(capsys, tmp_path):
    (block,) = blocks(ROOT / "README.md")
    exec(compile(block, "README.md", "exec"), {})
    shown = capsys.readouterr().out
    assert "Solution: converged" in shown
    (printed,) = re.findall(r"```text\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert words(shown) == words(printed)
    assert float(re.search(r"estimated error (\S+)", shown)[1]) <= 1e-3
    value, error = map(float, re.search(r"\[(\S+)\] ± \[(\S+)\]", shown).groups())
    assert abs(value - CENTER) <= 3 * error
    assert (tmp_path / "u.png").stat().st_size > 10_000


def test_the_first_page_begins_with_the_code_of_the_readme():
    (first,) = blocks(DOCS / "index.md")
    (block,) = blocks(ROOT / "README.md")
    assert block.startswith(first)


def test_code_of_the_page_on_inverse_problems(capsys):
    names: dict = {}
    for block in blocks(DOCS / "inverse.md"):
        exec(compile(block, "inverse.md", "exec"), names)
    assert re.match(r"1\.\d+ ± 0\.\d+ \(95%", capsys.readouterr().out)
    at = np.array([0.2, 0.4, 0.6])
    mean, deviation = names["law"].mean(at), names["law"].std(at)
    assert (np.abs(mean - (1 + at**2)) < 3 * deviation).all()
    assert (deviation < 0.15).all()


def test_code_of_bring_your_own_pde(capsys, tmp_path):
    names: dict = {}
    for block in blocks(DOCS / "your-pde.md"):
        exec(compile(block, "your-pde.md", "exec"), names)
    change = float(re.search(r"largest change (\S+)", capsys.readouterr().out)[1])
    assert change < 1e-3
    assert names["learned"].converged
    for picture in ("solution", "iteration", "learning"):
        assert (tmp_path / f"{picture}.png").stat().st_size > 10_000


def test_code_of_systems(capsys):
    names: dict = {}
    for block in blocks(DOCS / "systems.md"):
        exec(compile(block, "systems.md", "exec"), names)
    exact = schrodinger().references["h"](np.array([[0.7, 0.0]]))
    assert abs(names["evolution"]["h"]([[0.7, 0.0]]) - exact) < 0.1
    assert repr(names["reloaded"]) == repr(names["problem"])
    u, v = (SimpleNamespace(value=value, d=lambda *_: 0.0) for value in (0.5, 2.0))
    np.testing.assert_allclose(names["equation"](None, u, v), (2.0 - 0.02, -2.0 + 0.2))


def test_code_of_long_runs(tmp_path):
    names: dict = {}
    for block in blocks(DOCS / "runs.md"):
        exec(compile(block, "runs.md", "exec"), names)
    lines = (tmp_path / "records.jsonl").read_text().splitlines()
    learned = names["learned"]
    assert len(lines) == len(learned.evaluations) + len(learned.history)
    where = np.array([[0.25], [0.75]])
    np.testing.assert_array_equal(names["values"], learned.solution["u"](where))
    assert repr(names["problem"]) == repr(learned.problem)


def test_figures_of_inverse_problems_are_those_of_the_last_measurement():
    text = (DOCS / "inverse.md").read_text()
    for count in (60, 180):
        runs = results("inverse", f"darcy: learned, {count} observations")
        figures = f"| {median(runs, 'u l2'):.1e} | {median(runs, 'a relative'):.3f} |"
        assert figures in text, count


def test_the_reliability_is_that_of_the_last_measurement():
    text = (ROOT / "results" / "estimates.jsonl").read_text()
    lines = [
        line
        for line in map(json.loads, text.splitlines())
        if line["study"] == "accuracy" and line["accuracy"] == 1e-5 and line["seed"] >= 600
    ]
    claimed = [line["error"] for line in lines if line["claimed"]]
    assert max(claimed) <= 1e-5
    sentence = f"Of {len(lines)} random problems not used for tuning, {len(claimed)} reach"
    assert sentence in (ROOT / "README.md").read_text()


LEARNED = {
    "elliptic": ("elliptic", "default", ("u l2",)),
    "elliptic, additive kernel": ("elliptic-additive", "learned", ("u l2",)),
    "Gray-Scott, u and v": ("gray-scott", "learned", ("u l2", "v l2")),
    "Gray-Scott, case C re-used": ("gray-scott", "case C, kernels re-used", ("u l2", "v l2")),
    "Schrodinger, abs(h)": ("schrodinger", "learned", ("abs(h) l2",)),
    "eikonal": ("eikonal", "learned", ("u l2",)),
    "Burgers": ("burgers", "learned", ("u l2",)),
}


def test_learned_figures_are_those_of_the_last_reproduction():
    lines = (ROOT / "README.md").read_text().splitlines()
    for label, (name, case, keys) in LEARNED.items():
        runs = results("reproduce", f"{name}: {case}")
        figures = ", ".join(f"{median(runs, key):.1e}" for key in keys)
        (line,) = [line for line in lines if line.startswith(f"| {label} |")]
        assert line.split("|")[3].strip() == figures, label


def test_figures_of_pages_come_from_results(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(DOCS), *sys.path])
    from hooks import with_figures

    (step,) = results("speed", "learning step, 1200 rows")
    entry = '{{ speed: case="learning step, 1200 rows" > ratio | .3f }}'
    assert with_figures(f"a {entry} b", "page") == f"a {step['ratio']:.3f} b"
    runs = results("reproduce", "burgers: learned")
    worst = '{{ reproduce: case="burgers: learned" > u l2 | max | .2e }}'
    assert with_figures(worst, "page") == f"{max(run['u l2'] for run in runs):.2e}"
    first = '{{ reproduce: case="burgers: learned", seed=0 > u l2 | .2e }}'
    assert with_figures(first, "page") == f"{runs[0]['u l2']:.2e}"
    with pytest.raises(ValueError, match=r"5 lines.*median"):
        with_figures(worst.replace("max | ", ""), "page")
    with pytest.raises(FileNotFoundError, match="never-measured"):
        with_figures("{{ never-measured > ratio | .1f }}", "page")
    with pytest.raises(KeyError, match=r"no line.*learning step, 1200 rows"):
        with_figures(entry.replace("1200", "1300"), "page")
    with pytest.raises(KeyError, match="ratio"):
        with_figures(entry.replace("> ratio", "> share"), "page")
    monkeypatch.setattr("hooks.PRESENT", "0.2.3")
    with pytest.raises(ValueError, match=r"version 0\.1.*python -m benchmarks speed learning"):
        with_figures(entry, "page")
    monkeypatch.setattr("hooks.PRESENT", "0.1.3")
    for page in DOCS.glob("*.md"):
        assert "{{" not in with_figures(page.read_text(), page.name), page
