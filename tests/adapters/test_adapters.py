"""The names of the adapters, whether their libraries are installed or not."""

from __future__ import annotations

import pickle

import pytest
from processes import run_script

import multitables
from _multitables.adapters import ADAPTERS, EXTRAS, installed

MISSING = """
import sys
name, library = sys.argv[1:]
sys.modules[library] = None  # as if it were not installed
if library == "pytorch_lightning":
    sys.modules["lightning"] = None  # which comes with it
import multitables
assert name not in dir(multitables)
assert hasattr(multitables, name)
assert not isinstance(5, getattr(multitables, name))
for use in (lambda made: made("x.h5", "/x", 8), lambda made: type("Mine", (made,), {})):
    try:
        use(getattr(multitables, name))
    except ImportError as error:
        print(type(error).__name__, error.library, error)
"""


@pytest.mark.parametrize("name", sorted(ADAPTERS))
def test_a_missing_library_is_told(name: str) -> None:
    library = ADAPTERS[name][1]
    done = run_script(MISSING, name, library)
    assert done.stdout == 2 * (
        f"MissingLibraryError {library} multitables.{name} needs {library}, which is not "
        "installed. Everything else works without it. Install it: pip install "
        f"multitables[{EXTRAS.get(library, library)}].\n"
    ), done.stderr


def test_a_missing_part_of_a_library_is_not_hidden() -> None:
    done = run_script(
        "import sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'torch':\n"
        "            raise ModuleNotFoundError('no module of torch', name='torch_part')\n"
        "sys.meta_path.insert(0, Finder())\n"
        "import multitables\n"
        "try:\n"
        "    multitables.TorchDataset('x.h5', '/x', 8)\n"
        "except multitables.MissingLibraryError as error:\n"
        "    print(error.happened, type(error.__cause__).__name__)\n"
    )
    assert done.stdout == (
        "multitables.TorchDataset needs torch, which cannot be imported: no module of torch "
        "ModuleNotFoundError\n"
    ), done.stderr


def test_names_are_listed_and_others_are_unknown() -> None:
    assert set(installed()) <= set(dir(multitables))
    assert set(multitables.__all__) <= set(dir(multitables))
    assert not set(ADAPTERS) & set(multitables.__all__)
    with pytest.raises(AttributeError, match="module 'multitables' has no attribute 'Torch'"):
        multitables.Torch  # noqa: B018 - the attribute is what is tested
    assert not hasattr(multitables, "torch_iterable")


def test_the_error_crosses_processes() -> None:
    error = multitables.MissingLibraryError("a", advice="b", library="torch")
    assert isinstance(error, ImportError)
    assert pickle.loads(pickle.dumps(error)).library == "torch"
