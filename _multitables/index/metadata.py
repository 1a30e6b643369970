"""What a file says of its objects: `Metadata`, which has the face of the core's reader of files.

Law
---
1. Whatever answers in its place declares it: a saved index, references, an object of a store that
   may not be read at all, a file of a manifest.

This file must never know who does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from _multitables._core import MetadataFile

    Metadata: TypeAlias = MetadataFile
else:
    Metadata = object
