"""The study of columns: a particle-physics analysis by ranks.

Law
---
1. `study` has the options, `parts` the cases and who measures them, `views` what rows show.
"""
