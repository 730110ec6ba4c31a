"""The site: `make docs`. Pages read as well in the repository; what only a site needs is made here."""

import re
from pathlib import Path

from sphinx.application import Sphinx

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"
FENCE = re.compile(r"^(```.*?^```)", re.DOTALL | re.MULTILINE)
OUT = re.compile(r"\]\((\.\./[^)#]+)\)")
LINK = re.compile(r"^\* \[.*?\]\(([\w/-]+)\.md\)", re.MULTILINE)

project = "toolnexus"
html_title = "toolnexus"
html_theme = "furo"
html_show_sphinx = False
html_copy_source = False
extensions = ["myst_parser"]
myst_heading_anchors = 3
exclude_patterns = ["conf.py"]


def _contents(index: str) -> str:
    """Trees of pages from the lists below the headings of the first page, so that they are written once."""
    out = [index]
    for section in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        title, pages = section.partition("\n")[0], LINK.findall(section)
        if pages:
            out += ["```{toctree}", ":hidden:", f":caption: {title}", "", *pages, "```", ""]
    return "\n".join(out)


def _programs(page: str) -> str:
    """The page of examples with what is in their folders."""
    for readme in sorted(EXAMPLES.glob("*/README.md")):
        title, _, about = readme.read_text().partition("\n")
        page += f"\n#{title}\n{about.replace('](../../', '](../')}\n"
        for file in sorted(readme.parent.rglob("*")):
            if file.suffix in (".py", ".yaml", ".toml", ".js", ".md") and file.name != "README.md":
                kind = {".py": "python", ".md": "markdown"}.get(file.suffix, file.suffix[1:])
                page += f"\n`{file.relative_to(EXAMPLES)}`\n\n````{kind}\n{file.read_text()}````\n"
    return page


def _link(match: re.Match[str], page: Path) -> str:
    """Links that leave the folder: to programs on the page of examples, to other files as they are."""
    target = (page / match[1]).resolve()
    if target.is_relative_to(HERE):
        return match[0]
    up = "../" * len(page.relative_to(HERE).parts)
    if target.parent == EXAMPLES:
        return f"]({up}examples.md#{target.name})"
    return f"](path:{match[1]}{'/README.md' if target.is_dir() else ''})"


def _read(app: Sphinx, name: str, source: list[str]) -> None:
    text, page = source[0], (HERE / name).parent
    text = _contents(text) if name == "index" else _programs(text) if name == "examples" else text
    parts = FENCE.split(text)
    parts[::2] = [OUT.sub(lambda match: _link(match, page), part) for part in parts[::2]]
    source[0] = "".join(parts)


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _read)
