"""The face of `multitables.open`: files, groups, datasets and attributes, named as in h5py."""
