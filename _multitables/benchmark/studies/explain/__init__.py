"""What bounds the stream of one dataset, and what to do about it.

study.py    its options, and what its results hold beside the rows
cases.py    what is measured, in which state of the page cache
numbers.py  medians, and the limits that they make
views.py    what it says
"""
