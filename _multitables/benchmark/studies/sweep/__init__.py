"""Compression x processes x access x I/O mode, on each device that is named.

study.py  its options, its places and its end
lines.py  who reads a dataset
cases.py  the datasets of a place, and their cases
views.py  what it shows
"""
