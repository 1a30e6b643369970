"""Every claim of speed beside its rivals; and the frame that all studies of targets have.

study.py     its options
parts.py     what is compared with what, and what is wanted
run.py       the frame: options that all have, the run, what is kept
verdicts.py  from figures to met or missed
views.py     verdicts, tables and plots
"""
