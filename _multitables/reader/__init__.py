"""Runs only in a reader process."""
