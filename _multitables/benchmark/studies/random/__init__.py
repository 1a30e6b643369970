"""Random access, beside the old release, PyTables and h5py.

study.py  its options
parts.py  what is compared with what, and what is wanted
"""
