"""Messages, why they come and what to do: taken from where the library's code raises them.

Law
---
1. A message is the first argument of an exception, and a cure its ``advice``; values are "…". What
   stands in no literal, a constant of its file or a variable of its function, is left out.
2. The cause is the exception's docstring, whose second paragraph says what to do in general.
3. An exception without any cure fails the build.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from code_tables import list_table, public_errors
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

Names = dict[str, list[ast.expr]]
#: What stands for a message that has hardly any words of its own.
OTHER = "others"
Found = dict[str, dict[str, list[str]]]


def assigned(tree: ast.AST) -> Names:
    """The value of each name."""
    names: Names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            names.setdefault(node.targets[0].id, []).append(node.value)
    return names


def texts(node: ast.expr | None, names: Names) -> list[str]:
    """Each text that an expression may be, with "…" for values; empty where it is not a text."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
        return ["".join(map(str, parts))]
    if isinstance(node, ast.IfExp):
        return texts(node.body, names) + texts(node.orelse, names)
    if isinstance(node, ast.BoolOp):
        return [text for value in node.values for text in texts(value, names)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        ends = texts(node.right, names) or ["…"]
        return [start + end for start in texts(node.left, names) for end in ends]
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "advice_for":
        return texts(node.args[1], names)
    if isinstance(node, ast.Name):
        without = {name: values for name, values in names.items() if name != node.id}
        return [text for value in names.get(node.id, []) for text in texts(value, without)]
    return []


def raised() -> Found:
    """Exception -> message -> cures, in the order of the files."""
    library = Path(inspect.getfile(importlib.import_module("_multitables"))).parent
    found: Found = {error.__name__: {} for error in public_errors()}
    for path in sorted(library.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        scopes = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        top = assigned(ast.Module([n for n in tree.body if isinstance(n, ast.Assign)], []))
        for scope in scopes:
            for call in ast.walk(scope):
                if not isinstance(call, ast.Call):
                    continue
                name = getattr(call.func, "attr", getattr(call.func, "id", ""))
                if name not in found or not call.args:
                    continue
                names = {**top, **assigned(scope)}
                advice = next((k.value for k in call.keywords if k.arg == "advice"), None)
                for message in texts(call.args[0], names):
                    known = message if len(re.findall("[a-z]{2,}", message)) > 1 else OTHER
                    cures = found[name].setdefault(known, [])
                    new = dict.fromkeys(texts(advice, names))
                    cures += [text for text in new if text and text not in cures]
    return found


def escaped(text: str) -> str:
    """A text as reStructuredText shows it, unchanged."""
    return "".join(f"\\{letter}" if letter in "*`_|\\" else letter for letter in text)


def entries() -> Iterator[tuple[type[BaseException], list[str], list[tuple[str, str]]]]:
    """Of each exception the paragraphs of its docstring, and its messages with their cures."""
    found = raised()
    for error in public_errors():
        described = inspect.cleandoc(error.__doc__ or "").split("\n\nParameters\n")[0]
        cause, *general = described.split("\n\n")
        listed = found[error.__name__]
        if len(listed) == 1:
            listed = {"any" if known == OTHER else known: cures for known, cures in listed.items()}
        rows = [
            (escaped(message), " / ".join(map(escaped, cures)))
            for message, cures in listed.items()
            if cures
        ]
        if not general and not rows:
            raise ValueError(f"{error.__name__} says nowhere what to do: add it to its docstring")
        yield error, [cause, *general], rows


class Messages(SphinxDirective):
    """A section for each exception."""

    def run(self) -> list[nodes.Node]:
        """Write them as text, and parse that in place."""
        self.env.note_reread()  # the code may have changed
        lines: list[str] = []
        for error, paragraphs, rows in entries():
            lines += [error.__name__, "=" * len(error.__name__), ""]
            lines += [f"`multitables.{error.__name__}`: " + paragraphs[0].replace("\n", " "), ""]
            for paragraph in paragraphs[1:]:
                lines += [*paragraph.splitlines(), ""]
            if rows:
                table = list_table(("message", "what to do"), rows)
                lines += [*table[:1], "   :widths: 55 45", *table[1:]]
        holder = nodes.section()
        holder.document = self.state.document
        self.state.nested_parse(
            StringList(lines, source=self.name), self.content_offset, holder, match_titles=True
        )
        return list(holder.children)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("error-messages", Messages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
