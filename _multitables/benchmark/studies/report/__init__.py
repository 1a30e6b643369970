"""The report made again from rows that were kept.

study.py  its options; it measures nothing
"""
