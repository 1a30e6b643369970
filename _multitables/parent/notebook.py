"""HTML of what a `repr` says, for notebooks.

Law
---
1. Text in, HTML out, and everything is escaped: names of a file may hold anything.
2. No script, no colours: it reads in dark and in light, and folds by itself.

This file must never know files, or what it shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from _multitables.parent.titles import printable

#: A fixed width for what would be code in a text, and rows without a notebook's stripes.
BOX = "font-family:monospace;line-height:1.5"
#: Browsers give tables a colour of their own in pages without a doctype.
TABLE = "color:inherit;font:inherit;border:none;margin:0"
FAINT = "opacity:.65"
CELL = "text-align:left;padding:0 1.5em 0 0;background:none;border:none"


def escaped(text: object) -> str:
    """Return a text as it stands in HTML."""
    from html import escape

    return escape(printable(text))


def page(inner: str) -> str:
    """Return what a notebook shows: HTML in a box."""
    return f'<div style="{BOX}">{inner}</div>'


def line(text: str) -> str:
    """Return a repr with its first words, the kind of the object, in bold."""
    words = text.removeprefix("<").removesuffix(">").split(" ")
    n_words = 2 if words[0] == "HDF5" else 1
    kind, rest = " ".join(words[:n_words]), "".join(f" {word}" for word in words[n_words:])
    return f"<strong>{escaped(kind)}</strong>{escaped(rest)}"


def entry(name: str, faint: str = "") -> str:
    """Return a name and its value."""
    more = f' <span style="{FAINT}">{escaped(faint)}</span>' if faint else ""
    return f"{escaped(name)}{more}"


def fold(summary: str, inner: Sequence[str], is_open: bool = False) -> str:
    """Return a line that unfolds to others."""
    items = "".join(f"<div>{one}</div>" for one in inner)
    state = " open" if is_open else ""
    return (
        f"<details{state}><summary>{summary}</summary>"
        f'<div style="padding-left:1.5em">{items}</div></details>'
    )


def table(rows: Iterable[tuple[str, object]]) -> str:
    """Return names and values below each other."""
    cells = "".join(
        f'<tr style="background:none"><th style="{CELL};{FAINT}">{escaped(name)}</th>'
        f'<td style="{CELL}">{escaped(value)}</td></tr>'
        for name, value in rows
    )
    return f'<table style="{TABLE}"><tbody>{cells}</tbody></table>'


class InNotebooks:
    """Shows its `repr` in notebooks as well."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return page(line(repr(self)))
