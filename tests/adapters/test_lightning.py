"""`LightningData`, trained with Lightning's own trainer, by both of its names."""

from __future__ import annotations

import importlib
import logging
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import payload
import pytest
from loaders import FORKS, each_once, rows_of
from processes import run_script

L = pytest.importorskip("lightning")
torch = pytest.importorskip("torch")

from lightning.pytorch.callbacks import ModelCheckpoint  # noqa: E402 - it may be missing
from lightning.pytorch.plugins.environments import LightningEnvironment  # noqa: E402

import multitables  # noqa: E402

pytestmark = [*FORKS, pytest.mark.filterwarnings("ignore")]  # Lightning's advice
BATCH = 512
#: Batches of an epoch.
STEPS = -(-payload.ROWS // BATCH)
#: Two ranks, which stop in the third step, and go on with the state of the first one.
RANKS = """
import sys
import lightning, numpy as np, torch
from lightning.pytorch.plugins.environments import LightningEnvironment
import multitables
file, folder = sys.argv[1:]
class Model(lightning.LightningModule):
    def __init__(self, stops):
        super().__init__()
        self.layer, self.seen, self.stops = torch.nn.Linear(1, 1), [], stops
    def training_step(self, batch, number):
        self.seen.append(batch.numpy().copy())
        return self.layer(batch[:1, :1].float()).sum() * 0
    def on_train_batch_end(self, *_):
        if self.stops and self.global_step == 3:
            self.trainer.save_checkpoint(f"{folder}/last.ckpt")
            self.trainer.should_stop = True
    def on_train_end(self):
        np.save(f"{folder}/{self.stops}{self.global_rank}.npy", np.concatenate(self.seen))
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)
for stops in (1, 0):
    batches = multitables.Streamer(file).get_batches("/rows", 500, shuffle=True, n_procs=1)
    lightning.Trainer(
        max_epochs=1, accelerator="cpu", devices=2, strategy="ddp_fork", logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        plugins=[LightningEnvironment()],
    ).fit(
        Model(stops),
        datamodule=multitables.LightningData(batches),
        ckpt_path=None if stops else f"{folder}/last.ckpt",
    )
"""
logging.getLogger("lightning.pytorch").setLevel("ERROR")


class Model(L.LightningModule):  # type: ignore[misc, name-defined]
    """Keeps what it is trained with."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.seen: list[tuple[int, np.ndarray]] = []
        self.checked: list[np.ndarray] = []

    def training_step(self, batch: Any, _: int) -> Any:
        self.seen.append((self.current_epoch, batch.numpy().copy()))
        return self.layer(batch[:1, :1].float()).sum() * 0

    def validation_step(self, batch: Any, _: int) -> None:
        self.checked.append(batch.numpy().copy())

    test_step = validation_step

    def predict_step(self, batch: Any, _: int) -> Any:
        return batch.clone()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 0.1)

    def rows(self, epoch: int) -> np.ndarray:
        """The batches of an epoch of training."""
        return rows_of(batch for own, batch in self.seen if own == epoch)


def data(path: Path, processes: int = 0, **options: Any) -> Any:
    streamer = multitables.Streamer(path)
    forks = {"multiprocessing_context": "fork"} if processes else {}
    return multitables.LightningData(
        streamer.get_batches("/rows", BATCH, shuffle=True),
        streamer.get_batches("/rows", 1000),
        num_workers=processes,
        loader_options=forks,
        **options,
    )


def trainer(folder: Path, epochs: int = 2, callbacks: Any = (), **options: Any) -> Any:
    options.setdefault("num_sanity_val_steps", 1)
    return L.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        plugins=[LightningEnvironment()],  # it would start MPI to see whether it is there
        logger=False,
        enable_checkpointing=bool(callbacks),
        callbacks=list(callbacks),
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        **options,
    )


@pytest.mark.parametrize("processes", [0, 2])
def test_it_resumes_from_every_checkpoint(numbered: Path, tmp_path: Path, processes: int) -> None:
    """In the middle of an epoch, at its end, and behind it; and from where it was resumed."""
    every = ModelCheckpoint(
        tmp_path, "{step}", every_n_train_steps=4, save_top_k=-1, save_on_train_epoch_end=False
    )
    whole = Model()
    trainer(tmp_path, callbacks=[every]).fit(whole, datamodule=data(numbered, processes))
    assert len(whole.seen) == 2 * STEPS
    orders = [whole.rows(epoch) for epoch in range(2)]
    assert all(map(each_once, orders))
    assert not np.array_equal(*orders)
    # Validation before training, and of each epoch.
    assert each_once(rows_of(whole.checked[1:7]))
    for step in range(4, 2 * STEPS + 1, 4):
        model = Model()
        again = trainer(tmp_path)
        path = tmp_path / f"step={step}.ckpt"
        again.fit(model, datamodule=data(numbered, processes), ckpt_path=path)
        model.seen[:0] = whole.seen[:step]
        found = [model.rows(epoch) for epoch in range(2)]
        assert all(map(each_once, found)), step
        if not processes:
            assert all(map(np.array_equal, found, orders)), step


def test_it_resumes_twice(numbered: Path, tmp_path: Path) -> None:
    """With another number of processes each time."""
    seen: list[tuple[int, np.ndarray]] = []
    path = None
    for processes, step in ((2, 3), (0, 8), (1, None)):
        model = Model()
        stop = Stop(step, tmp_path / f"{step}.ckpt")
        try:
            trainer(tmp_path, 1, [stop]).fit(
                model, datamodule=data(numbered, processes), ckpt_path=path
            )
        except CrashError:
            path = stop.path
        seen += model.seen
    assert len(seen) == STEPS
    assert each_once(rows_of(batch for _, batch in seen))


class CrashError(Exception):
    """A training that crashed."""


class Stop(L.Callback):  # type: ignore[misc, name-defined]
    """Saves a checkpoint in a step, and crashes."""

    def __init__(self, step: int | None, path: Path) -> None:
        self.step, self.path = step, path

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        if trainer.global_step == self.step:
            trainer.save_checkpoint(self.path)
            raise CrashError


def test_each_epoch_has_another_order_where_it_is_cut(numbered: Path, tmp_path: Path) -> None:
    model = Model()
    cut = trainer(tmp_path, 3, limit_train_batches=3, limit_val_batches=0)
    cut.fit(model, datamodule=data(numbered))
    orders = [
        multitables.Streamer(numbered).get_batches("/rows", BATCH, shuffle=True).order(epoch)
        for epoch in range(3)
    ]
    for epoch, order in enumerate(orders):
        assert np.array_equal(model.rows(epoch), order[: 3 * BATCH])


def test_tests_and_predictions(numbered: Path, tmp_path: Path) -> None:
    streamer = multitables.Streamer(numbered)
    made = multitables.LightningData(
        test=streamer.get_batches("/rows", 1000), predict=streamer.get_batches("/rows", 1000)
    )
    model = Model()
    trainer(tmp_path).test(model, datamodule=made, verbose=False)
    assert np.array_equal(rows_of(model.checked), np.arange(payload.ROWS))
    found = trainer(tmp_path).predict(model, datamodule=made)
    assert np.array_equal(rows_of(found), np.arange(payload.ROWS))
    with pytest.raises(multitables.OptionsError, match="nothing to train with"):
        trainer(tmp_path).fit(model, datamodule=made)


def test_ranks_are_those_of_the_trainer(numbered: Path) -> None:
    found = []
    for rank in range(2):
        made = data(numbered)
        made.trainer = Ranked(rank)
        found.append(rows_of(made.train_dataloader()))
        assert made.state_dict()["train"]["rank"] == rank
        made.teardown()
    assert each_once(np.concatenate(found))


class Ranked:
    """A trainer that has only a rank, one of two."""

    world_size, current_epoch = 2, 0

    def __init__(self, rank: int) -> None:
        self.global_rank = rank


@pytest.mark.hang(150)
def test_ranks_of_a_real_run_resume_from_one_state(numbered: Path, tmp_path: Path) -> None:
    done = run_script(RANKS, numbered, tmp_path, seconds=120, flags=("-W", "ignore"))
    assert done.returncode == 0, done.stderr
    found = [np.load(tmp_path / f"{stops}{rank}.npy") for stops in (1, 0) for rank in range(2)]
    assert [len(one) for one in found] == [1500] * 4
    assert each_once(rows_of(found))


def test_a_copy_and_another_transform(numbered: Path) -> None:
    made = pickle.loads(pickle.dumps(data(numbered, transform=torch.neg)))
    assert each_once(rows_of(-batch for batch in made.train_dataloader()))
    made.teardown()


def test_what_is_refused(numbered: Path, tmp_path: Path) -> None:
    streamer = multitables.Streamer(numbered)
    with pytest.raises(multitables.OptionsError, match="must be a loader"):
        multitables.LightningData("/rows")
    with pytest.raises(multitables.OptionsError, match="one epoch"):
        multitables.LightningData(streamer.get_batches("/rows", BATCH, epochs=None))
    missing = multitables.Streamer(tmp_path / "none.h5").get_batches("/rows", BATCH)
    with pytest.raises(multitables.MissingFileError):
        trainer(tmp_path).fit(Model(), datamodule=multitables.LightningData(missing))


@pytest.mark.parametrize("name", ["lightning.pytorch", "pytorch_lightning"])
def test_it_is_of_the_library_that_is_imported(name: str) -> None:
    assert importlib.util.find_spec(name.partition(".")[0])
    done = run_script(
        "import importlib, sys\n"
        "library = importlib.import_module(sys.argv[1])\n"
        "import multitables\n"
        "print(issubclass(multitables.LightningData, library.LightningDataModule))",
        name,
        seconds=100,
        flags=("-W", "ignore"),
    )
    assert done.stdout == "True\n", done.stderr
