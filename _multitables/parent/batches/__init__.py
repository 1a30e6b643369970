"""Epochs of batches over streams."""
