"""Reader processes: their start, their end, what they count and what they report."""
