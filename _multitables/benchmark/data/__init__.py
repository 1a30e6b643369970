"""The files that are read: written, copied, described; nothing here is timed.

workloads.py        the files that are read: seeded, any size, checked before they are used again
structures.py       files of very many small datasets, or of very many chunks
iotest_ini.py       the files that describe a parameterised I/O test
zarr_copy.py        a file's chunks as a zarr array
dataset_storage.py  how a dataset is stored, in words, and a sample of a large one
"""
