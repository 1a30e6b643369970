"""Directives that turn the code's own tables into tables of the reference.

Law
---
1. It imports the installed library and reads; it holds no fact about it.
2. An empty table is an error: it means that the code moved and the page would silently lie.
3. Every name of the face is documented, or the build warns.

`error-table` lists the exceptions of `_multitables.errors`, `error-details` documents each under
its public name, `filter-table` lists the filters of the core, `constant-table MODULE` the
documented constants of a module, `option-table` the options of stores with the meanings that the
page gives, and `program-help MODULE` is what a program prints for `--help`.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import subprocess
import sys

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.pycode import ModuleAnalyzer
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

Row = tuple[str, ...]
#: The largest unit comes first.
UNITS = ((30, "GiB"), (20, "MiB"), (10, "KiB"), (0, "bytes"))


def first_sentence(text: str | None) -> str:
    """The summary of a docstring, on one line."""
    paragraph = inspect.cleandoc(text or "").split("\n\n")[0]
    return " ".join(paragraph.split())


def list_table(header: Row, rows: list[Row]) -> list[str]:
    """The lines of a ``list-table``."""
    if not rows:
        raise ValueError(f"nothing to list under {header}")
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in [header, *rows]:
        for position, cell in enumerate(row):
            first, *rest = cell.splitlines() or [""]
            lines.append(f"   {'*' if position == 0 else ' '} - {first}")
            lines.extend(f"       {line}" for line in rest)
    return [*lines, ""]


def public_errors() -> list[type[BaseException]]:
    """Every exception class of the face, in the order of its definition."""
    module = importlib.import_module("_multitables.errors")
    face = importlib.import_module("multitables")
    found = []
    for name, value in vars(module).items():
        is_error = inspect.isclass(value) and issubclass(value, BaseException)
        if not is_error or name.startswith("_"):
            continue
        if getattr(face, name, None) is not value:
            raise ValueError(f"multitables.{name} is missing from the face")
        found.append(value)
    return found


def error_rows() -> list[Row]:
    """Name, bases and summary of every exception."""
    return [
        (
            f"`multitables.{error.__name__}`",
            ", ".join(f"``{base.__name__}``" for base in error.__bases__),
            first_sentence(error.__doc__),
        )
        for error in public_errors()
    ]


def error_details() -> list[str]:
    """One ``autoexception`` for each exception."""
    lines = []
    for error in public_errors():
        lines += [f".. autoexception:: multitables.{error.__name__}()", ""]
    return lines


def filter_rows() -> list[Row]:
    """HDF5's number and the name of every filter that the core decodes."""
    core = importlib.import_module("_multitables._core")
    return [(str(number), f"``{name}``") for number, name in sorted(core.native_filters().items())]


def constant_rows(module_name: str) -> list[Row]:
    """The constants of a module that have a ``#:`` comment, with value and comment."""
    module = importlib.import_module(module_name)
    documented = ModuleAnalyzer.for_module(module_name)
    documented.analyze()
    rows = []
    for (scope, name), comment in documented.attr_docs.items():
        if not scope and name.isupper():
            rows.append(
                (f"``{name}``", f"``{getattr(module, name)!r}``", " ".join(comment).strip())
            )
    return rows


def default_text(name: str, value: object) -> str:
    """The default of an option, in the unit that its name ends with."""
    if isinstance(value, int) and name.endswith("_bytes"):
        shift, unit = next(one for one in UNITS if value % (1 << one[0]) == 0)
        return f"{value >> shift} {unit}"
    if isinstance(value, float) and name.endswith("_seconds"):
        return f"{value:g} s"
    return f"``{value!r}``" if value not in ("", ()) else "none"


def option_rows(lines: list[str]) -> list[Row]:
    """Name, default and meaning of every option of stores; meanings are ``name: text``."""
    own = importlib.import_module("_multitables.remote.options").OWN
    texts = re.split(r"^(?=\w+: )", "\n".join(lines).strip(), flags=re.MULTILINE)
    meanings = dict(" ".join(text.split()).split(": ", 1) for text in texts if text)
    if meanings.keys() != own.keys():
        raise ValueError(f"no option, or without a meaning: {meanings.keys() ^ own.keys()}")
    return [
        (f"``{name}``", default_text(name, own[name][0]), meaning)
        for name, meaning in meanings.items()
    ]


class CodeTable(SphinxDirective):
    """A table that a function above makes."""

    has_content = True
    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Make the table and parse it in place."""
        if self.name == "error-details":
            lines = error_details()
        elif self.name == "error-table":
            lines = list_table(("error", "is also", "means"), error_rows())
        elif self.name == "option-table":
            rows = option_rows(list(self.content))
            lines = list_table(("option", "default", "meaning"), rows)
        elif self.name == "filter-table":
            lines = list_table(("HDF5's number", "filter"), filter_rows())
        else:
            rows = constant_rows(self.arguments[0])
            lines = list_table(("constant", "value", "meaning"), rows)
        holder = nodes.Element()
        self.state.nested_parse(StringList(lines, source=self.name), self.content_offset, holder)
        return list(holder.children)


class ProgramHelp(SphinxDirective):
    """What ``python -m MODULE --help`` prints."""

    has_content = False
    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Run it in a process of its own; a program that fails fails the build."""
        text = subprocess.run(
            [sys.executable, "-m", self.arguments[0], "--help"],
            env={**os.environ, "COLUMNS": "88", "NO_COLOR": "1"},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        return [nodes.literal_block(text, text, language="text")]


def warn_of_what_is_not_documented(_app: Sphinx, environment: BuildEnvironment) -> None:
    """Compare the face's ``__all__`` with what the pages describe."""
    face = importlib.import_module("multitables")
    known = environment.domaindata["py"]["objects"]
    for name in face.__all__:
        if f"multitables.{name}" not in known:
            logging.getLogger(__name__).warning("multitables.%s is not documented", name)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    for name in ("error-table", "error-details", "filter-table", "constant-table", "option-table"):
        app.add_directive(name, CodeTable)
    app.add_directive("program-help", ProgramHelp)
    app.connect("env-check-consistency", warn_of_what_is_not_documented)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
