"""Shots of many signals: Dask's processes, page buffers, two layouts, files and objects."""
