"""One pass over the data, or an endless one, as blocks of a ring."""
