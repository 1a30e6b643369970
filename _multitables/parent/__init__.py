"""Runs only in the user's process."""
