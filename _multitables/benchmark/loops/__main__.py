"""The program of all loops: ``python .../loops NAME`` serves one, or answers a request behind it.

Law
---
1. The interpreter may be another's, with no other file of this project. So this folder is the
   package `loops` there; its parent comes last on the path and hides no module of a library.
"""

import importlib
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [*(path for path in sys.path if path != HERE), os.path.dirname(HERE)]
importlib.import_module("loops.shell").run(*sys.argv[1:])
