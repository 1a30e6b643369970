"""The benchmark program's entry: which study, its arguments, and how it ends.

Law
---
1. Argument parsing and dispatch only; what is measured lives in `_benchmark`.
2. Without the name of a study the arguments are the device sweep's, as they were in 2.x.
3. Every study's results are published when it has run; what cannot be made there fails no study
   but `report`.
4. Every end but SIGKILL runs the studies' clean-up; the exit status says what happened:
   0 done, 1 a data check failed, 2 it could not be run, 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from _benchmark.contract import NotMeasuredError
from _benchmark.harness import interruption
from _benchmark.report import publish
from _benchmark.studies import DEFAULT, STUDIES


def parser_of(name: str) -> argparse.ArgumentParser:
    """The parser of one study; the default's help names the others."""
    width = max(map(len, STUDIES))
    others = "\n".join(f"  {one.ljust(width)}  {STUDIES[one].SUMMARY}" for one in STUDIES)
    parser = argparse.ArgumentParser(
        prog="multitables_benchmark.py" if name == DEFAULT else f"multitables_benchmark.py {name}",
        description=STUDIES[name].SUMMARY,
        epilog=f"studies, named before their options:\n{others}" if name == DEFAULT else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    STUDIES[name].add_arguments(parser)
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """Run one study; returns the exit status."""
    rest = list(sys.argv[1:] if words is None else words)
    name = rest.pop(0) if rest and rest[0] in STUDIES else DEFAULT
    arguments = parser_of(name).parse_args(rest)
    interruption.install()
    try:
        status = STUDIES[name].run(arguments)
        failed = publish.publish(arguments.output, STUDIES).failed
        return 2 if failed and name == "report" else status
    except KeyboardInterrupt:
        print("interrupted before anything was finished", file=sys.stderr)
        return 130
    except (OSError, NotMeasuredError) as error:
        print(f"multitables_benchmark: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
