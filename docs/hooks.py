"""Pages that live elsewhere in the repository, and figures of `results/`, brought into the site.

A page that says `{{ learning-speed > step at M = 1200 > ratio | .1f }}` shows that entry of
`results/learning-speed.json` in that format. Without the file, or the entry, there is no site.
"""

import json
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
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


def with_figures(markdown: str, name: str) -> str:
    """A page with its figures in the place of where they are kept."""

    def figure(match: re.Match[str]) -> str:
        file, *keys = (part.strip() for part in match[1].split(" > "))
        path = ROOT / "results" / f"{file}.json"
        if not path.exists():
            raise FileNotFoundError(f"{name} shows a figure of {path.name}, which is not there.")
        found = json.loads(path.read_text())
        for key in keys:
            if isinstance(found, list):
                found = found[int(key)]
            elif key in found:
                found = found[key]
            else:
                raise KeyError(f"{name}: {path.name} has no {' > '.join(keys)}, but {list(found)}.")
        return format(found, match[2].strip())

    return re.sub(r"\{\{ ([^|{}]+) \|([^|{}]+)\}\}", figure, markdown)
