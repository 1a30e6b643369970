"""Builds the documentation: `sphinx-build -W docs OUT`; `-b doctest` runs its examples.

Law
---
1. What the code's own tables know (errors, filters, options) is generated from them by
   `_ext/code_tables.py`, and what was measured from its rows by `_ext/stored_results.py`.
2. Every `>>>` example is executed, in an empty directory that holds the files of
   `_ext/example_files.py`.
"""

import sys
from doctest import DONT_ACCEPT_TRUE_FOR_1, ELLIPSIS, NORMALIZE_WHITESPACE
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "multitables"
copyright = "2026, the multitables developers"  # noqa: A001 (Sphinx wants this name)
release = version = installed_version("multitables")

extensions = [
    "code_tables",
    "stored_results",
    "sphinx.ext.autodoc",
    "sphinx.ext.doctest",
    "sphinx.ext.napoleon",
]
exclude_patterns = ["_build"]
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["results.css"]
html_title = f"multitables {release}"
# `Name` links to what the reference documents. A name of this library that leads nowhere is an
# error; other names in single backticks (parameters, builtins) are only set as code.
default_role = "py:obj"
nitpicky = True
nitpick_ignore_regex = [(r"py:.*", r"(?!multitables\.).*")]
pygments_style = "sphinx"

# What adapters import; their pages say the same with and without it.
autodoc_mock_imports = ["dask", "jax", "tensorflow", "torch"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the numpydoc sections say types, shapes and units
napoleon_google_docstring = False
napoleon_use_rtype = False

doctest_test_doctest_blocks = "default"
# Messages may be broken into lines in the text, and "..." stands for what differs by machine.
doctest_default_flags = ELLIPSIS | NORMALIZE_WHITESPACE | DONT_ACCEPT_TRUE_FOR_1
doctest_global_setup = "import example_files; example_files.enter()"
doctest_global_cleanup = "example_files.leave()"
