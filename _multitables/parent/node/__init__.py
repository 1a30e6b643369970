"""Ranks of one node that share readers."""
