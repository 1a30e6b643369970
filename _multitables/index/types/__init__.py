"""What elements are and how they are stored, and what is wrong with a file or a path."""
