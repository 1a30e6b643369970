"""Versions of datasets in one file: which is meant, and what differs."""
