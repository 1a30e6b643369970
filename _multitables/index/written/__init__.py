"""What is written of a file: its saved index, and references of Kerchunk."""
