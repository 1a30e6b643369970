"""Small and uncompressed data, discovery, starts and one object, beside what a user would take.

Law
---
1. See `study`.
"""
