"""Make a virtual environment whose h5py has HDF5's driver for S3 (ROS3), for the benchmark.

Law
---
1. Everything lies in PREFIX; this environment is not touched.
2. It is right when it is named: its h5py says that it has the driver. An environment that is right
   is kept.

The distribution h5py-s3 is imported as ``h5py``, in place of the usual one, which lacks the driver.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import venv

#: hdf5plugin asks for h5py by its usual name, and would bring it over the other one.
STEPS = (
    ("h5py-s3>=3.16", "s3fs>=2024.9", "numpy>=1.24", "distributed>=2024.8"),
    ("--no-deps", "hdf5plugin>=5.0"),
)
ASK = (
    "import distributed, h5py, hdf5plugin, s3fs; assert h5py.get_config().ros3; "
    "print(h5py.version.info)"
)


def is_right(python: str) -> str:
    """The versions of its h5py; "" where the driver or a library is missing."""
    if not os.path.exists(python):
        return ""
    done = subprocess.run([python, "-c", ASK], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def main() -> int:
    """Make the environment and say how it is used; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "prefix", metavar="PREFIX", help="the environment's folder; made if need be"
    )
    prefix = os.path.abspath(parser.parse_args().prefix)
    python = os.path.join(prefix, "bin", "python")
    if not is_right(python):
        venv.create(prefix, with_pip=True, clear=os.path.exists(os.path.join(prefix, "pyvenv.cfg")))
        for words in STEPS:
            command = [python, "-m", "pip", "install", "--quiet", *words]
            if subprocess.run(command, check=False).returncode:
                print(f"{' '.join(words)} could not be installed in {prefix!r}", file=sys.stderr)
                return 1
    told = is_right(python)
    if not told:
        print(
            f"the h5py in {prefix!r} has no driver ros3 (expected one from h5py-s3). Remove the "
            "folder and run this again.",
            file=sys.stderr,
        )
        return 1
    print(f"{told}\n\npython multitables_benchmark.py remote --ros3_python {python}")
    print(f"python multitables_benchmark.py shots --ros3_python {python}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
