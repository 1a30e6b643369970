"""Virtual datasets, versions, rows of any length and selections, beside data stored plainly.

Law
---
1. See `study`.
"""
