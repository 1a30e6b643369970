"""Measure every kept result again: the folders of ``docs/results``, on one machine, of one state.

Law
---
1. A folder is a row of `KEPT`: the runs of the benchmark program that fill it, with ``;`` between
   them; the later ones go on with the first one's rows.
2. Rows name git's digests of the sources. Sources with changes are refused, since git has
   no digest of them; pages and results may change.
3. CSV and JSON are kept; tables, plots and reports are made from them again.
4. The checkout is compiled, as an installed library is: where the environment forbids bytecode,
   each fresh process would compile it, and its start would take three times as long.

Usage: ``python tools/kept_results.py [--list] [--check] [FOLDER ...]``, alone on the machine and by
the superuser, who may limit a disk. Two cores take some three hours for all.
``--check`` measures nothing: it ends with 1 where folders are missing, or are of several sources or
machines.
"""

from __future__ import annotations

import argparse
import compileall
import csv
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from _multitables.benchmark.machine.environment import sources_of

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"
PROGRAM = "multitables_benchmark.py"
#: Not measured by the program: what others published, and what the tests and other tools keep.
OTHERS = ("corpus", "published", "scale", "tests")
CACHE = Path.home() / ".cache" / "multitables"
#: What stands in braces in `KEPT`: environments that the program and ``tools/hdf5_build`` make. Of
#: the interpreters for MPI, S3 and the newest HDF5 the program itself knows by its variables.
PLACES = {
    "old": CACHE / "old_release_2.0.1",
    "vfd": next(iter(sorted((CACHE / "direct_vfd").glob("python3.*[0-9]"))), CACHE / "direct_vfd"),
}
DISK = ["tests/support/simulated_disk.py"]
NOISE = "--complib blosc --complib zlib --complevel 0,3"
PEERS = f"--size 0.5 {NOISE} --peers --with-old-release {{old}} --driver buffered --cycles 3"
SIMULATED = (
    "--size 0.3 --directory {mount} --rotational --processes 1,2,6 --complevel 0 --cycles 2 "
    "--access queue --driver direct,buffered,hdf5-direct --direct_vfd {vfd}"
)
CHUNKS = "--exponents 12 --dense_exponents 6"
KEPT = {
    "peers_warm": f"sweep {PEERS} --processes 1,2 --H5FD_DIRECT_OFF",
    "peers": f"sweep {PEERS} --processes 2",
    "targets": "targets --rounds 3 --processes 1,2 --old_env {old}",
    "virtual_disk": "sweep --size 0.5 --processes 1,2,4 --driver direct,hdf5-direct --cycles 3 "
    "--direct_vfd {vfd}",
    "compressible_data": "sweep --size 0.5 --data real --complib blosc --complib zlib "
    "--complevel 3 --access queue,batches --processes 1,2 --cycles 3",
    "slower_devices": f"sweep --size 0.25 {NOISE} --access queue --processes 1,2 --cycles 2 "
    "--limit_mb_per_s 200 --limit_mb_per_s 500",
    "simulated_hdd_bfq": f"disk --scheduler bfq: sweep {SIMULATED}",
    "simulated_hdd_mq_deadline": f"disk --scheduler mq-deadline: sweep {SIMULATED}",
    "random": "random --rows 500000 --rounds 3 --seconds 1 --old_env {old} --dataset earray-lz4 "
    "--dataset earray-zlib",
    "batches": "batches --rows 500000 --rounds 3 --seconds 1 --dataset none-512k "
    "--dataset lz4-64k --dataset zlib-64k",
    "index": "index --rounds 3 --n_datasets 20000 --n_chunks 200000 --seconds 1",
    "small": "small --rounds 3",
    "files": "files --rounds 3",
    "remote": "remote --rounds 3 --scale 0.4",
    "studies/loaders": "loaders --rounds 3 --megabytes 128 --seconds 1.5",
    "studies/iotest": "iotest --rounds 7",
    "studies/iotest_combinations": "iotest combinations 2 1 --run --scale 0.1",
    "studies/shots": "shots --scale 0.02 --processes 1,2,4 --page_buffer 0,264e6 --rounds 1 "
    "--gather",
    "studies/columns": "columns --scale 0.25 --ranks 1,2,4",
    "studies/versions": f"versions --versions 500 {CHUNKS} --which all,latest; "
    "versions --test large_fraction_changes_sparse,mostly_appends_dense --versions 50 "
    f"{CHUNKS} --which all,latest; "
    f"versions --as-described --part write --versions 50 {CHUNKS}; "
    "versions --test large_fraction_constant_sparse --part read --versions 5000 --exponents 12 "
    "--which all",
}


def runs_of(folder: str) -> list[str]:
    """Each run of a folder."""
    return [run.strip() for run in KEPT[folder].split(";")]


def command_of(run: str, output: str, resume: bool) -> list[str]:
    """The command of one run."""
    disk, _, words = run.rpartition(": ")
    filled = words.format(**{name: str(place) for name, place in PLACES.items()}, mount="{mount}")
    own = [sys.executable, PROGRAM, *filled.split(), "--output", output, *["--resume"] * resume]
    if not disk:
        return own
    return [sys.executable, *DISK, *disk.split()[1:], "--run", "--", *own]


def measure(folder: str) -> int:
    """Fill one folder; returns the worst exit status of its runs."""
    with tempfile.TemporaryDirectory() as output:
        worst = 0
        for number, run in enumerate(runs_of(folder)):
            command = command_of(run, output, number > 0)
            print(f"\n{folder}: {' '.join(command)}", flush=True)
            worst = max(worst, subprocess.run(command, cwd=ROOT, check=False).returncode)
        if worst:
            return worst
        shutil.rmtree(RESULTS / folder, ignore_errors=True)
        (RESULTS / folder).mkdir(parents=True)
        for name in os.listdir(output):
            if name.startswith("multitables_") and name.endswith((".csv", ".json")):
                shutil.copy(os.path.join(output, name), RESULTS / folder / name)
    return 0


def faults() -> list[str]:
    """The reasons why the folders are not one measurement."""
    found = [f"{folder} is missing" for folder in KEPT if not (RESULTS / folder).is_dir()]
    origins: dict[str, list[str]] = {}
    for path in sorted(RESULTS.rglob("multitables_*.csv")):
        folder = path.parent.relative_to(RESULTS).as_posix()
        if folder.split("/")[0] in OTHERS:
            continue
        if folder not in KEPT:
            found.append(f"{folder} is in no row of KEPT")
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                origin = (
                    f"{row.get('sources', 'unknown sources')} on {row.get('machine', 'unknown')}"
                )
                if folder not in origins.setdefault(origin, []):
                    origins[origin].append(folder)
    if len(origins) > 1:
        found += [f"{origin}: {', '.join(folders)}" for origin, folders in origins.items()]
    return found


def main() -> int:
    """Measure, or check; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folders", nargs="*", metavar="FOLDER", help="default: all")
    parser.add_argument("--list", action="store_true", help="show the commands")
    parser.add_argument("--check", action="store_true", help="one machine, the same sources?")
    given = parser.parse_args()
    if unknown := [one for one in given.folders if one not in KEPT]:
        parser.error(f"{', '.join(unknown)}: not among {', '.join(KEPT)}")
    if given.check:
        print("\n".join(found := faults()) or "the same sources, one machine")
        return bool(found)
    folders = given.folders or list(KEPT)
    if given.list:
        for folder in folders:
            for run in runs_of(folder):
                print(f"{folder}: {' '.join(command_of(run, 'OUTPUT', resume=False)[1:])}")
        return 0
    if "changes" in (sources_of(str(ROOT)) or "changes"):
        parser.error("the sources have changes: commit them, or measure in a fresh clone")
    compileall.compile_dir(ROOT / "_multitables", quiet=1)
    statuses = {folder: measure(folder) for folder in folders}
    failed = {folder: status for folder, status in statuses.items() if status}
    print(f"\n{len(statuses) - len(failed)} folders are measured; failed: {failed or 'none'}")
    return max(failed.values(), default=0)


if __name__ == "__main__":
    sys.exit(main())
