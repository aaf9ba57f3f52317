"""Make notebooks: the lessons with their pages, and ten problems of the gallery.

    python docs/make_notebooks.py [NAME]...

A lesson is a script with cells (`docs/lessons/*.py`, the percent format of jupytext). Its notebook
is executed, and the page of the site is what the notebook shows. Problems of the gallery become
notebooks without output, of the files that define them. Committed notebooks have no output.
"""

import ast
import base64
import re
import sys
from pathlib import Path

import jupytext
import nbformat
from make_gallery import code_of
from nbclient import NotebookClient

ROOT = Path(__file__).parent.parent
LESSONS = ROOT / "docs" / "lessons"
NOTEBOOKS = ROOT / "docs" / "gallery" / "notebooks"
PAGES = ROOT / "src" / "kernelpde" / "gallery" / "pages"
NAMES = ("forward", "inverse", "shape")
PROBLEMS = (
    "poisson_flower",
    "l_shape",
    "heat",
    "fisher",
    "helmholtz",
    "stokes",
    "beam",
    "pendulum",
    "fredholm",
    "minimal_surface",
)
"""Of the gallery, those that take less than a minute."""


def lesson(name: str) -> nbformat.NotebookNode:
    """The notebook of a lesson, without output."""
    return _plain(jupytext.read(LESSONS / f"{name}.py"))


def problem(name: str) -> nbformat.NotebookNode:
    """The notebook of a problem of the gallery: its text, its code, and a solve."""
    source = (PAGES / f"{name}.py").read_text()
    title, _, about = (ast.get_docstring(ast.parse(source)) or name).partition("\n")
    code = re.sub(r"\n{3,}", "\n\n", code_of(source)).strip()
    begin = 'import jax\n\njax.config.update("jax_enable_x64", True)'
    new = nbformat.v4
    cells = [
        new.new_markdown_cell(f"# {title.rstrip('.')}\n\n{about.strip()}".strip()),
        new.new_code_cell(begin),
        new.new_code_cell(code),
        new.new_code_cell("learned = kp.learn(problem, points)\nprint(learned.solution)"),
        new.new_code_cell("figure = learned.solution.plot(references=references)"),
    ]
    return _plain(new.new_notebook(cells=cells))


def _plain(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The same cells are the same file, whenever and wherever it is made."""
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook.metadata = nbformat.NotebookNode({"kernelspec": kernel})
    notebook.nbformat_minor = 5
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.metadata = nbformat.NotebookNode()
    return notebook


def text_of(notebook: nbformat.NotebookNode) -> str:
    return nbformat.writes(notebook, indent=1) + "\n"


def executed(notebook: nbformat.NotebookNode, where: Path) -> nbformat.NotebookNode:
    """With what its cells show, run in a directory by a Jupyter kernel."""
    client = NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(where)}}
    )
    return client.execute()


def printed_by(cell: nbformat.NotebookNode) -> str:
    """What a cell has printed, whatever pieces it arrived in."""
    streams = [each for each in cell.outputs if each.output_type == "stream"]
    return "".join(each.text for each in streams if each.name == "stdout").strip()


def page(name: str, notebook: nbformat.NotebookNode) -> str:
    """The page of an executed lesson, its pictures written beside it."""
    parts, pictures = [], 0
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        if printed := printed_by(cell):
            parts.append(f"```text\n{printed}\n```")
        for output in cell.outputs:
            data = output.get("data", {})
            if "image/png" in data:
                pictures += 1
                picture = LESSONS / f"{name}-{pictures}.png"
                picture.write_bytes(base64.b64decode(data["image/png"]))
                parts.append(f"![What the cell above draws]({picture.name})")
            elif "text/plain" in data:
                parts.append(f"```text\n{data['text/plain']}\n```")
    head, *rest = parts
    title, _, start = head.partition("\n")
    made = f"*[This lesson as a notebook]({name}.ipynb).*"
    return "\n\n".join([title, made, start.strip(), *rest]) + "\n"


def main() -> None:
    for name in sys.argv[1:] or [*NAMES, *PROBLEMS]:
        if name in NAMES:
            notebook = lesson(name)
            (LESSONS / f"{name}.ipynb").write_text(text_of(notebook))
            (LESSONS / f"{name}.md").write_text(page(name, executed(notebook, LESSONS)))
        else:
            NOTEBOOKS.mkdir(exist_ok=True)
            (NOTEBOOKS / f"{name}.ipynb").write_text(text_of(problem(name)))
        print(name)


if __name__ == "__main__":
    main()
