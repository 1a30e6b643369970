"""HDF5's numbers of the filters that libraries bring along, and their names.

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
