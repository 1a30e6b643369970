"""The directive that shows a simulated run of `docs/results/scale` as its program prints it.

Law
---
1. ``.. simulated-run:: FILE`` lays the kept figures out with the program's own table.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
from simulate_ranks import table


class SimulatedRun(SphinxDirective):
    """One file of figures."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Make the table."""
        file = Path(self.env.srcdir, "results", "scale", self.arguments[0])
        self.env.note_dependency(str(file))
        text = table(json.loads(file.read_text(encoding="utf-8")))
        return [nodes.literal_block(text, text, language="none")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("simulated-run", SimulatedRun)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
