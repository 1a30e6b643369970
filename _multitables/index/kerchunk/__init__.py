"""References of Kerchunk, read: a file as Zarr sees it."""
