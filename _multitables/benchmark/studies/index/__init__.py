"""Structure and handle: what telling, opening and indexing a file costs, beside h5py and others.

study.py   its options
parts.py   the structure of files: datasets, chunks, small datasets, the start
handle.py  the open file: whole datasets, slices, rows, threads, the first read
"""
