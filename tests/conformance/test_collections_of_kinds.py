"""Every dataset of the table in items of a collection: what streams deliver, items have.

1. All datasets of a file whose paths have as many names are one collection, each name an item.
2. What a stream refuses is left out by `exclude`.
"""

from __future__ import annotations

import glob
from pathlib import Path
from typing import Any

import datasets_filters  # noqa: F401 - adds its files to the table
import datasets_library  # noqa: F401
import datasets_pytables  # noqa: F401
import datasets_virtual  # noqa: F401
import pytest
from datasets_of_files import FILES
from oracle import same

from _multitables.index.names.pattern import parts_of
from multitables import Streamer

pytestmark = pytest.mark.filterwarnings("ignore::multitables.SlowFilterWarning")


@pytest.mark.parametrize("file", FILES)
def test_items(file: str, tmp_path: Path) -> None:
    path = tmp_path / "data.h5"
    wanted, refused = dict[int, dict[str, Any]](), list[list[str]]()
    for dataset in list(FILES[file](path)):
        parts = parts_of(dataset.path)
        if Streamer in dataset.refused:
            refused.append(parts)
        elif not dataset.field:
            wanted.setdefault(len(parts), {})["/".join(parts)] = dataset.wanted(path)
    wrong = []
    with Streamer(path) as streamer:
        for depth, expected in wanted.items():
            came = set()
            items = streamer.get_collection(
                "/*" * depth,
                by=depth - 1,
                exclude=[glob.escape("/".join(one)) for one in refused if len(one) <= depth],
                scales=False,
                n_procs=2,
            )
            for item in items:
                for rest, array in item.items():
                    name = f"{rest}/{item.key}" if depth > 1 else item.key
                    came.add(name)
                    try:
                        if name in expected:
                            same(array, expected[name])
                    except Exception as error:
                        wrong.append(f"{name}: {type(error).__name__}: {error}")
            wrong += [f"{name} is missing" for name in expected.keys() - came]
    assert not wrong, "\n".join(wrong)
