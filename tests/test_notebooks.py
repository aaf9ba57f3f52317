"""Lessons, examples and code blocks of the documentation run and print what their pages show.

Pages of lessons, examples and gallery problems are generated from their code and its output, by
`python docs/build.py --full`. Here the code is run without a Jupyter kernel, as far as it is quick.
"""

import json
import re
import runpy
import sys
from pathlib import Path

import nbformat
import pytest
from matplotlib.figure import Figure

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


@pytest.fixture(autouse=True)
def _in_a_directory_without_display(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib.pyplot").switch_backend("Agg")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def notebooks(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(DOCS), *sys.path])
    import notebooks

    return notebooks


def run_cells(notebook) -> dict:
    """Return the variables of a notebook after its last cell."""
    names: dict = {}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            exec(compile(cell.source, cell.id, "exec"), names)
    return names


def run_lesson(notebooks, name: str, tmp_path) -> dict:
    for file in ("wells.csv", "washer.msh"):
        (tmp_path / file).write_bytes((notebooks.LESSONS / file).read_bytes())
    return run_cells(notebooks.notebook_of(notebooks.LESSONS / f"{name}.py"))


def test_the_lesson_on_a_nonlinear_equation(notebooks, tmp_path):
    names = run_lesson(notebooks, "forward", tmp_path)
    assert names["relative"] < 1e-4
    assert abs(names["energy"](names["solution"]) - 0.25) < 1e-4
    assert names["largest"] < 1e-5
    assert not names["inaccurate"].converged
    assert isinstance(names["figure"], Figure)


def test_the_lesson_on_an_unknown_from_readings(notebooks, tmp_path):
    names = run_lesson(notebooks, "inverse", tmp_path)
    assert names["low"] < 0.8 < names["high"]
    assert 0.5 < names["posterior"].chi_squared["wells"] < 1.5
    assert isinstance(names["figure"], Figure)


def test_the_lesson_on_a_shape_from_a_mesh_file(notebooks, tmp_path):
    names = run_lesson(notebooks, "shape", tmp_path)
    assert abs(names["total"]) < 2e-2
    assert (tmp_path / "bar.vtu").exists()
    assert isinstance(names["figure"], Figure)


def test_a_script_becomes_a_notebook_with_output_and_a_page(notebooks, tmp_path, monkeypatch):
    """By a Jupyter kernel."""
    script = tmp_path / "line.py"
    script.write_text(
        '"""A line.\n\nFrom 0 to 1.\n"""\n\nfrom matplotlib import pyplot as plt\n\n'
        'figure = plt.figure()\nfigure.gca().plot([0, 1])\nprint("drawn")\n'
    )
    plain = notebooks.notebook_of(script)
    nbformat.validate(plain)
    executed = notebooks.execute(plain, tmp_path)
    monkeypatch.setattr(notebooks, "EXECUTED", tmp_path)
    monkeypatch.setattr(notebooks, "scripts", lambda: {"line": script})
    nbformat.write(executed, tmp_path / "line.ipynb")
    files = dict(notebooks.files_of_scripts())
    assert files["line.md"].startswith("# A line\n\n*[This page as a notebook](line.ipynb).*")
    assert "```text\ndrawn\n```" in files["line.md"]
    assert "](line-1.png)" in files["line.md"]
    assert files["line-1.png"].startswith(b"\x89PNG")
    # Output of code that has changed since is left out.
    script.write_text(script.read_text().replace("drawn", "finished"))
    assert set(dict(notebooks.files_of_scripts())) == {"line.md", "line.ipynb"}


def test_notebooks_of_all_problems_solve_and_plot(notebooks):
    paths = notebooks.problems().values()
    assert len(paths) >= 38
    for path in paths:
        _, enable_x64, problem, solve, plot = notebooks.notebook_of(path).cells
        code = "\n".join(cell.source for cell in (enable_x64, problem, solve, plot))
        compile(code, path.name, "exec")
        assert ("kp.march" in solve.source) == ("windows" in problem.source)


def test_formulas_of_docstrings_are_typeset(notebooks):
    from gallery import typeset

    html = typeset("    u_xx' + 2 e^(-t) = sin ωt in π < x,    u = 0 on it")
    assert html == (
        '<p class="equation"><span><i>u</i><sub><i>xx</i></sub>\u2032 + 2 '
        "<i>e</i><sup>\u2212<i>t</i></sup> = sin <i>ω</i><i>t</i> in π &lt; <i>x</i>,</span>&emsp;"
        "<span><i>u</i> = 0 on it</span></p>"
    )


def test_pages_of_the_site_contain_every_problem_and_example(notebooks):
    from gallery import files_of_gallery

    problems, scripts = dict(files_of_gallery()), dict(notebooks.files_of_scripts())
    navigation = (ROOT / "mkdocs.yml").read_text()
    for address in (*problems, *scripts):
        assert not address.endswith(".md") or f" {address}\n" in navigation
    pages = "\n".join(text for address, text in problems.items() if address.endswith(".md"))
    for address in notebooks.problems():
        assert f"({address.removeprefix('gallery/')}.ipynb)" in pages
    for path in notebooks.EXAMPLES.glob("*.py"):
        assert f"]({path.stem}.md)" in problems["gallery/index.md"]
        assert notebooks.code_of(path.read_text()).strip() in scripts[f"gallery/{path.stem}.md"]


EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))
QUICK = ("plate",)
"""Examples that every CI runs."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in EXAMPLES],
)
def test_examples_run_and_draw(notebooks, name, monkeypatch, capsys):
    monkeypatch.chdir(notebooks.EXAMPLES)
    names = run_cells(notebooks.notebook_of(notebooks.EXAMPLES / f"{name}.py"))
    assert capsys.readouterr().out
    assert any(isinstance(value, Figure) for value in names.values())


PAGES = ("accuracy", "faq", "shapes", "transformations")
"""Those whose code no other test runs; that of scaling.md takes hundreds of thousands of rows."""


@pytest.mark.parametrize("name", PAGES)
def test_code_of_pages_runs_and_prints_what_they_show(name, capsys):
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
    lines = (ROOT / "results" / "side-by-side.jsonl").read_text().splitlines()
    libraries = {
        line["library"]: line for line in map(json.loads, lines) if line["problem"] == problem
    }
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


def words(text: str) -> list[str]:
    """Return the words without numbers, whose last digits depend on the machine."""
    return re.findall(r"[^\W\d]{2,}", re.sub(r"[-+]?\d[\d.]*(?:e[-+]?\d+)?", " ", text))


def first_number(text: str) -> float:
    return float(re.findall(r"= (\d\.\d+)", text)[0])
