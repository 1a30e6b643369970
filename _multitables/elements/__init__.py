"""Stored elements as values of NumPy, made in this process."""
