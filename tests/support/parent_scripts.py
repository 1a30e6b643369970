"""Shared lines of the programs that tests run in processes of their own, and end."""

from __future__ import annotations

PRELUDE = """
import os, sys, threading, time, signal
import multitables
path = sys.argv[1]
streamer = multitables.Streamer(path)
"""


def by(n_procs: int, source: str) -> str:
    """A program with this number of reader processes; 0: threads of its own."""
    assert "n_procs=2" in source
    return source.replace("n_procs=2", f"n_procs={n_procs}")
