"""What is to be read, and where it goes: pure values."""
