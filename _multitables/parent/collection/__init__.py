"""Items of many datasets: from a path with wildcards to an iterable, and to batches."""
