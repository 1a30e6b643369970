"""What the tests of adapters run under.

Law
---
1. A library that is not installed skips its tests; the step `adapters` of `.ci/run` installs all of
   them, and fails where one is missing.
2. Libraries are warmed up when this file is imported, so that the threads which they keep are
   not taken for a leak. What they allocated then is left out when a test collects garbage.
"""

from __future__ import annotations

import gc
import importlib.util
import warnings

import pytest

if importlib.util.find_spec("torch"):
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.ones(1000, 1000).sum().item()
        torch.ones(2, requires_grad=True).sum().backward()
        torch.zeros(1).share_memory_()

if importlib.util.find_spec("jax"):
    import jax

    jax.device_get(jax.jit(lambda x: (x @ x).sum())(jax.numpy.ones((100, 100))))

if importlib.util.find_spec("pyarrow"):
    import pyarrow as pa

    pa.array(range(100_000))

if importlib.util.find_spec("duckdb"):
    import duckdb  # noqa: F401 - the import starts threads

if importlib.util.find_spec("datasets"):
    import datasets

    next(iter(datasets.Dataset.from_dict({"a": [[1]]}).to_iterable_dataset().with_format("numpy")))

if importlib.util.find_spec("polars"):
    import polars as pl

    pl.Series(range(100_000)).sort()

if importlib.util.find_spec("lightning"):
    # It loads the LLVM of torch's compiler, which ends the process after TensorFlow's is loaded.
    import lightning  # noqa: F401

if importlib.util.find_spec("tensorflow"):
    # Its import forbids HDF5's plugins to this process, and thus to children of later tests.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HDF5_PLUGIN_PATH", "")
        import tensorflow as tf  # noqa: F401

gc.collect()
gc.freeze()
