"""The paths of a collection, and the wildcard that separates items, as the user gave them.

Law
---
1. It finds the objects that the paths name; open_items.py finds out whether they are datasets.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from _multitables.errors import OptionsError
from _multitables.index.datasets.source import Source
from _multitables.index.joined.kept_source import KeptSource
from _multitables.index.names.pattern import ANY, Links, Match, matches, only, parts_of, wildcards

#: An item for each file.
FILE = "file"


@dataclass(frozen=True)
class ItemSpec:
    """The items of a collection, as the user described them."""

    file: KeptSource
    #: Paths with wildcards, and the name of the datasets of each; None: as in the file.
    paths: tuple[str, ...]
    labels: tuple[str, ...] | None
    #: A wildcard, or `FILE`.
    by: int | str
    scales: bool
    attrs: tuple[str, ...]
    exclude: tuple[str, ...]
    #: Whether the file lies on a rotating disk; None: the kernel says.
    rotational: bool | None

    @property
    def path(self) -> str:
        """The paths, for messages."""
        return " + ".join(self.paths)

    def matches(self, source: Source, links: Links) -> list[Match]:
        """Return the objects of a file that the paths name."""
        return [
            replace(match, pattern=number) if number else match
            for number, path in enumerate(self.paths)
            for match in matches(source, path, links, exclude=self.exclude)
        ]

    def only(self, key: str) -> ItemSpec:
        """Return the narrowest spec that still has the item of a key."""
        if isinstance(self.by, int):
            return replace(self, paths=tuple(only(path, self.by, key) for path in self.paths))
        if not self.file.is_several:
            return self
        return replace(self, file=self.file.one(self.file.filenames.index(key)))

    def check(self) -> None:
        """Raise unless all paths have the wildcard `by`, and `exclude` can match."""
        _check_by(self)
        _check_exclude(self)


def _check_by(spec: ItemSpec) -> None:
    for path in spec.paths:
        wild = wildcards(path)
        if spec.by == FILE or (isinstance(spec.by, int) and 0 <= spec.by < len(wild)):
            continue
        raise OptionsError(
            f"by is out of range: expected {FILE!r}, or less than the {len(wild)} wildcards of "
            f"{path!r}, got {spec.by!r}"
            if wild
            else f"{path!r} has no wildcard",
            advice="Write * for the part of the path that differs",
            option="by",
            expected=len(wild),
            got=spec.by,
        )


def _check_exclude(spec: ItemSpec) -> None:
    is_any = any(ANY in parts_of(path) for path in spec.paths)
    depth = max(len(parts_of(path)) for path in spec.paths)
    for path in spec.exclude:
        if not parts_of(path) or (len(parts_of(path)) > depth and not is_any):
            raise OptionsError(
                f"exclude cannot name anything of {spec.path!r} (expected paths of 1 to {depth} "
                f"names, got {path!r})",
                advice="Write paths from the root group on, as '/shots/*/signals/raw'",
                option="exclude",
                expected=depth,
                got=path,
            )
