"""Sizes that the library chooses: of rings, tasks, windows and blocks.

Law
---
1. Numbers alone, each with the reason for its size; docs/explanation/speed_notes.rst has the
   measurements.
2. None of them changes which rows a stream delivers, or in which order, but those of windows.
"""

from __future__ import annotations

#: Data of up to this size is read by threads of the user's process, where the user leaves it open:
#: processes take some 50 ms to begin, in which two threads decode more than this.
LITTLE_DATA_BYTES = 16 << 20
#: The same of a store, where processes take some 300 ms until their first request.
LITTLE_REMOTE_BYTES = 256 << 20
#: Data of up to this size, in the page cache, is read on the caller's own thread: to wake another
#: one takes longer, or as long.
HERE_BYTES = 512 << 10
#: A plain dataset of up to this size has a ring for all of it. Without a filter it is only copied,
#: on the caller's own thread, too.
WHOLE_BYTES = 4 << 20
#: Larger items of a collection are copied by threads, each a part.
TAKEN_BYTES = 8 << 20
#: Rows of unchunked data that make a block by default, in bytes.
UNCHUNKED_BLOCK_BYTES = 128 << 10
#: The library's own choice of ring is at least this large, so that jitter is hidden.
RING_BYTES = 6 << 20
#: Up to this size it holds two tasks more than there are readers, so that no reader waits for room.
MAX_RING_BYTES = 16 << 20
#: With direct I/O it has this much for each reader, so that requests can be in flight.
DIRECT_READER_BYTES = 16 << 20
#: From a store, which takes longer to answer and answers more requests at a time, this much.
REMOTE_READER_BYTES = 32 << 20
#: Decoded bytes that make a task worth its claim; small chunks are grouped up to it.
TASK_BYTES = 256 << 10
#: The same for direct reads, where one task is one request to the device.
DIRECT_TASK_BYTES = 1 << 20
#: The same where one task is some requests of a store.
REMOTE_TASK_BYTES = 4 << 20
#: The same for chunks that have little of each row (less than the core's `LITTLE_BYTES`), as
#: neighbours are copied to their rows together.
INTERLEAVED_TASK_BYTES = 1 << 20
#: Rows of contiguous data are cut into pieces of about this size.
PIECE_BYTES = 256 << 10
#: Rows of contiguous data are fetched one by one where a selection leaves out this much of each.
SKIPPED_BYTES = 64 << 10
#: Windows of a shuffle of chunks alone, where their size costs nothing.
CHUNKS_BYTES = 2 << 20
#: What is asked for at once of a stream with ragged rows: enough chunks for all readers.
RAGGED_FETCH_BYTES = 4 << 20
#: One more of these than there are readers is asked for ahead, up to this size.
RAGGED_AHEAD_BYTES = 64 << 20
#: Rows are mixed over a window of about this size by default,
WINDOW_BYTES = 8 << 20
#: and over at least this many chunks,
WINDOW_CHUNKS = 16
#: unless these make more bytes than this;
MAX_WINDOW_BYTES = 256 << 20
#: then over at least this many.
MIN_WINDOW_CHUNKS = 4
#: Rows up to this size take longer to place than to read, so each window is one reader's.
SMALL_ROW_BYTES = 64
#: What each reader holds for a row of a full shuffle besides the ring, where its windows are small
#: compared with the whole. Shorter rows count as this.
PLACE_BYTES = 32
#: Decoded chunks of smaller datasets next to a shuffled one, that each reader keeps, in bytes.
KEEP_BYTES = 64 << 20
