"""`DlioReader`: the HDF5 reader of the DLIO benchmark, through `multitables.open`.

Law
---
1. DLIO's own reader of HDF5 decides what it reads, and when; this one only opens the file.
"""

from __future__ import annotations

from typing import Any

from dlio_benchmark.reader.hdf5_reader import HDF5Reader
from dlio_benchmark.reader.reader_handler import FormatReader

from _multitables.errors import public
from _multitables.parent.open.file import open as open_file


@public
class DlioReader(HDF5Reader):
    """DLIO's reader of HDF5 files, which decodes natively in place of h5py.

    DLIO makes it, with ``reader_classname: multitables.DlioReader`` in the ``reader`` of a workload
    whose ``format`` is ``hdf5``. Files and samples are those that DLIO's own ``HDF5Reader`` reads.

    Raises
    ------
    MissingFileError, FileOpenError, MissingDatasetError
        The data cannot be opened.
    """

    def open(self, filename: str) -> Any:
        """Open a file for samples to come."""
        FormatReader.open(self, filename)
        return open_file(filename)
