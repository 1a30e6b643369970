"""What indexing a dataset means, as values: pure."""
