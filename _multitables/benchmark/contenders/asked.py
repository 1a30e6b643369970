"""A contender that is one recipe of a loop, in a fresh process for every measurement.

Law
---
1. It knows no recipe, and owns no table, no target and no order of measuring.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType, ModuleType
from typing import Any

from _multitables.benchmark.contract import Digest, Sample, promised
from _multitables.benchmark.harness.child import Child, module_directory


@dataclass(frozen=True)
class Asked:
    """A recipe of a loop.

    Attributes
    ----------
    name : str
    loop : module
    request : mapping
        What it is asked, but for the verb.
    figure : callable
        From what was timed to its figure; raises where that shows other data than wanted.
    install : str
        What to do when its library is missing.
    in_order : bool
        Whether its rows have an order.
    checked : mapping
        What else the request says when it is only checked.
    python : str
        An interpreter of its own, which lacks this library; "" for this one.
    """

    name: str
    loop: ModuleType
    request: Mapping[str, Any]
    figure: Callable[[Any], Sample]
    install: str = ""
    in_order: bool = True
    checked: Mapping[str, Any] = field(default_factory=dict)
    timeout_seconds: float = 600.0
    python: str = ""
    needs: tuple[str, ...] = ()

    def check(self) -> Digest | None:
        """The digest of what it delivers; None where the loop compared that itself."""
        found = self.ask("check", self.checked)
        return None if found is None else promised(found, self.in_order)

    def measure(self) -> Sample:
        """The figure of one measurement."""
        return self.figure(self.ask("time"))

    def ask(self, verb: str, more: Mapping[str, Any] = MappingProxyType({})) -> Any:
        """What the loop finds."""
        place = (self.python, None) if self.python else (sys.executable, module_directory())
        with Child(*place, self.timeout_seconds, self.loop, self.name, self.install) as child:
            return child.ask(verb=verb, **{**self.request, **more})
