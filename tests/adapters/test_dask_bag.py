"""`Collection.to_dask_bag`, on threads, processes and a cluster that loses a worker.

Law
---
1. Dask runs in scripts, as the threads that it makes stay. h5py says what is right.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import h5py
import numpy as np
import pytest
import shot_files
from processes import run_script
from shot_files import PATTERN, SHOTS

import multitables

if not importlib.util.find_spec("dask"):
    pytest.skip("could not import 'dask'", allow_module_level=True)

BEGIN = (
    "import os, signal, sys, dask, multitables\n"
    "from _multitables.parent.collection import dask_bag\n"
    "dask_bag.PARTITION_BYTES = 200_000\n"
    "streamer = multitables.Streamer(sys.argv[1])\n"
    f"items = streamer.get_collection({PATTERN!r}, int(sys.argv[2]), attrs=['shot'])\n"
    "bag = items.to_dask_bag()\n"
    "def told(item):\n"
    "    axes = [axis for axes in item.scales.values() for axis in axes]\n"
    "    scales = [float(scale.sum()) for axis in axes for scale in axis.values()]\n"
    "    shots = sorted(int(of['shot']) for of in item.attrs.values() if of)\n"
    "    return item.key, float(sum(item[n].sum() for n in item)), round(sum(scales)), shots\n"
)


@pytest.fixture(scope="module")
def shots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    kinds = {name: shot_files.KINDS[name] for name in ("plain", "gzip", "image", "virtual")}
    path = tmp_path_factory.mktemp("shots") / "shots.h5"
    return shot_files.write(path, kinds=kinds, libver="earliest")


def expected(path: Path, by: int) -> list[tuple[str, float, int, list[int]]]:
    found: dict[str, list[h5py.Dataset]] = {}
    with h5py.File(path) as file:
        for shot, group in file["shots"].items():
            for name, data in group["signals"].items():
                found.setdefault((shot, name)[by], []).append(data)
        return sorted(
            (
                key,
                float(sum(data[()].sum() for data in those)),
                round(
                    sum(
                        float(np.sum(scale[()]))
                        for data in those
                        for dim in data.dims
                        for scale in dim.values()
                    )
                ),
                sorted(int(data.attrs["shot"]) for data in those if "shot" in data.attrs),
            )
            for key, those in found.items()
        )


def same(printed: str, path: Path, by: int) -> None:
    got = sorted(eval(printed))
    for one, other in zip(got, expected(path, by), strict=True):
        assert one[0] == other[0]
        np.testing.assert_allclose(one[1:3], other[1:3])
        assert one[3] == other[3]


@pytest.mark.hang(180.0)
@pytest.mark.parametrize("by", [0, 1])
@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_items(shots: Path, by: int, scheduler: str) -> None:
    code = (
        "if __name__ == '__main__':\n"
        "    with dask.config.set(scheduler=sys.argv[3], num_workers=2):\n"
        "        print(bag.map(told).compute())\n"
        "    assert bag.npartitions > 1\n"
    )
    done = run_script(BEGIN + code, shots, str(by), scheduler, flags=())
    same(done.stdout, shots, by)


@pytest.mark.hang(180.0)
def test_what_is_no_array(tmp_path: Path) -> None:
    path = shot_files.write(tmp_path / "lone.h5", kinds=shot_files.LONE)
    code = (
        "if __name__ == '__main__':\n"
        "    with dask.config.set(scheduler='processes', num_workers=2):\n"
        "        print([(item.key, item['text'], item['null']) for item in bag.compute()])\n"
    )
    printed = eval(
        run_script(BEGIN + code, path, "0", flags=()).stdout,
        {"Empty": multitables.Empty, "dtype": np.dtype},
    )
    with h5py.File(path) as file:
        texts = {shot: group["signals/text"][()] for shot, group in file["shots"].items()}
    assert {key: text for key, text, _ in printed} == texts
    assert all(null == multitables.Empty("f4") for _, _, null in printed)


@pytest.mark.hang(180.0)
@pytest.mark.skipif(not importlib.util.find_spec("distributed"), reason="distributed is missing")
def test_a_cluster_that_loses_a_worker(shots: Path) -> None:
    code = (
        "if __name__ == '__main__':\n"
        "    from distributed import Client\n"
        "    with Client(n_workers=2, threads_per_worker=1, dashboard_address=None) as client:\n"
        "        results = client.compute(dask.bag.concat([bag] * 4).map(told))\n"
        "        os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)\n"
        "        print(results.result()[: len(items.keys)])\n"
    )
    done = run_script("import dask.bag\n" + BEGIN + code, shots, "0", flags=())
    same(done.stdout, shots, 0)
    assert len(SHOTS) == len(eval(done.stdout))


def test_what_is_left_out(shots: Path) -> None:
    done = run_script(
        "import sys, multitables\n"
        "streamer = multitables.Streamer(sys.argv[1])\n"
        f"items = streamer.get_collection({PATTERN!r}, exclude='/shots/9')\n"
        "print(sorted(items.to_dask_bag().map(lambda item: item.key).compute(scheduler='sync')))\n",
        shots,
        flags=(),
    )
    assert done.stdout == f"{sorted(str(shot) for shot in SHOTS if shot != 9)}\n", done.stderr
