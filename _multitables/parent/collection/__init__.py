"""Items of many datasets: from a path with wildcards to an iterable, and to batches."""

# Items are of the face. Cloudpickle copies a class whose module is not imported, and a process of
# Dask that makes items would not import it.
import multitables as _face  # noqa: F401
