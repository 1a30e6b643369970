"""Files that are open, and the objects that paths lead to."""
