"""Notebooks of the lessons, the examples and the gallery's problems, and pages made from them.

`python docs/build.py --full` executes them. Without its output a page shows the code alone.
"""

import ast
import base64
import re
from collections.abc import Iterator
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parent.parent
LESSONS = ROOT / "docs" / "lessons"
EXAMPLES = ROOT / "examples"
PROBLEMS = ROOT / "src" / "kernelpde" / "gallery" / "pages"
EXECUTED = ROOT / "build" / "notebooks"
"""Executed notebooks, at their addresses."""


def scripts() -> dict[str, Path]:
    """Return the scripts that become pages, by the address of the page."""
    lessons = {
        f"lessons/{name}": LESSONS / f"{name}.py" for name in ("forward", "inverse", "shape")
    }
    return lessons | {f"gallery/{path.stem}": path for path in sorted(EXAMPLES.glob("*.py"))}


def problems() -> dict[str, Path]:
    """Return the files of the gallery's problems, by the address of the notebook."""
    paths = {path.stem.replace("_", "-"): path for path in sorted(PROBLEMS.glob("[a-z]*.py"))}
    return {f"gallery/notebooks/{name}": path for name, path in paths.items()}


def notebook_of(path: Path) -> nbformat.NotebookNode:
    """Return the notebook of a script, without output."""
    if path.parent == LESSONS:
        return _with_plain_metadata(jupytext.read(path))
    source = path.read_text()
    title, _, about = (ast.get_docstring(ast.parse(source)) or path.stem).partition("\n")
    head = nbformat.v4.new_markdown_cell(f"# {title.rstrip('.')}\n\n{about.strip()}".strip())
    code = [code_of(source)]
    if path.parent == PROBLEMS:
        enable_x64 = 'import jax\n\njax.config.update("jax_enable_x64", True)'
        code = [enable_x64, *code, *_solving(source)]
    cells = [head, *(nbformat.v4.new_code_cell(cell.strip()) for cell in code)]
    return _with_plain_metadata(nbformat.v4.new_notebook(cells=cells))


def code_of(source: str) -> str:
    """Return a script without its docstring and the assignments that only the gallery reads."""
    code = re.sub(r'^""".*?"""\n+', "", source, flags=re.DOTALL)
    lines = [line for line in code.splitlines() if not line.startswith(("GROUP =", "small ="))]
    return re.sub(r"\n{3,}", "\n\n\n", "\n".join(lines)).strip() + "\n"


def _solving(source: str) -> tuple[str, str]:
    if re.search(r"^windows\b", source, flags=re.MULTILINE):
        solve = "solution = kp.march(problem, windows, points, throw=False)"
    else:
        solve = "solution = kp.learn(problem, points, throw=False).solution"
    return f"{solve}\nprint(solution)", "figure = solution.plot(references=references)"


def _with_plain_metadata(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook.metadata = nbformat.NotebookNode({"kernelspec": kernel})
    notebook.nbformat_minor = 5
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.metadata = nbformat.NotebookNode()
    return notebook


def execute(notebook: nbformat.NotebookNode, directory: Path) -> nbformat.NotebookNode:
    """Run a notebook in a directory by a Jupyter kernel and return it with its output."""
    resources = {"metadata": {"path": str(directory)}}
    client = NotebookClient(notebook, timeout=1800, kernel_name="python3", resources=resources)
    return client.execute()


def executed(address: str, path: Path) -> nbformat.NotebookNode | None:
    """Return the executed notebook of a script, None if there is none or its code has changed."""
    stored = EXECUTED / f"{address}.ipynb"
    if not stored.exists():
        return None
    notebook = nbformat.read(stored, as_version=4)
    sources = [cell.source for cell in notebook_of(path).cells]
    return notebook if [cell.source for cell in notebook.cells] == sources else None


def printed_by(cell: nbformat.NotebookNode) -> str:
    """Return everything that a cell has printed and the value of its last line."""
    streams = [output for output in cell.get("outputs", ()) if output.output_type == "stream"]
    text = "".join(output.text for output in streams if output.name == "stdout")
    values = [output.data for output in cell.get("outputs", ()) if "data" in output]
    texts = [data["text/plain"] for data in values if "image/png" not in data]
    return "\n".join([text.strip(), *texts]).strip()


def pictures_of(notebook: nbformat.NotebookNode) -> Iterator[bytes]:
    """Yield the pictures of an executed notebook."""
    for cell in notebook.cells:
        yield from _pictures(cell)


def _pictures(cell: nbformat.NotebookNode) -> Iterator[bytes]:
    for output in cell.get("outputs", ()):
        if picture := output.get("data", {}).get("image/png"):
            yield base64.b64decode(picture)


def files_of_scripts() -> Iterator[tuple[str, str | bytes]]:
    """Yield page, notebook and pictures of every lesson and example, by their addresses."""
    for address, path in scripts().items():
        name = address.rpartition("/")[2]
        plain = notebook_of(path)
        notebook = executed(address, path) or plain
        yield f"{address}.md", _page(name, notebook)
        yield f"{address}.ipynb", nbformat.writes(plain, indent=1)
        for number, picture in enumerate(pictures_of(notebook), start=1):
            yield f"{address}-{number}.png", picture


def _page(name: str, notebook: nbformat.NotebookNode) -> str:
    head, *cells = notebook.cells
    title, _, start = head.source.partition("\n")
    parts = [title, f"*[This page as a notebook]({name}.ipynb).*", start.strip()]
    num_pictures = 0
    for cell in cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        if printed := printed_by(cell):
            parts.append(f"```text\n{printed}\n```")
        for _ in _pictures(cell):
            num_pictures += 1
            parts.append(f"![Output of the code above]({name}-{num_pictures}.png)")
    return "\n\n".join(parts) + "\n"
