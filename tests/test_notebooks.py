"""Pages and notebooks: they run, and show what they say they show."""

import json
import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
LESSONS = ("forward", "inverse", "shape")
PROBLEMS = (
    "poisson_flower l_shape heat fisher helmholtz stokes beam pendulum fredholm minimal_surface"
).split()
OFTEN = ("beam", "heat")
"""Problems whose notebooks are executed by every CI; the others before a release."""


@pytest.fixture(scope="module")
def make():
    sys.path.insert(0, str(DOCS))
    try:
        import make_notebooks

        yield make_notebooks
    finally:
        sys.path.remove(str(DOCS))


@pytest.mark.parametrize("name", LESSONS)
def test_lessons_show_what_their_notebooks_show(make, name, tmp_path):
    notebook = make.lesson(name)
    assert (DOCS / "lessons" / f"{name}.ipynb").read_text() == make.text_of(notebook), (
        "python docs/make_notebooks.py"
    )
    for file in ("wells.csv", "washer.msh"):
        (tmp_path / file).write_bytes((DOCS / "lessons" / file).read_bytes())
    done = make.executed(notebook, tmp_path)
    cells = [cell for cell in done.cells if cell.cell_type == "code"]
    printed = [text for cell in cells if (text := make.printed_by(cell))]
    page = (DOCS / "lessons" / f"{name}.md").read_text()
    written = re.findall(r"```text\n(.*?)\n```", page, flags=re.DOTALL)
    assert len(printed) == len(written)
    for ours, theirs in zip(printed, written, strict=True):
        assert words(ours) == words(theirs)
    pictures = re.findall(r"!\[.*\]\((.*)\)", page)
    assert pictures
    for picture in pictures:
        assert (DOCS / "lessons" / picture).stat().st_size > 10_000


def words(text: str) -> list[str]:
    """Without numbers, whose last digits are those of a machine."""
    return re.findall(r"[^\W\d]{2,}", re.sub(r"[-+]?\d[\d.]*(?:e[-+]?\d+)?", " ", text))


def test_notebooks_of_the_gallery_are_those_of_its_pages(make):
    assert list(make.PROBLEMS) == PROBLEMS
    for name in make.PROBLEMS:
        path = make.NOTEBOOKS / f"{name}.ipynb"
        assert path.read_text() == make.text_of(make.problem(name)), "python docs/make_notebooks.py"


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in OFTEN else pytest.mark.slow) for name in PROBLEMS],
)
def test_notebooks_of_the_gallery_run(make, name, tmp_path):
    """With few points: what a cell says is tested with the gallery."""
    from importlib import import_module

    page = import_module(f"kernelpde.gallery.pages.{name}")
    notebook = make.problem(name)
    points, _ = page.small
    notebook.cells[3].source = (
        f"learned = kp.learn(problem, {points!r}, max_steps=2, throw=False)\n"
        "print(learned.solution)"
    )
    done = make.executed(notebook, tmp_path)
    outputs = done.cells[3].outputs
    assert any("Solution:" in output.get("text", "") for output in outputs)
    assert any("image/png" in output.get("data", {}) for output in done.cells[4].outputs)


@pytest.fixture
def gallery(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(DOCS), *sys.path])
    import make_gallery

    return make_gallery


def test_pages_of_the_gallery_show_its_problems_and_what_was_measured(gallery):
    for name, text in gallery.groups().items():
        assert (DOCS / "gallery" / name).read_text() == text, "python docs/make_gallery.py groups"


def test_formulas_of_docstrings_are_typeset(gallery):
    written = gallery.typeset("    u_xx' + 2 e^(-t) = sin ωt in π < x,    u = 0 on it")
    assert written == (
        '<p class="equation"><span><i>u</i><sub><i>xx</i></sub>\u2032 + 2 '
        "<i>e</i><sup>\u2212<i>t</i></sup> = sin <i>ω</i><i>t</i> in π &lt; <i>x</i>,</span>&emsp;"
        "<span><i>u</i> = 0 on it</span></p>"
    )


SCRIPTS = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))
QUICK = ("plate",)
"""Scripts that are run by every CI; the others take longer."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in SCRIPTS],
)
def test_scripts_of_the_gallery_print_what_their_pages_show(gallery, name, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib.pyplot").switch_backend("Agg")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(gallery, "GALLERY", tmp_path)
    made = gallery.page(ROOT / "examples" / f"{name}.py")
    assert words(made) == words((DOCS / "gallery" / f"{name}.md").read_text())
    assert {path.name for path in tmp_path.glob("*.png")} == set(
        re.findall(r"\]\((\S+png)\)", made)
    )


PAGES = ("accuracy", "faq", "shapes", "transformations")
"""Those whose code no other test runs; that of scaling.md takes hundreds of thousands of rows."""


@pytest.mark.parametrize("name", PAGES)
def test_code_of_pages_runs_and_prints_what_they_show(name, capsys, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib.pyplot").switch_backend("Agg")
    monkeypatch.chdir(tmp_path)
    text, names = (DOCS / f"{name}.md").read_text(), {}
    found = re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)\n```)?", text, flags=re.DOTALL)
    assert found
    for code, printed in found:
        exec(compile(code, f"{name}.md", "exec"), names)
        said = capsys.readouterr().out
        if printed:
            assert said.strip() == printed.strip()


@pytest.mark.parametrize(
    "problem", [pytest.param("equation", marks=pytest.mark.slow), "number", "regression"]
)
def test_scripts_beside_those_of_other_libraries(problem, capsys, monkeypatch):
    """They print what their page shows, and agree with the others."""
    scripts = ROOT / "benchmarks" / "peers" / "side_by_side"
    libraries = json.loads((ROOT / "results" / "side-by-side.json").read_text())["cases"][problem]
    shown = (DOCS / "coming-from.md").read_text()
    assert all(f"/side_by_side/{problem}_{library}.py" in shown for library in libraries)
    monkeypatch.chdir(scripts)
    runpy.run_path(f"{problem}_kernelpde.py")
    said = capsys.readouterr().out.strip()
    assert words(said) == words(libraries["kernelpde"]["printed"])
    # Digits of finite elements, of networks, and of another criterion for 30 noisy readings.
    tolerances = {"scikit_fem": 1e-5, "fenicsx": 1e-5, "gpytorch": 0.05}
    for library, found in libraries.items():
        apart = abs(first_number(said) - first_number(found["printed"]))
        assert apart < tolerances.get(library, 2e-3), library


def first_number(text: str) -> float:
    return float(re.findall(r"= (\d\.\d+)", text)[0])
