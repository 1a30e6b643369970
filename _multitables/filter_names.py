"""HDF5's numbers of filters, their names, and the libraries that bring them along.

Law
---
1. The only table of them: the index, the readers' fallback and the error messages ask here.
2. Numbers and names alone; a reader asks the library itself whether its build has a filter.
"""

from __future__ import annotations

#: HDF5's own, which new files do not name.
HDF5 = {1: "deflate", 2: "shuffle", 3: "fletcher32", 4: "szip", 5: "nbit", 6: "scaleoffset"}
#: Filters that hdf5plugin adds to h5py's HDF5.
HDF5PLUGIN = {
    307: "bzip2",
    32001: "blosc",
    32004: "lz4",
    32008: "bitshuffle",
    32013: "zfp",
    32015: "zstd",
    32017: "sz",
    32018: "fcidecomp",
    32024: "sz3",
    32026: "blosc2",
    32028: "sperr",
    32033: "htj2k",
}
#: Filters that PyTables adds to its own HDF5, where its build has them, for what it wrote itself.
PYTABLES = {305: "lzo", 307: "bzip2", 32001: "blosc", 32026: "blosc2"}
#: Other filters that files have. Source: the HDF Group's list of registered filter plugins
#: (docs/RegisteredFilterPlugins.md of HDFGroup/hdf5_plugins).
REGISTERED = {
    257: "hzip",
    258: "fpzip",
    305: "lzo",
    32000: "lzf",
    32002: "MAFISC",
    32003: "Snappy",
    32005: "APAX",
    32006: "CBF",
    32007: "JPEG-XR",
    32009: "SPDP",
    32010: "LPC-Rice",
    32011: "CCSDS-123",
    32012: "JPEG-LS",
    32014: "fpzip",
    32016: "B3D",
    32019: "JPEG",
    32020: "VBZ",
    32021: "FAPEC",
    32022: "BitGroom",
    32023: "Granular BitRound",
    32025: "Delta-Rice",
    32027: "FLAC",
    32029: "TERSE/PROLIX",
    32030: "FFMPEG",
}
#: Not registered, and in many files: the recordings of MaxWell Biosystems.
UNREGISTERED = {401: "MaxWell"}
NAMES = {**UNREGISTERED, **REGISTERED, **PYTABLES, **HDF5PLUGIN, **HDF5}


def name_of(number: int, stored: str) -> str:
    """Return the name that a file has for a filter, or the one by which it is known; "": none."""
    return stored or NAMES.get(number, "")
