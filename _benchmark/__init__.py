"""The inside of the benchmark program (`multitables_benchmark.py` is its entry).

Law
---
1. Of the library only the face `multitables` is imported, as any user would.
2. A number is printed only when the data behind it was checked against the oracle in the same run.
3. Planning and statistics are values; files, clocks and processes are touched where the map says.

Map
---
studies/        what is asked, in one table: device_sweep (the default), targets, random_access,
                training_batches, explain, report_again
machine/        devices, mounts, page cache, memory of processes, a slower device
data/           the files that are read: written, copied, described
contenders.py   who is measured: multitables, the old release, PyTables, h5py, fio, the codec limit
random_contenders.py  who is measured at random access
random_draws.py the rows that random access is asked for, and what NumPy says they are
random_loop.py  the timed loop of random access, the same text for the library and the old release
batch_contenders.py  who is measured at training batches
batch_ways.py   this library's batches, and DataLoader's, h5py's, NumPy's and Grain's
batch_loop.py   the loops that check and time them, in a process of their own
batch_proof.py  whether the rows that came are the right ones
batch_mixing.py how well an order mixes
child.py        a process of its own for a stream or a reader
stream_loop.py  the timed loop over a stream, the same text for the library and the old release
old_release.py  the old release's own virtual environment
hdf5_direct.py  the published method, under an interpreter that tools/direct_vfd made
hdf5_direct_loop.py  what runs there
peers.py        the other libraries of the device sweep
peer_loop.py    the loops that check and time them, in a process of their own
measure.py      rounds, turns, medians
limits.py       what bounds a stream, each limit measured by itself
advice.py       which of them does, and what to do about it, as arithmetic
probe.py        one measurement in a fresh interpreter
progress.py     the bar
interruption.py Ctrl-C and its kin
arguments.py    the types of the studies' arguments
results.py      what a run keeps, row by row, and goes on from
report.py       what is shown, as values: tables, charts, sentences
charts.py       draws charts as SVG and PNG
parquet.py      rows as a file whose columns have types
page.py         the HTML report
curves.py       throughput over processes, ours and as published, and what follows from it
docs_page.py    the documentation's page of the results kept in the repository
publish.py      writes all of that beside the rows
"""
