"""Adapters: batches and rows as other libraries take them.

Law
---
1. Owns the adapters' names, and says which library each needs. `load` is the only way in: a library
   is imported when its adapter is first named.
2. A file of this folder knows one library, and `parent/`; `parent/` knows none of this.
3. An adapter copies nothing that its library can share, and says where it cannot.
"""

from __future__ import annotations

import importlib
from typing import Any

from _multitables.errors import MissingLibraryError

#: Name in `multitables` -> the file it is in, and the library, which is also the extra's name.
ADAPTERS = {
    "JaxBatches": ("jax_arrays", "jax"),
    "TorchDataset": ("torch_iterable", "torch"),
    "TorchMapDataset": ("torch_map", "torch"),
    "jax_batches": ("jax_arrays", "jax"),
    "tf_dataset": ("tf_tensors", "tensorflow"),
}


def load(name: str) -> Any:
    """Return an adapter by its public name.

    Raises
    ------
    MissingLibraryError
        Its library is not installed (an `ImportError`).
    AttributeError
        There is no such adapter.
    """
    if name not in ADAPTERS:
        raise AttributeError(f"module 'multitables' has no attribute {name!r}")
    file, library = ADAPTERS[name]
    try:
        module = importlib.import_module(f"{__name__}.{file}")
    except ModuleNotFoundError as error:
        if error.name != library:
            raise
        raise MissingLibraryError(
            f"multitables.{name} needs {library}, which is not installed",
            good="All that is not for this library works",
            advice=f"Install it: pip install multitables[{library}]",
            library=library,
        ) from None
    return getattr(module, name)
