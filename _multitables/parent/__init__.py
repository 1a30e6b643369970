"""Runs only in the user's process."""

# Public classes are of the face. Cloudpickle copies a class whose module is not imported, and a
# process that only gets our objects would not import it.
import multitables as _face  # noqa: F401
