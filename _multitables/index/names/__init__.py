"""Paths with wildcards, and names of datasets as users give them."""
