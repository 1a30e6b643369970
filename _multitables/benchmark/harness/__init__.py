"""How it is measured: turns, children, checks, and what a run keeps.

runner.py        the one loop of all studies: checks, rounds in turns, rows
rounds.py        rounds, turns, medians
child.py         a process of its own for a stream or a reader
results.py       what a run keeps, row by row, and goes on from
progress.py      the bar
interruption.py  Ctrl-C and its kin
"""
