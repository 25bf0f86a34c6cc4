"""Lets pages that are read in the repository be read as a site as well; MkDocs loads this file as a hook.

Pages link to files by their places in the repository, also to files outside of `docs`: examples, the
changelog. Those become pages of the site here, and links to them lead there. A link to any other file outside
of `docs` is left as it is, and the strict build refuses it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from slacktide.app.setup.examples import Example, list_examples

ORIGINS = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}
"""Pages of the site whose texts are outside `docs`, and where."""
SOURCES = {"src/slacktide/demo/train.py": "examples/demo-train.md"}
"""Files of the source that pages link to, and the pages that show them."""
EXAMPLES = "examples"
ICON = "src/slacktide/service/dashboard/static/icon.svg"
LANGUAGES = {".py": "python", ".yaml": "yaml", ".csv": "text"}
"""Files of examples that are shown, and how they are colored."""
MOST_ROWS = 20
"""Rows of a table of an example that are shown."""
BEGINNING = """# Examples

They ship with the package: `slacktide examples` lists them, `slacktide examples NAME` copies one into the
present folder.

| example | what it shows |
|---|---|"""
LINK = re.compile(r"(?<=\]\()(?!https?://|mailto:|#)([^)#\s]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the site that are not in `docs`."""
    root = _root(config)
    texts = {uri: (root / name).read_text(encoding="utf-8") for uri, name in ORIGINS.items()}
    sources = {uri: f"# {name}\n\n{_fenced(root / name)}" for name, uri in SOURCES.items()}
    for uri, text in {**texts, **sources, **_examples()}.items():
        files.append(File.generated(config, uri, content=text))
    files.append(File.generated(config, "icon.svg", abs_src_path=str(root / ICON)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let the links of a page lead to pages of the site."""
    here, there = page.file.src_uri, _place(page.file)

    def led(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(there), found[1]))
        uri = site_uri(target)
        known = uri is not None and files.get_file_from_path(uri) is not None
        return posixpath.relpath(uri, posixpath.dirname(here) or ".") if uri and known else found[1]

    return LINK.sub(led, markdown)


def site_uri(target: str) -> str | None:
    """Return where in the site a file or folder of the repository is; None: it is not there."""
    if target.startswith("docs/"):
        return target.removeprefix("docs/")
    if target == EXAMPLES:
        return f"{EXAMPLES}/index.md"
    if target.startswith(f"{EXAMPLES}/"):
        return f"{EXAMPLES}/{Path(target).parts[1].removesuffix('.yaml')}.md"
    if target in SOURCES:
        return SOURCES[target]
    if target == "README.md":  # the site begins with a page of its own
        return "index.md"
    return next((uri for uri, origin in ORIGINS.items() if origin == target), None)


def _root(config: MkDocsConfig) -> Path:
    return Path(config.docs_dir).parent


def _place(file: File) -> str:
    """Return where in the repository the text of a page is, which is what its links are written from."""
    if file.src_uri in ORIGINS:
        return ORIGINS[file.src_uri]
    if file.generated_by is None:
        return f"docs/{file.src_uri}"
    name = Path(file.src_uri).stem
    return f"{EXAMPLES}/index.md" if name == "index" else f"{EXAMPLES}/{name}/README.md"


def _examples() -> dict[str, str]:
    """Write a page for each example, and one that lists them."""
    found = list_examples()
    listed = [f"| [{one.name}]({one.name}.md) | {one.summary} |" for one in found]
    pages = {f"{EXAMPLES}/{one.name}.md": _example(one) for one in found}
    return {f"{EXAMPLES}/index.md": "\n".join([BEGINNING, *listed, ""]), **pages}


def _example(example: Example) -> str:
    """Write the page of an example: what it says of itself, and its files."""
    paths = [
        path for part in example.parts for path in (sorted(part.rglob("*")) if part.is_dir() else [part])
    ]
    readme = next((path.read_text(encoding="utf-8") for path in paths if path.name == "README.md"), None)
    parts = [readme or f"# {example.name}\n\n{example.summary}\n"]
    parts.append(f"`slacktide examples {example.name}` copies it into the present folder.\n")
    return "\n".join([*parts, *(_shown(path, example) for path in paths if path.suffix in LANGUAGES)])


def _shown(path: Path, example: Example) -> str:
    return f"## {path.relative_to(example.path.parent).as_posix()}\n\n{_fenced(path)}"


def _fenced(path: Path) -> str:
    """Show a file, of a long table the first rows."""
    lines = path.read_text(encoding="utf-8").splitlines()
    if path.suffix == ".csv" and len(lines) > MOST_ROWS:
        lines = [*lines[:MOST_ROWS], f"... and {len(lines) - MOST_ROWS} rows more"]
    return "\n".join([f"```{LANGUAGES[path.suffix]}", *lines, "```\n"])
