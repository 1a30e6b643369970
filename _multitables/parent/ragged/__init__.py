"""Streams and batches of ragged rows."""
