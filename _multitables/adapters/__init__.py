"""Adapters: batches and rows as other libraries take them.

Law
---
1. `ADAPTERS` names every adapter and the library that it needs. `load` is the only way in: a
   library is imported when its adapter is first named. Without the library, naming one is no error,
   so that `hasattr` and what looks through a module work; using it is.
2. A file of this folder knows at most one library, and `parent/`, which knows nothing of adapters.
3. An adapter copies only what its library cannot share, and its documentation says what that is. It
   refuses a dtype that its library does not have.
"""

from __future__ import annotations

import importlib
from typing import Any, NoReturn

from _multitables.errors import MissingLibraryError, UnsupportedDatasetError, public

#: Name in `multitables` -> its file, and its library.
ADAPTERS = {
    "DlioReader": ("dlio_reader", "dlio_benchmark"),
    "GrainDataset": ("grain_source", "grain"),
    "GrainSource": ("grain_source", "grain"),
    "JaxBatches": ("jax_arrays", "jax"),
    "LightningData": ("lightning_data", "pytorch_lightning"),
    "RayDatasource": ("ray_source", "ray"),
    "TorchDataset": ("torch_iterable", "torch"),
    "TorchMapDataset": ("torch_map", "torch"),
    "jax_batches": ("jax_arrays", "jax"),
    "scan_polars": ("polars_scan", "polars"),
    "tf_dataset": ("tf_tensors", "tensorflow"),
    "to_dask": ("dask_collections", "dask"),
    "to_dask_dataframe": ("dask_collections", "dask"),
    "to_huggingface": ("huggingface_rows", "datasets"),
}
#: The extras that are not called as their library is.
EXTRAS = {
    "datasets": "huggingface",
    "dlio_benchmark": "dlio",
    "pytorch_lightning": "lightning",
}

#: Library -> what is installed with it, and imported before it.
BROUGHT = {"pytorch_lightning": "torch"}


def installed() -> list[str]:
    """Return the names of the adapters whose library is installed, without an import."""
    import importlib.util

    return [name for name, (_, own) in ADAPTERS.items() if importlib.util.find_spec(own)]


def load(name: str) -> Any:
    """Return an adapter by its public name; without its library, a class that says so when used.

    Raises
    ------
    AttributeError
        There is no such adapter.
    """
    if name not in ADAPTERS:
        raise AttributeError(f"module 'multitables' has no attribute {name!r}")
    file, library = ADAPTERS[name]
    try:
        module = importlib.import_module(f"{__name__}.{file}")
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0]
        is_missing = missing in (library, BROUGHT.get(library)) and name not in installed()
        return _stand_in(name, library, None if is_missing else error)
    return getattr(module, name)


def _stand_in(name: str, library: str, broken: ImportError | None) -> type[Any]:
    """Return a class in place of an adapter whose library is missing, or cannot be imported."""

    def refuse(*_: object, **__: object) -> NoReturn:
        why = "is not installed" if broken is None else f"cannot be imported: {broken}"
        raise MissingLibraryError(
            f"multitables.{name} needs {library}, which {why}",
            good="Everything else works without it",
            advice=f"Install it: pip install multitables[{EXTRAS.get(library, library)}]",
            library=library,
        ) from broken

    text = f"An adapter for {library}, which is not installed, or cannot be imported."
    return public(type(name, (), {"__doc__": text, "__new__": refuse, "__init_subclass__": refuse}))


def no_dtype(library: str, dtype: object, where: str) -> UnsupportedDatasetError:
    """Compose the error for data whose dtype a library does not have."""
    return UnsupportedDatasetError(
        f"{library} has no dtype for {dtype} of {where}",
        advice="Choose one column of a table with field=, or take NumPy arrays from "
        "Streamer.get_batches and convert them",
        dtype=dtype,
    )
