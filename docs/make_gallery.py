"""Run every script in `examples/` and write a page of the gallery from it.

    python docs/make_gallery.py [NAME]...

A page holds the script as it is, what it prints, and the figures it leaves in variables. `first`
is the picture of the first page.
"""

import contextlib
import io
import re
import shutil
import sys
import tempfile
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

mpl.use("Agg")
ROOT = Path(__file__).parent.parent
GALLERY = ROOT / "docs" / "gallery"


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


def main() -> None:
    GALLERY.mkdir(exist_ok=True)
    scripts = {script.stem: script for script in sorted((ROOT / "examples").glob("*.py"))}
    for name in sys.argv[1:] or ["first", *scripts]:
        if name == "first":
            first_picture()
        else:
            (GALLERY / f"{name}.md").write_text(page(scripts[name]))
        print(name)


if __name__ == "__main__":
    main()
