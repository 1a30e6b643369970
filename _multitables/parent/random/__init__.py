"""Requests for what was indexed: datasets, stages, and who answers."""
