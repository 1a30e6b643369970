"""Files of many versions: size, writing, opening and reading, as versioned-hdf5 was measured.

study.py       options, the run
cases.py       which files and versions, who takes part, the published JSON files
views.py       tables and plots
published.csv  what the study published
"""
