"""References of Kerchunk, written and read: a file as Zarr sees it."""
