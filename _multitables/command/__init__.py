"""The command `multitables`: a file seen from a shell."""
