"""Check a built site: every link inside it leads somewhere, and no page needs the network.

    python tools/check_site.py runs/site

Scripts, styles, pictures and frames must be files of the site. Links to other sites are left to
`make docs-links`.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

NEEDED = {("script", "src"), ("img", "src"), ("iframe", "src"), ("link", "href")}
"""What a browser fetches by itself, by tag and attribute."""


class Link(NamedTuple):
    target: str
    needed: bool
    """Whether the page fetches it without a click."""


class Page(HTMLParser):
    """The links of a page, and the anchors that others may link to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[Link] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and (name == "id" or (tag, name) == ("a", "name")):
                self.anchors.add(value)
            if value and ((tag, name) in NEEDED or (tag, name) == ("a", "href")):
                self.links.append(Link(value, (tag, name) in NEEDED))


def wrong(path: Path, link: Link, pages: dict[Path, Page]) -> str | None:
    """What is wrong with a link of a page, or None."""
    parts = urlsplit(link.target)
    if parts.scheme == "data":
        return None
    if parts.scheme or parts.netloc:
        return "is fetched from the network" if link.needed else None
    file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if file.is_dir():
        file /= "index.html"
    if not file.is_file():
        return "leads to no file"
    anchor = unquote(parts.fragment)
    if anchor and file in pages and anchor not in pages[file].anchors:
        return "leads to no such heading"
    return None


def faults(site: Path) -> list[str]:
    """A line for each link that is wrong."""
    pages = {path.resolve(): Page(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}
    return [
        f"{path.relative_to(site.resolve())}: {link.target} {reason}"
        for path, page in pages.items()
        for link in dict.fromkeys(page.links)
        if (reason := wrong(path, link, pages))
    ]


def main() -> None:
    site = Path(sys.argv[1])
    found = faults(site)
    print(*found, sep="\n", end="\n" if found else "")
    if not (site / "index.html").is_file():
        sys.exit(f"{site} is not a site: it has no index.html")
    if found:
        sys.exit(f"{len(found)} wrong links in {site}")
    print(f"All links inside {site} lead somewhere, and its pages need no network.")


if __name__ == "__main__":
    main()
