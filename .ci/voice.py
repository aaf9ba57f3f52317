"""Check names and prose against the word list in voice.txt.

`python .ci/voice.py` checks, `--list TEXT` prints the hits of the patterns that contain TEXT, and
`--update` writes the present counts. Each line of voice.txt has the accepted hits in src, the
accepted hits in docs, and a regular expression. Section `names` is matched against every name that
the code binds or defines, `openings` against the first words of docstrings, and `phrases` against
docstrings, comments, strings and prose, joined across line breaks. A count above the accepted one
fails. A line `FILE: TEXT` of section `allow` exempts a hit in FILE whose context contains TEXT.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
LIST = Path(__file__).parent / "voice.txt"
PAGES = ("README.md", "docs/*.md", "docs/lessons/*.py", "docs/api/*.md")
GENERATED = {"changelog.md", "commands.md", "contributing.md", "reproduced.md", "thresholds.md"}

Hit = tuple[str, int, str]
"""File, line and the name or text that matched."""


def bound_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield every name that code binds or defines, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node, clean=True)
            if text:
                yield node.body[0].lineno, " ".join(text.split())
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.lineno, " ".join(str(node.value.value).split())


def prose_of_code(text: str) -> Iterator[tuple[int, str]]:
    """Yield docstrings, strings and comments; neighboring comment lines are joined."""
    tree = ast.parse(text)
    yield from dict.fromkeys(docstrings(tree))
    documented = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, str) and id(node) not in documented and " " in value:
            yield node.lineno, " ".join(value.split())
    comment: list[str] = []
    start = last = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            if comment and token.start[0] != last + 1:
                yield start, " ".join(comment)
                comment = []
            start, last = (start if comment else token.start[0]), token.start[0]
            comment.append(token.string.lstrip("# "))
    if comment:
        yield start, " ".join(comment)


def prose_of_page(text: str) -> Iterator[tuple[int, str]]:
    """Yield the paragraphs of a page outside of code, formulas and inline code."""
    blank = re.sub(r"(?s)```.*?```|\\\[.*?\\\]", lambda m: "\n" * m[0].count("\n"), text)
    line = 1
    for paragraph in re.split(r"(\n\s*\n)", blank):
        if paragraph.strip():
            yield line, " ".join(re.sub(r"`[^`]*`", "`code`", paragraph).split())
        line += paragraph.count("\n")


def fences(text: str) -> str:
    return "\n".join(re.findall(r"(?s)```python\n(.*?)```", text))


def collect() -> dict[str, dict[str, list[Hit]]]:
    """Return the names and the texts of both places, each with its file and line."""
    hits: dict[str, dict[str, list[Hit]]] = {
        section: {"src": [], "docs": []} for section in ("names", "openings", "phrases")
    }
    for path in sorted((ROOT / "src").rglob("*.py")):
        name, text = str(path.relative_to(ROOT)), path.read_text()
        hits["names"]["src"] += [(name, line, word) for line, word in bound_names(ast.parse(text))]
        hits["openings"]["src"] += [
            (name, *hit) for hit in dict.fromkeys(docstrings(ast.parse(text)))
        ]
        hits["phrases"]["src"] += [(name, line, words) for line, words in prose_of_code(text)]
    for pattern in PAGES:
        for path in sorted(ROOT.glob(pattern)):
            name, text = str(path.relative_to(ROOT)), path.read_text()
            if path.name in GENERATED:
                continue
            if path.suffix == ".py":
                hits["phrases"]["docs"] += [(name, a, b) for a, b in prose_of_code(text)]
                continue
            hits["phrases"]["docs"] += [(name, line, words) for line, words in prose_of_page(text)]
            try:
                tree = ast.parse(fences(text))
            except SyntaxError:
                continue
            hits["names"]["docs"] += [(name, line, word) for line, word in bound_names(tree)]
    return hits


def read_list() -> tuple[dict[str, list[tuple[int, int, str]]], list[tuple[str, str]]]:
    """Return the patterns of each section and the allowed exceptions."""
    sections: dict[str, list[tuple[int, int, str]]] = {"names": [], "openings": [], "phrases": []}
    allowed, section = [], ""
    for line in LIST.read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line.strip() and not line.startswith("#"):
            if section == "allow":
                file, _, text = line.partition(": ")
                allowed.append((file, text))
            else:
                source, docs, pattern = line.split(maxsplit=2)
                sections[section].append((int(source), int(docs), pattern))
    return sections, allowed


def hits_of(
    section: str, pattern: str, texts: list[Hit], allowed: list[tuple[str, str]]
) -> list[Hit]:
    compiled = re.compile(pattern)
    hits = []
    for file, line, text in texts:
        if section == "names":
            matches = [text] if compiled.fullmatch(text) else []
        else:
            matches = [text[max(m.start() - 40, 0) : m.end() + 40] for m in compiled.finditer(text)]
        for match in matches:
            if not any(re.fullmatch(f, file) and part in match for f, part in allowed):
                hits.append((file, line, match))
    return hits


def main() -> int:
    texts = collect()
    sections, allowed = read_list()
    update = "--update" in sys.argv
    wanted = sys.argv[sys.argv.index("--list") + 1] if "--list" in sys.argv else None
    lines, totals, failed = [], {}, False
    for section, patterns in sections.items():
        lines.append(f"[{section}]")
        totals[section] = 0
        for *limits, pattern in patterns:
            hits = [hits_of(section, pattern, texts[section][p], allowed) for p in ("src", "docs")]
            lines.append(f"{len(hits[0]):4d} {len(hits[1]):4d}  {pattern}")
            totals[section] += len(hits[0]) + len(hits[1])
            if wanted is not None and wanted in pattern:
                print(
                    *(f"{file}:{line}: {text}" for file, line, text in hits[0] + hits[1]), sep="\n"
                )
            for place, place_hits, limit in zip(("src", "docs"), hits, limits, strict=True):
                if len(place_hits) > limit and not update:
                    failed = True
                    print(f"{len(place_hits)} hits in {place}, {limit} accepted: {pattern}")
                    print(
                        *(f"  {file}:{line}: {text}" for file, line, text in place_hits), sep="\n"
                    )
    if update:
        _, allow, rest = LIST.read_text().partition("[allow]")
        LIST.write_text("\n".join(lines) + f"\n{allow}{rest}")
    phrases = totals["openings"] + totals["phrases"]
    print(f"voice: {totals['names']} names and {phrases} phrases of the word list")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
