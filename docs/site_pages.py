"""What mkdocs does not know of this repository, as its hook.

Pages may link to files outside docs/: those become pages of the site too. Pictures are put into
the page itself, so that they follow its light and dark, and state diagrams are drawn, not scripted.
"""

import posixpath
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
# Pages that live elsewhere in the repository, by their place on the site.
GUESTS = {
    "ARCHITECTURE.md": "rooms-and-rules.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "index.md",
    "SECURITY.md": "security.md",
    "deploy/README.md": "places-to-run.md",
    "deploy/cpu-engine/README.md": "cpu-engine.md",
    "deploy/grafana/README.md": "dashboards.md",
    "examples/README.md": "examples.md",
    "examples/ai-run/README.md": "ai-run.md",
}
_HOSTS = {site: source for source, site in GUESTS.items() if source != "README.md"}
_LINK = re.compile(r"\]\((?P<target>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)")
_PICTURE = re.compile(r"^!\[(?P<words>[^\]]*)\]\((?P<target>[^)\s]+\.svg)\)$", re.MULTILINE)
_DIAGRAM = re.compile(r"^```mermaid\n.*?^```$", re.MULTILINE | re.DOTALL)
_FENCED = re.compile(r"^( *)(```+|~~~+).*?^\1\2$", re.MULTILINE | re.DOTALL)
# For the test that runs every block (tests/acceptance/test_docs_blocks.py); readers need them not.
_MARK = re.compile(r"^ *<!-- (?:block|page): .*-->\n", re.MULTILINE)
_LIST_BEGINS = re.compile(r"^(?P<text>(?![-*] |\d+\. |[ |#>]).+)\n(?=(?:- |1\. ))", re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """A folder in the navigation stands for all its pages."""
    config.nav = _unfolded(config.nav)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that live elsewhere, and every file that a page links to."""
    for site, source in _HOSTS.items():
        files.append(File.generated(config, site, content=(ROOT / source).read_text()))
    for path in sorted(linked_files()):
        files.append(File.generated(config, site_of(path), content=source_page(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links by their place on the site, lists as GitHub reads them, pictures in the page."""
    del config, files
    uri = page.file.src_uri
    if uri == "index.md":
        page.meta["hide"] = ["navigation"]
    if uri.startswith("source/"):
        return markdown
    return _outside_fences(_drawn(_MARK.sub("", markdown), uri), uri)


def repository_path(uri: str) -> str:
    """Where a page of the site is in the repository."""
    return _HOSTS.get(uri, f"docs/{uri}")


def site_of(path: str) -> str:
    """Where a file of the repository is on the site."""
    if path in GUESTS:
        return GUESTS[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"source/{path}.md"


def linked_files() -> set[str]:
    """Files and folders outside docs/ that pages link to, by their path in the repository."""
    pages = [path.relative_to(ROOT).as_posix() for path in DOCS.rglob("*.md")]
    found = set()
    for page in [*pages, *_HOSTS.values()]:
        text = _FENCED.sub("", (ROOT / page).read_text())
        for link in _LINK.finditer(text):
            path = _resolved(page, link["target"])
            if not path.startswith("docs/") and path not in GUESTS and (ROOT / path).exists():
                found.add(path)
    return found


def source_page(path: str) -> str:
    """One file as a page, or a folder with what each of its files is for."""
    head = f"---\nsearch:\n  exclude: true\n---\n\n# {PurePosixPath(path).name}\n\n`{path}`\n\n"
    place = ROOT / path
    if place.is_dir():
        rows = [f"- `{one.name}`: {_about(one)}" for one in sorted(place.glob("*.py"))]
        return head + "\n".join(rows) + "\n"
    language = {".py": "python", ".mjs": "js"}.get(place.suffix, "text")
    return f"{head}~~~~~~{language}\n{place.read_text()}\n~~~~~~\n"


def _about(module: Path) -> str:
    return module.read_text().strip('"\n').partition("\n")[0].rstrip('"')


def _unfolded(entry: Any) -> Any:  # noqa: ANN401 - the navigation is YAML of any shape
    if isinstance(entry, list):
        return [_unfolded(one) for one in entry]
    if isinstance(entry, dict):
        return {title: _unfolded(one) for title, one in entry.items()}
    if isinstance(entry, str) and entry.endswith("/"):
        return [page.relative_to(DOCS).as_posix() for page in sorted((DOCS / entry).glob("*.md"))]
    return entry


def _outside_fences(markdown: str, uri: str) -> str:
    """Mend what stands outside fenced blocks; these stay as they are."""
    parts, end = [], 0
    for fence in _FENCED.finditer(markdown):
        parts += [_mended(markdown[end : fence.start()], uri), fence.group()]
        end = fence.end()
    return "".join([*parts, _mended(markdown[end:], uri)])


def _mended(text: str, uri: str) -> str:
    def relinked(link: re.Match[str]) -> str:
        path = _resolved(repository_path(uri), link["target"])
        target = posixpath.relpath(site_of(path), posixpath.dirname(uri) or ".")
        return f"]({target}{link['anchor'] or ''})"

    return _LINK.sub(relinked, _LIST_BEGINS.sub(r"\g<text>\n\n", text))


def _drawn(markdown: str, uri: str) -> str:
    """Pictures inside the page. The states of a thing are drawn in assets/<page>-states.svg."""

    def inlined(picture: re.Match[str]) -> str:
        svg = (ROOT / _resolved(repository_path(uri), picture["target"])).read_text()
        return _figure(svg, picture["words"])

    states = DOCS / "assets" / f"{PurePosixPath(uri).stem}-states.svg"
    drawn = _PICTURE.sub(inlined, markdown)
    return _DIAGRAM.sub(lambda _: _figure(states.read_text(), "States"), drawn)


def _figure(svg: str, words: str) -> str:
    # One line: markdown would read blank lines and indents inside it.
    flat = " ".join(line.strip() for line in svg.splitlines() if line.strip())
    return f'<figure class="picture" role="img" aria-label="{words}">{flat}</figure>'


def _resolved(page: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
