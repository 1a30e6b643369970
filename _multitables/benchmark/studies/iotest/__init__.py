"""The HDF Group's parameterised I/O test, from its INI files, by its path and through this library.

study.py    its options
cases.py    a case for each INI file, and the files of the published format
columns.py  the published columns
views.py    what the rows show
"""
