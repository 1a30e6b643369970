"""What stands in an HTML page: its rows, words, anchors and links.

Law
---
1. Of the page it asserts one thing only: that tags are closed in turn.
"""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "img", "input", "link"}
#: A drawing with names of its own, and with what only a file of its own needs.
SVG = (
    '<?xml version="1.0"?>\n<svg xmlns:xlink="x" viewBox="0 0 1 1"><metadata>who</metadata>'
    '<g id="a"><path clip-path="url(#a)" style="fill: #24292f"/><use xlink:href="#a"/></g></svg>'
)


class Reader(HTMLParser):
    """What stands in a page; fails on tags that are not closed in turn."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.rows: list[list[str]] = []
        self.said: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src", "xlink:href", "srcset", "data", "action"):
                self.links.append(value or "")
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.said.append(data)
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data
