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

Law: this file only names what is public; it has no logic.
"""

from _multitables.errors import (
    ClosedError,
    CorruptChunkError,
    FileChangedError,
    FileOpenError,
    MissingDatasetError,
    MissingFieldError,
    MissingFileError,
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
from _multitables.parent.batches import Batches, BatchIterator
from _multitables.parent.build_info import build_info
from _multitables.parent.dataset import ArrayDataset, TableDataset, VLArrayDataset
from _multitables.parent.limit import measure_limit
from _multitables.parent.queue import StreamQueue
from _multitables.parent.random_access import Reader
from _multitables.parent.request import Request, RequestPool
from _multitables.parent.stage import Stage, StagePool
from _multitables.parent.streamer import Streamer

__version__ = "3.0.0"

__all__ = [
    "ArrayDataset",
    "BatchIterator",
    "Batches",
    "ClosedError",
    "CorruptChunkError",
    "FileChangedError",
    "FileOpenError",
    "MissingDatasetError",
    "MissingFieldError",
    "MissingFileError",
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
