"""The code in the README and in the documentation runs as written, and its figures are measured."""

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from kernelpde.gallery import schrodinger
from kernelpde.reproduce import median_errors

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


def results(name: str) -> dict:
    return json.loads((ROOT / "results" / f"{name}.json").read_text())


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
    assert float(re.search(r"u: (\S+) rms", shown)[1]) <= 1e-3
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
    assert repr(names["other"]) == repr(names["problem"])
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
    with np.load(tmp_path / "u.npz") as found:
        np.testing.assert_array_equal(found["u"], learned.solution["u"](where))
    assert repr(names["again"]) == repr(learned.problem)


def test_figures_of_inverse_problems_are_those_of_the_last_measurement():
    report = results("inverse-darcy")["cases"]
    for page in (ROOT / "README.md", DOCS / "inverse.md"):
        text = page.read_text()
        for count in (60, 180):
            case = report[f"learned, {count} observations"]
            figures = f"| {case['median l2 of u']:.1e} | {case['median relative of a']:.3f} |"
            assert figures in text, (page.name, count)


def test_figures_are_those_of_the_last_measurement():
    report = results("accuracy")
    text = (ROOT / "README.md").read_text()
    for name in ("uniform, refinement 0", "uniform, refinement 2", "halton, refinement 2"):
        assert f"| {report['errors'][name]['l2']['median']:.1e} |" in text, name


def test_the_error_of_the_animation_is_that_of_the_last_measurement():
    runs = results("peers")["runs"]
    ours = [r for r in runs if (r["method"], r["problem"]) == ("kernelpde", "burgers-periodic")]
    errors = [r["error"] for r in ours]
    assert len(errors) == 5
    text = (ROOT / "README.md").read_text()
    assert f"relative error {np.median(errors):.1e} (`kernelpde solve burgers-periodic`)" in text


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
        runs = results(f"reproduce-{name}")["cases"][case]
        figures = ", ".join(f"{median_errors(runs)[key]:.1e}" for key in keys)
        (line,) = [line for line in lines if line.startswith(f"| {label} |")]
        assert line.split("|")[3].strip() == figures, label


def test_figures_of_pages_come_from_results(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(DOCS), *sys.path])
    from hooks import with_figures

    step = results("learning-speed")["step at M = 1200"]["ratio"]
    shown = with_figures("a {{ learning-speed > step at M = 1200 > ratio | .3f }} b", "page")
    assert shown == f"a {step:.3f} b"
    runs = results("reproduce-burgers")["cases"]["learned"]
    entry = "{{ reproduce-burgers > cases > learned > max > errors > u > l2 | .2e }}"
    assert with_figures(entry, "page") == f"{max(r['errors']['u']['l2'] for r in runs):.2e}"
    with pytest.raises(FileNotFoundError, match="never-measured"):
        with_figures("{{ never-measured > ratio | .1f }}", "page")
    with pytest.raises(KeyError, match="step at M = 1300"):
        with_figures("{{ learning-speed > step at M = 1300 | .1f }}", "page")
    monkeypatch.setattr("hooks.PRESENT", "0.2.3")
    with pytest.raises(
        ValueError, match=r"learning-speed\.json, which version 0\.1.*measure again"
    ):
        with_figures("{{ learning-speed > step at M = 1200 > ratio | .3f }}", "page")
    monkeypatch.setattr("hooks.PRESENT", "0.1.3")
    for page in DOCS.glob("*.md"):
        assert "{{" not in with_figures(page.read_text(), page.name), page


@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_gallery_pages_show_their_scripts(script):
    page = (DOCS / "gallery" / f"{script.stem}.md").read_text()
    code = re.sub(r'^""".*?"""\n+', "", script.read_text(), flags=re.DOTALL)
    assert f"```python\n{code}```" in page
    for picture in re.findall(r"!\[.*\]\((.*)\)", page):
        assert (DOCS / "gallery" / picture).stat().st_size > 10_000
