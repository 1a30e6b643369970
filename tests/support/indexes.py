"""The index of one dataset of a file, as every stream takes it first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from _multitables.index.chunk_index import ChunkIndex
from _multitables.index.datasets.source import open_source


def index_of(path: Path, name: str, field: str | None = None, **options: Any) -> ChunkIndex:
    with open_source(path, options) as source:
        return source.index(name, field)
