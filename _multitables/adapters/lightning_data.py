"""`LightningData`: loaders as a `LightningDataModule` that is resumed from a checkpoint.

Law
---
1. The trainer says which rank this is and which epoch is trained; `TorchDataset` makes tensors.
2. A state says what the loop was given; with processes of a `DataLoader`, what each has given.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any

from torch.utils.data import DataLoader

from _multitables.adapters.torch_iterable import TorchDataset
from _multitables.errors import OptionsError, public
from _multitables.options import wrong
from _multitables.parent.batches.loader import Loader


def _lightning() -> Any:
    """Import Lightning by the name by which the program has it; it may be installed by either."""
    names = ["lightning.pytorch", "pytorch_lightning"]
    names.sort(key=lambda name: sys.modules.get(name) is None)
    try:
        return importlib.import_module(names[0])
    except ModuleNotFoundError:
        return importlib.import_module(names[1])


@public
class LightningData(_lightning().LightningDataModule):  # type: ignore[misc]
    """Batches of HDF5 files for a `Trainer` of Lightning, which goes on where a checkpoint was.

    Parameters
    ----------
    train, val, test, predict : Batches, or another loader, optional
        What `Streamer.get_batches`, `Streamer.get_columns` or `Collection.to_batches` made, with
        one epoch for each iteration.
    num_workers : int, optional
        Processes of each `DataLoader`, for slow transforms. Default: none, as readers are
        processes already.
    loader_options : mapping, optional
        Other options of `torch.utils.data.DataLoader`, such as ``multiprocessing_context``.
    **options
        Those of `TorchDataset` with a loader: ``transform``.

    Raises
    ------
    OptionsError
        Not a loader, or one with other epochs than one (a `ValueError`).

    Notes
    -----
    Ranks are those of the trainer. Each epoch of the trainer is an epoch of the loader, also where
    ``limit_train_batches`` ends it early. A checkpoint in the middle of an epoch of training goes
    on with the batches that were not trained on; with another number of ranks or processes in
    another order. Other loops begin anew.

    Examples
    --------
    >>> batches = streamer.get_batches(("/x", "/y"), 256, shuffle=True)  # doctest: +SKIP
    >>> data = multitables.LightningData(train=batches)  # doctest: +SKIP
    >>> trainer.fit(model, datamodule=data, ckpt_path="last")  # doctest: +SKIP
    """

    def __init__(
        self,
        train: Loader | None = None,
        val: Loader | None = None,
        test: Loader | None = None,
        predict: Loader | None = None,
        *,
        num_workers: int = 0,
        loader_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self._loaders = {"train": train, "val": val, "test": test, "predict": predict}
        for name, loader in self._loaders.items():
            if not isinstance(loader, Loader | None):
                raise wrong(name, "must be a loader", loader, "Give it what get_batches made")
            if loader is not None and loader.epochs != 1:
                raise OptionsError(
                    f"{name} must have one epoch for each iteration, got epochs={loader.epochs}",
                    advice="Leave epochs out, and give the trainer max_epochs",
                    option=name,
                    got=loader.epochs,
                )
        self._options = options
        self._loader_options = {"num_workers": num_workers, **(loader_options or {})}
        self._made: dict[str, TorchDataset] = {}
        self._training: _Training | None = None
        self._state: dict[str, Any] = {}

    def train_dataloader(self) -> Any:
        """Return the loader of training, where the loaded state stands."""
        self._training = _Training(self._dataset("train"), self, **self._loader_options)
        if "train" in self._state:
            self._training.load_state_dict(self._state.pop("train"))
        return self._training

    def val_dataloader(self) -> Any:
        """Return the loader of validation; without one, nothing."""
        return self._plain("val")

    def test_dataloader(self) -> Any:
        """Return the loader of tests."""
        return self._plain("test")

    def predict_dataloader(self) -> Any:
        """Return the loader of predictions."""
        return self._plain("predict")

    def state_dict(self) -> dict[str, Any]:
        """Return the position of training, as the trainer saves it."""
        return self._state if self._training is None else {"train": self._training.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Let training go on where a state was taken."""
        self._state = dict(state_dict)

    def teardown(self, stage: str | None = None) -> None:
        """End the readers."""
        if self._training is not None:
            self._state, self._training = self.state_dict(), None
        while self._made:
            self._made.popitem()[1].close()

    def on_exception(self, exception: BaseException) -> None:
        """End the readers."""
        self.teardown()

    def _dataset(self, name: str) -> TorchDataset:
        trainer = self.trainer
        ranks = (0, 1) if trainer is None else (trainer.global_rank, trainer.world_size)
        loader = self._loaders[name]
        if loader is None:
            raise OptionsError(
                f"this LightningData has nothing to {name} with",
                advice=f"Give it {name}=",
                option=name,
            )
        made = TorchDataset(loader, rank=ranks[0], world_size=ranks[1], **self._options)
        self._made[name] = made
        return made

    def _plain(self, name: str) -> Any:
        if self._loaders[name] is None and name == "val":
            return []
        return DataLoader(self._dataset(name), batch_size=None, **self._loader_options)


class _Training(DataLoader[Any]):
    """A `DataLoader` that knows what it has delivered, by processes or without."""

    def __init__(self, dataset: TorchDataset, data: LightningData, **options: Any) -> None:
        super().__init__(dataset, batch_size=None, **options)
        self._data, self._of = data, dataset
        self._first = dataset._loader.epoch
        #: Batches of a whole epoch: the trainer counts those of a resumed one from its start.
        self._whole = len(dataset)
        self._start = dataset.state_dict()
        #: Batches that were delivered since the start.
        self._taken = 0

    def __len__(self) -> int:
        return self._whole

    def __iter__(self) -> Any:
        trainer = self._data.trainer
        if trainer is not None:
            self._of.set_epoch(self._first + trainer.current_epoch)
        self._start, self._taken = self._of.state_dict(), 0
        for batch in super().__iter__():
            self._taken += 1
            yield batch

    def load_state_dict(self, state: Any) -> None:
        """Let the next pass go on there."""
        self._of.load_state_dict(state)
        self._start, self._taken = state, 0

    def state_dict(self) -> Any:
        """Return the state of this rank, or a list of those of its processes."""
        if not self.num_workers:
            return self._of.state_dict()
        parts = []
        for number in range(self.num_workers):
            part = self._of._loader._shared_out(self._of._given, (number, self.num_workers), False)
            part.load_state_dict(self._start)
            parts.append(part)
        lengths = [len(part) for part in parts]
        # It takes a batch of each process in turn, as long as that has one.
        turns = [at for turn in range(max(lengths)) for at, n in enumerate(lengths) if turn < n]
        states = [part.state_dict() for part in parts]
        for at in turns[: self._taken]:
            states[at]["batches"] += 1
        return states
