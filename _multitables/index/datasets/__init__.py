"""Datasets of open files -> `ChunkIndex`, one or many at once."""
