"""Who is measured; each is bound to what it reads, and none knows a table or a target.

streams.py            multitables, PyTables, h5py, fio, the codec limit
random_contenders.py  who is measured at random access
random_keys.py        the rows that random access is asked for, and what NumPy says they are
batch_contenders.py   who is measured at training batches
batch_check.py        whether the rows that came are the right ones
index_contenders.py   who tells the structure of a file, and who reads an open one
remote_contenders.py  who reads an object of a store
iotest_contenders.py  who writes and reads the files of the I/O test
asked.py              one recipe of a loop, in a process of its own
startup.py            a fresh interpreter, for the import and the first block
old_release.py        the old release's own virtual environment
hdf5_direct.py        the published method, under an interpreter that tools/hdf5_build made
peers.py              the other libraries of the device sweep
bounds.py             what bounds a stream, each limit measured by itself
"""
