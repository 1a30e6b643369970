"""Columns of groups, in blocks that never split a value of their index."""
