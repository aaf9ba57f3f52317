"""Code of lessons, examples, pages and the README runs, and prints what is shown.

Pages of lessons, examples and gallery problems are generated from their code and its output, by
`python docs/build.py --full`. Here the code is run without a Jupyter kernel, as far as it is quick.
"""

import json
import re
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import nbformat
import numpy as np
import pytest
from matplotlib.figure import Figure

from kernelpde.gallery import schrodinger

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


PAGES = ("accuracy", "bilevel", "continuation", "faq", "shapes", "transformations")
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


def test_code_of_layers_on_the_page_of_rough_solutions(capsys):
    """The first block of the page; the others learn for minutes."""
    text = (DOCS / "rough.md").read_text()
    pattern = r"## Layers and kinks.*?```python\n(.*?)```\n\n```text\n(.*?)\n```"
    code, printed = re.findall(pattern, text, flags=re.DOTALL)[0]
    exec(compile(code, "rough.md", "exec"), {})
    assert capsys.readouterr().out.strip() == printed.strip()


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


CENTER = 0.722219
"""u(0.5, 0.5) of the README's problem: second differences on 64², 128², 256² squares and Newton's
method, extrapolated in h² twice: 0.722218996, 0.722219007."""


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)


def run_page(name: str) -> dict:
    """Return the variables of a page after its last block."""
    names: dict = {}
    for block in blocks(DOCS / name):
        exec(compile(block, name, "exec"), names)
    return names


def results(name: str, case: str) -> list[dict]:
    """The stored runs of one case of a benchmark."""
    text = (ROOT / "results" / f"{name}.jsonl").read_text()
    lines = [line for line in map(json.loads, text.splitlines()) if line["case"] == case]
    assert lines, (name, case)
    return lines


def median(lines: list[dict], figure: str) -> float:
    return float(np.median([line[figure] for line in lines if figure in line]))


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
    names = run_page("inverse.md")
    assert re.match(r"1\.\d+ ± 0\.\d+ \(95%", capsys.readouterr().out)
    at = np.array([0.2, 0.4, 0.6])
    mean, deviation = names["law"].mean(at), names["law"].std(at)
    assert (np.abs(mean - (1 + at**2)) < 3 * deviation).all()
    assert (deviation < 0.15).all()


def test_code_of_bring_your_own_pde(capsys, tmp_path):
    names = run_page("your-pde.md")
    change = float(re.search(r"largest change (\S+)", capsys.readouterr().out)[1])
    assert change < 1e-3
    assert names["learned"].converged
    for picture in ("solution", "iteration", "learning"):
        assert (tmp_path / f"{picture}.png").stat().st_size > 10_000


def test_code_of_systems(capsys):
    names = run_page("systems.md")
    exact = schrodinger().references["h"](np.array([[0.7, 0.0]]))
    assert abs(names["evolution"]["h"]([[0.7, 0.0]]) - exact) < 0.1
    assert repr(names["reloaded"]) == repr(names["problem"])
    u, v = (SimpleNamespace(value=value, d=lambda *_: 0.0) for value in (0.5, 2.0))
    np.testing.assert_allclose(names["equation"](None, u, v), (2.0 - 0.02, -2.0 + 0.2))


def test_code_of_long_runs(tmp_path):
    names = run_page("runs.md")
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
