"""Builds the documentation: `sphinx-build -W docs OUT`; `-b doctest` runs its examples.

Law
---
1. What the code's own tables know (errors, filters, options) is generated from them by
   `_ext/code_tables.py`, what was measured from its rows by `_ext/stored_results.py`, and what was
   simulated from its figures by `_ext/simulated_runs.py`.
2. Every `>>>` example is executed, in an empty directory that holds the files of
   `_ext/example_files.py`.
"""

import os
import sys
from doctest import DONT_ACCEPT_TRUE_FOR_1, ELLIPSIS, NORMALIZE_WHITESPACE
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))
from inventories import reachable

project = "multitables"
copyright = "2026, the multitables developers"  # noqa: A001 (Sphinx wants this name)
release = version = installed_version("multitables")

extensions = [
    "api_pages",
    "code_tables",
    "headline_numbers",
    "messages",
    "simulated_runs",
    "stored_results",
    "sphinx.ext.autodoc",
    "sphinx.ext.doctest",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "myst_nb",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_build"]
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["results.css"]
html_title = f"multitables {release}"
on_site = os.environ.get("READTHEDOCS_VERSION_NAME", "stable")  # its menu lists all versions
if on_site != "stable":
    html_theme_options = {
        "announcement": f"This is the documentation of {on_site} (multitables {release}). "
        'That of the last release is <a href="/en/stable/">stable</a>.'
    }
pygments_style, pygments_dark_style = "a11y-light", "a11y-dark"
nb_execution_mode, nb_execution_raise_on_error, nb_execution_in_temp = "force", True, True
copybutton_exclude = ".linenos, .gp, .go"  # prompts and what is printed are not copied
# `Name` links to what the reference documents. A name of this library that leads nowhere is an
# error; other names in single backticks (parameters, builtins) are only set as code.
default_role = "py:obj"
nitpicky = True
nitpick_ignore_regex = [(r"py:.*", r"(?!multitables\.).*")]

# Names of these libraries link to their pages; without a network they are set as code.
intersphinx_mapping = reachable(
    {
        "python": "https://docs.python.org/3",
        "numpy": "https://numpy.org/doc/stable",
        "h5py": "https://docs.h5py.org/en/stable",
        "tables": "https://www.pytables.org",
        "torch": "https://docs.pytorch.org/docs/stable",
        "dask": "https://docs.dask.org/en/stable",
        "xarray": "https://docs.xarray.dev/en/stable",
    }
)
intersphinx_timeout = 10

# What adapters import; their pages say the same with and without it.
autodoc_mock_imports = [
    "dask",
    "datasets",
    "dlio_benchmark",
    "grain",
    "jax",
    "lightning",
    "polars",
    "pyarrow",
    "ray",
    "tensorflow",
    "torch",
]
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the numpydoc sections say types, shapes and units
napoleon_google_docstring = False
napoleon_use_rtype = False

doctest_test_doctest_blocks = "default"
# Messages may be broken into lines in the text, and "..." stands for what differs by machine.
doctest_default_flags = ELLIPSIS | NORMALIZE_WHITESPACE | DONT_ACCEPT_TRUE_FOR_1
doctest_global_setup = "import importlib.util, example_files; example_files.enter()"
doctest_global_cleanup = "example_files.leave()"
