"""Run every script in `examples/` and write a page of the gallery from it.

    python docs/make_gallery.py [NAME]...

A page holds the script as it is, what it prints, and the figures it leaves in variables.
"""

import contextlib
import io
import re
import sys
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

mpl.use("Agg")
ROOT = Path(__file__).parent.parent
GALLERY = ROOT / "docs" / "gallery"


def page(script: Path) -> str:
    """The page of a script, its figures written beside it."""
    source = script.read_text()
    printed, names = io.StringIO(), {"__name__": "__main__"}
    with contextlib.redirect_stdout(printed):
        exec(compile(source, script.name, "exec"), names)
    title, _, about = (names["__doc__"] or script.stem).strip().partition("\n")
    code = re.sub(r'^""".*?"""\n+', "", source, flags=re.DOTALL)
    parts = [f"# {title.rstrip('.')}", about.strip(), f"```python\n{code}```"]
    if printed.getvalue():
        parts.append(f"It prints\n\n```text\n{printed.getvalue()}```")
    for name, figure in names.items():
        if isinstance(figure, Figure):
            path = GALLERY / f"{script.stem}-{name}.png"
            figure.savefig(path, dpi=110)
            parts.append(f"![{title} {name}]({path.name})")
    parts.append(
        f"This page is made from `examples/{script.name}` by `python docs/make_gallery.py`."
    )
    return "\n\n".join(parts) + "\n"


def main() -> None:
    GALLERY.mkdir(exist_ok=True)
    for script in sorted((ROOT / "examples").glob("*.py")):
        if not sys.argv[1:] or script.stem in sys.argv[1:]:
            (GALLERY / f"{script.stem}.md").write_text(page(script))
            print(script.stem)


if __name__ == "__main__":
    main()
