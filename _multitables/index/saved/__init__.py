"""The index of a file, saved in another file: its bytes, what they say, and who answers."""
