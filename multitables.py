"""multitables streams HDF5 files into programs at the speed of the hardware.

A parent process coordinates reader processes that fetch and decode chunks into a ring of shared
memory; blocks are views of the ring.

>>> import multitables
>>> streamer = multitables.Streamer("run7.h5")  # doctest: +SKIP
>>> with streamer.get_queue("/images") as queue:  # doctest: +SKIP
...     for guard in queue:
...         with guard as block:
...             train(block)

Rows and parts that a program chooses itself are read through a `Reader`.

>>> reader = multitables.Reader("run7.h5")  # doctest: +SKIP
>>> images = reader.get_dataset("/images")  # doctest: +SKIP
>>> batch = reader.request(images[[3, 14, 15]]).get()  # doctest: +SKIP

`TorchDataset`, `TorchMapDataset`, `jax_batches` and `tf_dataset` are for other libraries. They are
not in ``__all__``, because naming one imports its library.

Law: this file only names what is public; it has no logic.
"""

import typing

from _multitables import adapters as _adapters
from _multitables.errors import (
    ClosedError,
    CorruptChunkError,
    CorruptChunkWarning,
    CorruptFileError,
    FileChangedError,
    FileOpenError,
    LibraryTimeoutError,
    MissingDatasetError,
    MissingFieldError,
    MissingFileError,
    MissingFilterError,
    MissingLibraryError,
    MultitablesError,
    OptionsError,
    QueueClosed,
    QueueClosedException,
    ReaderDiedError,
    SharedMemoryError,
    StageBusyError,
    StalledError,
    SubprocessException,
    UnsupportedDatasetError,
)
from _multitables.parent.batches.batch_iterator import BatchIterator
from _multitables.parent.batches.batches import Batches
from _multitables.parent.build_info import build_info
from _multitables.parent.codec_limit import measure_limit
from _multitables.parent.random.dataset import ArrayDataset, TableDataset, VLArrayDataset
from _multitables.parent.random.request import Request
from _multitables.parent.random.request_pool import RequestPool
from _multitables.parent.random.stage import Stage, StagePool
from _multitables.parent.random_reader import Reader
from _multitables.parent.stream.stream_queue import StreamQueue
from _multitables.parent.streamer import Streamer

if typing.TYPE_CHECKING:
    from _multitables.adapters.jax_arrays import JaxBatches as JaxBatches
    from _multitables.adapters.jax_arrays import jax_batches as jax_batches
    from _multitables.adapters.tf_tensors import tf_dataset as tf_dataset
    from _multitables.adapters.torch_iterable import TorchDataset as TorchDataset
    from _multitables.adapters.torch_map import TorchMapDataset as TorchMapDataset
else:

    def __getattr__(name):
        return _adapters.load(name)  # imports the library of the adapter

    def __dir__():
        return sorted({*globals(), *_adapters.ADAPTERS})


__version__ = "3.0.0"

__all__ = [
    "ArrayDataset",
    "BatchIterator",
    "Batches",
    "ClosedError",
    "CorruptChunkError",
    "CorruptChunkWarning",
    "CorruptFileError",
    "FileChangedError",
    "FileOpenError",
    "LibraryTimeoutError",
    "MissingDatasetError",
    "MissingFieldError",
    "MissingFileError",
    "MissingFilterError",
    "MissingLibraryError",
    "MultitablesError",
    "OptionsError",
    "QueueClosed",
    "QueueClosedException",
    "Reader",
    "ReaderDiedError",
    "Request",
    "RequestPool",
    "SharedMemoryError",
    "Stage",
    "StageBusyError",
    "StagePool",
    "StalledError",
    "StreamQueue",
    "Streamer",
    "SubprocessException",
    "TableDataset",
    "UnsupportedDatasetError",
    "VLArrayDataset",
    "build_info",
    "measure_limit",
]
