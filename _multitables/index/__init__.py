"""The inside of HDF5 files, as values: the only folder that touches HDF5 in the parent."""
