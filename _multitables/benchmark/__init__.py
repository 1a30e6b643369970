"""The inside of the benchmark program (`multitables_benchmark.py` is its entry).

Law
---
1. Of the library only the face `multitables` is imported, as any user would. The one exception is
   `loops/index_loop.py`, which measures the core's reader of metadata by itself, too.
2. A number is printed only when the data behind it was checked against the oracle in the same run.
3. Planning and statistics are values; files, clocks and processes are touched where the map says.

Map
---
machine/     devices, mounts, page cache, memory of processes, a slower device
data/        the files that are read: written, copied, described
objects/     an S3 server, a proxy in front of it that adds delays and faults, and a bucket of both
loops/       the timed loops, in processes of their own: one program runs each by its name
analysis/    what numbers mean, as arithmetic
contract.py  what a contender is, and what it reads
harness/     how it is measured: one runner, turns, children, what a run keeps
contenders/  who is measured, and what their data is compared with
report/      how results are shown: values in, files out
studies/     the frame of all studies: frame.py (cases and how a run goes), setting.py (options and
             files), verdicts.py, views.py, beside.py (a dataset beside a loop over h5py),
             arguments.py (types of options); and a folder each: sweep, the default, targets,
             random, batches, loaders, index, files, small, remote, iotest, shots, columns,
             versions, explain, report

Each imports only what stands above it: tests/laws/ hold that.
"""
