"""Loaders of projects that train from HDF5, beside this library's samples and other formats.

Law
---
1. See `study`.
"""
