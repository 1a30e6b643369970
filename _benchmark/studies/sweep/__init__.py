"""Compression x processes x access x I/O mode, on each device that is named.

study.py  its options and its ends
plan.py   what is measured, as values
lines.py  who reads a dataset
run.py    how it goes, dataset by dataset
views.py  what it shows
"""
