"""Every claim of speed beside its rivals.

study.py  its options
parts.py  what is compared with what, and what is wanted
"""
