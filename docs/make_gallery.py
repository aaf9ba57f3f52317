"""Run every script in `examples/` and write a page of the gallery from it.

    python docs/make_gallery.py [NAME]...

A page holds the script as it is, what it prints, and the figures it leaves in variables. `first`
is the picture of the first page, `animation` the moving one of the README. `groups` writes a page
for each group of the gallery's problems and an index of all, with what
`benchmarks/gallery.py` has measured and drawn.
"""

import ast
import contextlib
import html
import io
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.image import imread

from kernelpde.gallery import Heading, headings

mpl.use("Agg")
ROOT = Path(__file__).parent.parent
GALLERY = ROOT / "docs" / "gallery"
PAGES = ROOT / "src" / "kernelpde" / "gallery" / "pages"


def page(script: Path) -> str:
    """The page of a script, its figures written beside it."""
    source = script.read_text()
    printed, names = io.StringIO(), {"__name__": "__main__", "__file__": str(script)}
    with contextlib.redirect_stdout(printed):
        exec(compile(source, script.name, "exec"), names)
    title, _, about = (names["__doc__"] or script.stem).strip().partition("\n")
    code = re.sub(r'^""".*?"""\n+', "", source, flags=re.DOTALL)
    pictures = []
    for name, figure in names.items():
        if isinstance(figure, Figure):
            path = GALLERY / f"{script.stem}-{name}.png"
            figure.savefig(path, dpi=110)
            pictures.append(f"![{title} {name}]({path.name})")
    parts = [f"# {title.rstrip('.')}", about.strip(), *pictures, f"```python\n{code}```"]
    if printed.getvalue():
        parts.append(f"It prints\n\n```text\n{printed.getvalue()}```")
    parts.append(f"Made from `examples/{script.name}` by `python docs/make_gallery.py`.")
    return "\n\n".join(parts) + "\n"


def first_picture() -> None:
    """The picture that the first page's code makes."""
    text = (ROOT / "docs" / "index.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    with tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):
        exec(compile(block, "index.md", "exec"), {})
        shutil.copy("u.png", ROOT / "docs" / "figures" / "first.png")


def animation() -> None:
    """The moving picture of the README, from what the command does."""
    from kernelpde.evolve import march
    from kernelpde.gallery import EXAMPLES

    example = EXAMPLES["burgers-periodic"]()
    evolution = march(example.problem, example.windows, example.points)
    moving = evolution.animate(references=example.references)
    moving.save(ROOT / "docs" / "figures" / "burgers.gif")


FIGURES = ROOT / "docs" / "figures" / "gallery"


def slug(group: str) -> str:
    return group.lower().replace(" ", "-")


def code_of(source: str) -> str:
    """A problem without its text, and without what only the gallery asks for."""
    code = re.sub(r'^""".*?"""\n+', "", source, flags=re.DOTALL)
    kept = [line for line in code.splitlines() if not line.startswith(("GROUP =", "small ="))]
    return re.sub(r"\n{3,}", "\n\n\n", "\n".join(kept)).strip() + "\n"


VARIABLE = re.compile(
    r"[\u03b1-\u03bf\u03c1-\u03c9]"  # Greek letters but for pi,
    r"|(?<=_)[a-zA-Z]+"  # subscripts,
    r"|(?<![A-Za-z])(?!in|on|at|of|it|as|is)[A-Za-z]{1,2}(?![A-Za-z])"  # products of one or two
)


def typeset(equation: str) -> str:
    """Formulas of a docstring with italic variables, subscripts and superscripts."""
    text = VARIABLE.sub("\0<\\g<0>\0>", equation.replace("-", "\u2212").replace("'", "\u2032"))
    text = html.escape(text, quote=False)
    text = re.sub(r"\0&lt;(\w+)\0&gt;", r"<i>\1</i>", text)
    text = re.sub(r"_(<i>\w+</i>)", r"<sub>\1</sub>", text)
    text = re.sub(r"\^\(([^()]*)\)", r"<sup>\1</sup>", text)
    lines = [re.split(r" {2,}", line.strip()) for line in text.splitlines()]
    return '<p class="equation">{}</p>'.format(
        "<br>".join("&emsp;".join(f"<span>{part}</span>" for part in line) for line in lines)
    )


def row(name: str, found: dict[str, Any]) -> str:
    """Of a problem what was measured, as a row of a table."""
    errors = ", ".join(f"{field} {error:.1e}" for field, error in found["errors"].items())
    mark = "" if found["converged"] else " (not resolved)"
    windows = f"{found['windows']} x " if "windows" in found else ""
    # One factorization of a few hundred rows takes less time than it takes to call it.
    units = f", {found['choleskys']:.0f} Choleskys" if found["rows"] > 500 else ""
    return f"| {name} | {windows}{found['rows']} | {errors}{mark} | {found['cpu']:.1f} s{units} |"


def card(heading: Heading, title: str, found: dict[str, Any] | None) -> str:
    """Of a problem its picture, which shows the solution, and how accurate it is."""
    place = f"{slug(heading.group)}.md#{heading.name}"
    picture = f"../figures/gallery/{heading.name}.png"
    # A row of panels is some 240 pixels high.
    rows = max(1, round(imread(FIGURES / f"{heading.name}.png").shape[0] / 240))
    style = f' style="--rows: {rows}"' if rows > 1 else ""
    lines = [f"- [![{title}]({picture}){{ loading=lazy{style} }}]({place})", ""]
    lines += [f"    **[{heading.name}]({place})**: {heading.summary}"]
    if found is not None:
        errors = ", ".join(f"{error:.0e}" for error in found["errors"].values())
        lines[-1] += f" *Error {errors}.*"
    return "\n".join(lines)


TABLE = "| problem | rows | relative error | CPU time, warm |\n|---|---|---|---|"


def groups() -> dict[str, str]:
    """A page for each group, and the index, by their names."""
    file = ROOT / "results" / "gallery.json"
    measured = json.loads(file.read_text())["pages"] if file.exists() else {}
    by_group: dict[str, list[Heading]] = {}
    for heading in headings().values():
        by_group.setdefault(heading.group, []).append(heading)
    written = {}
    index = [
        "# Gallery",
        "Each problem is a file as you would write it yourself: the equation, its conditions, "
        "points, and a solution to compare with. `kernelpde examples --group fluids` lists a "
        "group, `kernelpde solve NAME` solves one. Kernels are learned from the given ones without "
        "options; errors are relative, of each field, the median of three seeds at points that are "
        "not those of the conditions (`python benchmarks/gallery.py`).",
    ]
    for group, pages in sorted(by_group.items()):
        texts, cards = [f"# {group[0].upper()}{group[1:]}"], []
        for heading in pages:
            source = (PAGES / f"{heading.name.replace('-', '_')}.py").read_text()
            about = ast.get_docstring(ast.parse(source)) or ""
            title, _, rest = about.partition("\n")
            equation, _, rest = rest.strip("\n").partition("\n\n")
            code = code_of(source)
            texts += [f"## {heading.name}", f"**{title}**", typeset(equation), rest.strip("\n")]
            if (FIGURES / f"{heading.name}.png").exists():
                texts.append(f"![{title}](../figures/gallery/{heading.name}.png)")
            found = measured.get(heading.name)
            if found is not None:
                texts.append(f"{TABLE}\n{row(heading.name, found)}")
            texts.append(f"```python\n{code}```")
            if found is not None and "printed" in found:
                texts.append(f"`print(solution)` says\n\n```text\n{found['printed']}\n```")
            cards.append(card(heading, title, found))
        written[f"{slug(group)}.md"] = "\n\n".join(texts) + "\n"
        index += [
            f"## {group[0].upper()}{group[1:]}",
            '<div class="grid cards gallery" markdown>',
            *cards,
            "</div>",
        ]
    notebooks = sorted((GALLERY / "notebooks").glob("*.ipynb"))
    links = [f"[{each.stem.replace('_', '-')}](notebooks/{each.name})" for each in notebooks]
    index += ["## As notebooks", ", ".join(links)]
    scripts = sorted((ROOT / "examples").glob("*.py"))
    index += ["## From start to finish"]
    index += [
        "\n".join(f"- [{_title(script)}]({script.stem}.md)" for script in scripts),
        "The problems of the paper are on [a page of their own](../reproduced.md).",
    ]
    return {**written, "index.md": "\n\n".join(index) + "\n"}


def _title(script: Path) -> str:
    about = ast.get_docstring(ast.parse(script.read_text())) or script.stem
    return about.split("\n")[0].rstrip(".")


def main() -> None:
    GALLERY.mkdir(exist_ok=True)
    scripts = {script.stem: script for script in sorted((ROOT / "examples").glob("*.py"))}
    for name in sys.argv[1:] or ["first", "animation", "groups", *scripts]:
        if name == "first":
            first_picture()
        elif name == "animation":
            animation()
        elif name == "groups":
            for file, text in groups().items():
                (GALLERY / file).write_text(text)
        else:
            (GALLERY / f"{name}.md").write_text(page(scripts[name]))
        print(name)


if __name__ == "__main__":
    main()
