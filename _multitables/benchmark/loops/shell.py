"""The shell of all loops: a table of verbs, the opening of recipes, a clock, a child's protocol.

Law
---
1. A loop is a module with a value `LOOP`: a function for each verb. Where several libraries do the
   same, they are recipes: context managers whose values the verbs check or time.
2. A child reads one request a line, as JSON, and answers each with a line: ``{"found": ...}``, one
   of the words of `refusals` with its reason, or ``{"error": text}``. The end of its input ends it.
3. It imports little, and of the standard library only: a loop may time what an import takes.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from . import refusals

Request = dict[str, Any]


class Loop(NamedTuple):
    """A loop: its verbs, and its library.

    Attributes
    ----------
    verbs : mapping
        Functions of the library and of a request. A verb of one task has its name, too:
        ``"check keys"``.
    library : str
        What is imported before the first request. Where it is "", functions and recipes are given
        the request only.
    """

    verbs: Mapping[str, Callable[..., Any]]
    library: str = "multitables"

    def answer(self, library: Any, request: Request) -> dict[str, Any]:
        """The result of a request, or the reason why the library cannot do it."""
        return refusals.answered(request.get("recipe", ""), lambda: self.find(library, request))

    def find(self, library: Any, request: Request) -> Any:
        """The result of a request, after the modules that it names are imported."""
        for module in request.get("imports", ()):
            importlib.import_module(module)
        names = f"{request['verb']} {request.get('task')}", request["verb"]
        verb = next((self.verbs[name] for name in names if name in self.verbs), None)
        if verb is None:
            raise ValueError(f"no verb {request['verb']!r}")
        return verb(library, request) if self.library else verb(request)

    def imported(self) -> Any:
        """The library."""
        return importlib.import_module(self.library) if self.library else None


def opening(
    recipes: Mapping[str, Callable[..., AbstractContextManager[Any]]],
    verbs: Mapping[str, Callable[[Any, Request], Any]],
) -> dict[str, Callable[..., Any]]:
    """The same verbs for a `Loop`: each gets what the recipe of a request has opened."""

    def on(verb: Callable[[Any, Request], Any]) -> Callable[..., Any]:
        def find(*given: Any) -> Any:
            request = given[-1]
            with recipes[request["recipe"]](*given) as opened:
                return verb(opened, request)

        return find

    return {name: on(verb) for name, verb in verbs.items()}


class Clock:
    """Adds up the seconds of the blocks that it is entered for."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __enter__(self) -> Clock:
        self._start = time.perf_counter()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.seconds += time.perf_counter() - self._start


def run(name: str, request: str = "") -> None:
    """Serve a loop, or print what its one request finds."""
    loop: Loop = importlib.import_module(f".{name}", __package__).LOOP
    if not request:
        serve(loop)
        return
    found = loop.find(loop.imported(), json.loads(request))
    if found is not None:
        print(json.dumps(found))


def serve(loop: Loop) -> None:
    """Be the child: answer requests until the input ends, and be gone at once."""
    warnings.simplefilter("ignore")  # no reader takes them, and a full pipe would stop the loop
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the library prints must not get between the replies
    library = loop.imported()
    for line in sys.stdin:
        try:
            reply = loop.answer(library, json.loads(line))
        except Exception as error:  # noqa: BLE001  everything the library raises is the parent's to report
            reply = {"error": f"{type(error).__name__}: {error}"}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()
    os._exit(0)  # the old release leaves threads behind that never end
