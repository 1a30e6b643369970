"""Programs of children: each loop runs in a process of its own, beside its neighbours only.

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
peer_loop.py         the loops that check and time other libraries
remote_loop.py       how this library reads an object, and how obstore downloads it
hdf5_remote_loop.py  how h5py reads an object, over s3fs or by HDF5's own driver
remote_clock.py      what these two have in common
hdf5_direct_loop.py  what runs under the interpreter of libhdf5's direct VFD
iotest_loop.py       the I/O test by h5py, by this library, and by processes as ranks
iotest_mpi_loop.py   the same by MPI's ranks
iotest_grid.py       its datasets, the blocks of ranks, and the values
startup_loop.py      one measurement in a fresh interpreter
refusals.py          what a library answers that is not there, or cannot do this
"""
