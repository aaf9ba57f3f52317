"""Pages that live elsewhere in the repository, and figures of `results/`, brought into the site.

A page that says `{{ learning-speed > step at M = 1200 > ratio | .1f }}` shows that entry of
`results/learning-speed.json` in that format; `median` and `max` are over the entries of a list.
Without the file, or the entry, there is no site, nor with a file of an earlier minor version.
"""

import json
import re
import shutil
import statistics
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PRESENT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
PAGES = {
    "contributing.md": ROOT / "CONTRIBUTING.md",
    "changelog.md": ROOT / "CHANGELOG.md",
    "reproduced.md": ROOT / "results" / "reproduce.md",
}


def on_pre_build(config) -> None:
    docs = Path(config["docs_dir"])
    sys.path.insert(0, str(docs))
    from thresholds import page

    _copy(page(), docs / "thresholds.md")
    for name, source in PAGES.items():
        _copy(source.read_text(), docs / name)
    for picture in PAGES["reproduced.md"].parent.glob("reproduce-*.png"):
        if not (docs / picture.name).exists() or _older(docs / picture.name, picture):
            shutil.copy2(picture, docs / picture.name)


def _copy(text: str, target: Path) -> None:
    text = text.replace("docs/architecture.md", "architecture.md")
    if not target.exists() or target.read_text() != text:
        target.write_text(text)


def _older(one: Path, two: Path) -> bool:
    return one.stat().st_mtime < two.stat().st_mtime


def on_page_markdown(markdown: str, page, config, files) -> str:
    del config, files
    return with_figures(markdown, page.file.src_path)


def on_page_content(html: str, page, config, files) -> str:
    """Pictures open in full: on a phone a row of three is too small to be read."""
    del page, config, files
    return re.sub(r'(?<!">)(<img [^>]*src="([^"]+)"[^>]*>)(?!</a>)', r'<a href="\2">\1</a>', html)


def with_figures(markdown: str, name: str) -> str:
    """A page with its figures in the place of where they are kept."""

    def figure(match: re.Match[str]) -> str:
        file, *keys = (part.strip() for part in match[1].split(" > "))
        path = ROOT / "results" / f"{file}.json"
        if not path.exists():
            raise FileNotFoundError(f"{name} shows a figure of {path.name}, which is not there.")
        result = json.loads(path.read_text())
        written = (result.get("environment") or result.get("versions"))["kernelpde"]
        if _minor(written) < _minor(PRESENT):
            raise ValueError(
                f"{name} shows a figure of {path.name}, which version {written} has written; "
                f"this is {PRESENT}: measure again."
            )
        return format(_entry(result, keys, name), match[2].strip())

    return re.sub(r"\{\{ ([^|{}]+) \|([^|{}]+)\}\}", figure, markdown)


def _minor(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


def _entry(found: Any, keys: Sequence[str], name: str) -> Any:
    if not keys:
        return found
    key, *others = keys
    if isinstance(found, list):
        if key in _OVER:
            return _OVER[key](_entry(each, others, name) for each in found)
        return _entry(found[int(key)], others, name)
    if key not in found:
        raise KeyError(f"{name}: there is no {key!r}, but {', '.join(map(repr, found))}.")
    return _entry(found[key], others, name)


_OVER = {"median": statistics.median, "max": max}
