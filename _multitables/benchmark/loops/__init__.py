"""Loops that run in a process of their own, beside their neighbours only.

__main__.py          the program: the name of a loop, and perhaps one request
shell.py             verbs, recipes, the clock, and the protocol of a child
refusals.py          what is answered for a library that is not there, or cannot do this
passes.py            a pass over arrays: its digest, and its time
ranks.py             processes that stand for ranks
stream_loop.py       the timed loop over a stream, the same text for the library and the old release
random_loop.py       that of random access, the same text for the library and the old release
batch_loop.py        the loops that check and time training batches
batch_recipes.py     this library's batches, and DataLoader's, h5py's, NumPy's and Grain's
loader_loop.py       the loops that check and time loaders of samples
loader_classes.py    the classes of projects that train from HDF5
loader_recipes.py    this library's samples, and loaders of other formats
index_loop.py        how libraries tell the structure of a file
small_loop.py        how they read many small datasets of one file
handle_loop.py       how they read through an open file
file_loop.py         how they read whole datasets of any kind
csr_loop.py          how they read batches of a sparse matrix
peer_loop.py         how other libraries read all rows
remote_loop.py       how this library reads an object, and how obstore downloads it
hdf5_remote_loop.py  how h5py reads an object, over s3fs or by HDF5's own driver
shots_loop.py        the published method of the study of shots, with Dask
remote_clock.py      what these three have in common
store_options.py     `storage_options` as other libraries take them
hdf5_direct_loop.py  what runs under the interpreter of libhdf5's direct VFD
iotest_loop.py       the I/O test by h5py, by this library, and by processes as ranks
iotest_mpi_loop.py   the same by MPI's ranks
iotest_grid.py       its datasets, the blocks of ranks, and the values
columns_loop.py      the analysis of columns, by ranks of MPI or by processes
columns_recipes.py   the published method for it, and this library's blocks
version_write_loop.py  how files of many versions are written
version_read_loop.py   how their versions are read
version_steps.py       what each transaction does to NumPy's arrays
startup_loop.py      one measurement in a fresh interpreter
"""
