"""Builds the documentation: `sphinx-build -W docs docs/_build/html`; `-b doctest` runs its examples.

Law
---
1. What the code's own tables know (errors, filters, options) is generated from them by
   `_ext/code_tables.py`, never typed again.
2. Every `>>>` example is executed, in an empty directory that holds the files of
   `_ext/example_files.py`.
"""

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "multitables"
copyright = "2026, the multitables developers"  # noqa: A001 (Sphinx wants this name)
release = version = installed_version("multitables")

extensions = [
    "code_tables",
    "sphinx.ext.autodoc",
    "sphinx.ext.doctest",
    "sphinx.ext.napoleon",
]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"multitables {release}"
default_role = "any"
nitpicky = False
pygments_style = "sphinx"

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the numpydoc sections say types, shapes and units
napoleon_google_docstring = False
napoleon_use_rtype = False

doctest_test_doctest_blocks = "default"
doctest_global_setup = "import example_files; example_files.enter()"
doctest_global_cleanup = "example_files.leave()"
