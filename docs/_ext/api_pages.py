"""A page for each class of the face: written from the lists on `reference/api`, before it is read.

Law
---
1. A line of the directive ``api-pages`` is a page: its first name is the title, and functions may
   stand behind it. Parentheses replace the signature; ``Batches()`` is made by the library. Members
   behind a minus are not for users.
2. The object decides the rest of its page: members with a docstring, also inherited ones,
   but for those of a base that has a page of its own.
3. The pages are written into ``reference/api/``, which git does not keep; a page whose line is gone
   is deleted, and one that has not changed is left as it is.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

from code_tables import first_sentence, list_table
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.ext.autodoc.mock import mock
from sphinx.util.docutils import SphinxDirective

INDEX, FOLDER = "reference/api", "reference/api"
SPECIAL = ("__iter__", "__len__", "__getitem__", "__getitems__")
NAME = re.compile(r"(?<![-\w])(\w+)(\([^)]*\))?((?: -\w+)*)")


def pages(lines: list[str]) -> list[list[tuple[str, str, list[str]]]]:
    """Of each page the names, with the signatures that are given and the members left out."""
    return [
        [(name, given, left_out.split(" -")[1:]) for name, given, left_out in NAME.findall(line)]
        for line in lines
        if line.strip()
    ]


def class_options(value: type, left_out: list[str]) -> dict[str, str]:
    """The options of ``autoclass`` for a class."""
    face = importlib.import_module("multitables")
    bases = [base for base in value.__mro__[1:] if getattr(face, base.__name__, None) is base]
    text = inspect.getdoc(value) or ""
    section = re.search(r"^Attributes\n-+\n(.*?)(?:\n\n\S+\n-+|\Z)", text, re.DOTALL | re.MULTILINE)
    described = re.findall(r"^(\w[\w, ]*?) *(?::|$)", section[1], re.MULTILINE) if section else []
    special = [one for one in SPECIAL if inspect.getdoc(getattr(value, one, None))]
    hidden = [*described, *left_out]
    return {
        "members": "",
        "inherited-members": bases[0].__name__ if bases else "",
        **({"show-inheritance": ""} if bases else {}),
        **({"special-members": ", ".join(special)} if special else {}),
        **({"exclude-members": ", ".join(hidden)} if hidden else {}),
    }


def documented(name: str, signature: str, left_out: list[str]) -> list[str]:
    """The directive that documents a name of the face."""
    value = getattr(importlib.import_module("multitables"), name)
    if value.__name__ != name:
        text = f"Another name for `multitables.{value.__name__}`."
        return [f".. function:: {name}{signature}", "", f"   {text}", ""]
    if not inspect.isclass(value):
        return [f".. autofunction:: multitables.{name}{signature}", ""]
    options = class_options(value, left_out)
    lines = [f"   :{option}: {text}".rstrip() for option, text in options.items()]
    return [f".. autoclass:: multitables.{name}{signature}", *lines, ""]


def page(names: list[tuple[str, str, list[str]]]) -> str:
    """The text of a page."""
    title = names[0][0]
    lines = [title, "=" * len(title), "", ".. currentmodule:: multitables", ""]
    lines += [".. testsetup::", "", "   import multitables, numpy as np", ""]
    for name, signature, left_out in names:
        lines += documented(name, signature, left_out)
    return "\n".join(lines)


def write_pages(app: Sphinx) -> None:
    """Write the page of each line below each ``api-pages``."""
    folder = Path(app.srcdir, FOLDER)
    folder.mkdir(exist_ok=True)
    text = Path(app.srcdir, f"{INDEX}.rst").read_text(encoding="utf-8")
    left = set(folder.glob("*.rst"))
    with mock(app.config.autodoc_mock_imports):
        for block in re.findall(r"^\.\. api-pages::\n\n((?:   .*\n)+)", text, re.MULTILINE):
            for names in pages(block.splitlines()):
                file, made = folder / f"{names[0][0]}.rst", page(names)
                left.discard(file)
                if not file.exists() or file.read_text(encoding="utf-8") != made:
                    file.write_text(made, encoding="utf-8")
    for file in left:
        file.unlink()


class ApiPages(SphinxDirective):
    """Names and first sentences, with links to their pages."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Make the table, and the table of contents that the sidebar shows."""
        face = importlib.import_module("multitables")
        listed = pages(list(self.content))
        rows = [
            (f"`multitables.{name}`", first_sentence(getattr(face, name).__doc__))
            for names in listed
            for name, *_ in names
        ]
        lines = [".. toctree::", "   :hidden:", ""]
        lines += [f"   /{FOLDER}/{names[0][0]}" for names in listed]
        lines += ["", *list_table(("name", "what it is"), rows)]
        holder = nodes.Element()
        self.state.nested_parse(StringList(lines, source=self.name), self.content_offset, holder)
        return list(holder.children)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive, and write the pages before Sphinx looks for documents."""
    app.add_directive("api-pages", ApiPages)
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
