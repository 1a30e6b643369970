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
>>> batch = reader.request(reader.get_dataset("/images")[[3, 14, 15]]).get()  # doctest: +SKIP

A file is opened in place of `h5py.File` with `open`.

>>> file = multitables.open("run7.h5")  # doctest: +SKIP
>>> thumbnail = file["images"][0, ::8, ::8]  # doctest: +SKIP

`TorchDataset`, `TorchMapDataset`, `jax_batches`, `tf_dataset`, `to_dask`, `to_dask_dataframe`,
`to_huggingface`, `scan_polars`, `RayDatasource`, `GrainSource`, `GrainDataset`, `LightningData` and
`DlioReader` are for other libraries. They are not in ``__all__``, because naming one imports its
library; nor is `open`, so that ``from multitables import *`` leaves Python's own as it is.

Law: this file only names what is public; it has no logic. What `open` needs is imported with it,
anything else when it is first named.
"""

import typing

from _multitables import later as _later
from _multitables.errors import (
    AmplificationWarning,
    ClosedError,
    CorruptChunkError,
    CorruptChunkWarning,
    CorruptFileError,
    FileChangedError,
    FileOpenError,
    ImageError,
    LeftOutWarning,
    LibraryTimeoutError,
    LinkRefusedError,
    MissingAttributeError,
    MissingDatasetError,
    MissingFieldError,
    MissingFileError,
    MissingFileWarning,
    MissingFilterError,
    MissingLibraryError,
    MissingVersionError,
    MultitablesError,
    OptionsError,
    QueueClosed,
    QueueClosedException,
    ReaderDiedError,
    ReadOnlyError,
    SavedIndexWarning,
    SelectionError,
    SelectionIndexError,
    SelectionTypeError,
    SelectionValueError,
    SharedMemoryError,
    SlowFilterWarning,
    StageBusyError,
    StalledError,
    StoreError,
    SubprocessException,
    UnknownOptionError,
    UnsupportedDatasetError,
)
from _multitables.parent.open.dataset import Dataset
from _multitables.parent.open.file import File
from _multitables.parent.open.file import open as open  # noqa: A004 - as gzip has an open
from _multitables.parent.open.group import Group
from _multitables.parent.open.objects import Datatype

if typing.TYPE_CHECKING:
    from _multitables.adapters.dask_collections import to_dask as to_dask
    from _multitables.adapters.dask_collections import to_dask_dataframe as to_dask_dataframe
    from _multitables.adapters.dlio_reader import DlioReader as DlioReader
    from _multitables.adapters.grain_source import GrainDataset as GrainDataset
    from _multitables.adapters.grain_source import GrainSource as GrainSource
    from _multitables.adapters.huggingface_rows import to_huggingface as to_huggingface
    from _multitables.adapters.jax_arrays import JaxBatches as JaxBatches
    from _multitables.adapters.jax_arrays import jax_batches as jax_batches
    from _multitables.adapters.lightning_data import LightningData as LightningData
    from _multitables.adapters.polars_scan import scan_polars as scan_polars
    from _multitables.adapters.ray_source import RayDatasource as RayDatasource
    from _multitables.adapters.tf_tensors import tf_dataset as tf_dataset
    from _multitables.adapters.torch_iterable import TorchDataset as TorchDataset
    from _multitables.adapters.torch_map import TorchMapDataset as TorchMapDataset
    from _multitables.elements.empty import Empty
    from _multitables.index.types.image import Image
    from _multitables.index.types.references import Reference, RegionReference
    from _multitables.index.versions.version import Version
    from _multitables.machine import release_memory, set_reader_command
    from _multitables.parent.batches.batches import Batches
    from _multitables.parent.batches.iteration import BatchIterator, ItemIterator
    from _multitables.parent.batches.mixture import Mixture
    from _multitables.parent.build_info import build_info
    from _multitables.parent.codec_limit import measure_limit
    from _multitables.parent.collection.collection import Collection
    from _multitables.parent.collection.item import Item
    from _multitables.parent.collection.item_batches import ItemBatch, ItemBatches
    from _multitables.parent.columns.column_block import ColumnsBlock, GroupBlock
    from _multitables.parent.columns.columns import Columns
    from _multitables.parent.event_log import EventLog
    from _multitables.parent.index_file import index_file
    from _multitables.parent.index_files import index_files
    from _multitables.parent.open.is_hdf5 import is_hdf5
    from _multitables.parent.open.links import ExternalLink, HardLink, SoftLink, UserLink
    from _multitables.parent.open.read import read
    from _multitables.parent.ragged.ragged_block import RaggedBlock
    from _multitables.parent.random.dataset import ArrayDataset, TableDataset, VLArrayDataset
    from _multitables.parent.random.request import Request
    from _multitables.parent.random.request_pool import RequestPool
    from _multitables.parent.random.stage import Stage, StagePool
    from _multitables.parent.random_reader import Reader
    from _multitables.parent.stream.stream_queue import (
        FollowQueue,
        RaggedQueue,
        StreamQueue,
        VersionsQueue,
    )
    from _multitables.parent.streamer import Streamer
    from _multitables.parent.versions import Versions, versions
    from _multitables.plan.samples import At, Clips, Patches, Ranges
    from _multitables.plan.weights import Weights
    from _multitables.tree import Joined, Ragged
else:

    def __getattr__(name):
        return globals().setdefault(name, _later.load(name))

    def __dir__():
        return sorted({*globals(), *_later.names()})


__version__ = "3.0.0"

__all__ = [
    "AmplificationWarning",
    "ArrayDataset",
    "At",
    "BatchIterator",
    "Batches",
    "Clips",
    "ClosedError",
    "Collection",
    "Columns",
    "ColumnsBlock",
    "CorruptChunkError",
    "CorruptChunkWarning",
    "CorruptFileError",
    "Dataset",
    "Datatype",
    "Empty",
    "EventLog",
    "ExternalLink",
    "File",
    "FileChangedError",
    "FileOpenError",
    "FollowQueue",
    "Group",
    "GroupBlock",
    "HardLink",
    "Image",
    "ImageError",
    "Item",
    "ItemBatch",
    "ItemBatches",
    "ItemIterator",
    "Joined",
    "LeftOutWarning",
    "LibraryTimeoutError",
    "LinkRefusedError",
    "MissingAttributeError",
    "MissingDatasetError",
    "MissingFieldError",
    "MissingFileError",
    "MissingFileWarning",
    "MissingFilterError",
    "MissingLibraryError",
    "MissingVersionError",
    "Mixture",
    "MultitablesError",
    "OptionsError",
    "Patches",
    "QueueClosed",
    "QueueClosedException",
    "Ragged",
    "RaggedBlock",
    "RaggedQueue",
    "Ranges",
    "ReadOnlyError",
    "Reader",
    "ReaderDiedError",
    "Reference",
    "RegionReference",
    "Request",
    "RequestPool",
    "SavedIndexWarning",
    "SelectionError",
    "SelectionIndexError",
    "SelectionTypeError",
    "SelectionValueError",
    "SharedMemoryError",
    "SlowFilterWarning",
    "SoftLink",
    "Stage",
    "StageBusyError",
    "StagePool",
    "StalledError",
    "StoreError",
    "StreamQueue",
    "Streamer",
    "SubprocessException",
    "TableDataset",
    "UnknownOptionError",
    "UnsupportedDatasetError",
    "UserLink",
    "VLArrayDataset",
    "Version",
    "Versions",
    "VersionsQueue",
    "Weights",
    "build_info",
    "index_file",
    "index_files",
    "is_hdf5",
    "measure_limit",
    "read",
    "release_memory",
    "set_reader_command",
    "versions",
]

if __name__ == "__main__":
    import sys

    from _multitables.command.program import main

    sys.exit(main())
