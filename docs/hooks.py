"""Pages that live elsewhere in the repository, brought into the site when it is built."""

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
