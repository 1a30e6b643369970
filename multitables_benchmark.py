"""The benchmark program's entry: which study, its arguments, and how it ends.

Law
---
1. Argument parsing and dispatch only; what is measured lives in `_multitables/benchmark/`.
2. Without the name of a study the arguments are the device sweep's, as they were in 2.x.
3. Every study's results are published when it has run and kept rows; what cannot be made there
   fails no study but `report`.
4. Every end but SIGKILL runs the studies' clean-up; the exit status says what happened:
   0 done, 1 a data check failed, 2 it could not be run, 130 interrupted.
5. `all` runs every study with its default options, and says at the end what each left out. It does
   not fail where a library is missing; work that cannot be done (a full disk, say) ends with 2.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence

from _multitables.benchmark.contract import NotMeasuredError
from _multitables.benchmark.harness import interruption, results
from _multitables.benchmark.report import publish
from _multitables.benchmark.report.tables import aligned
from _multitables.benchmark.studies import DEFAULT, STUDIES
from _multitables.benchmark.studies.arguments import add_result_options

ALL = "all"
REPORT = "report"
#: What an exit status means; `all` ends with the one that stands first here.
ENDS = {130: "interrupted", 1: "a data check FAILED", 2: "could not be run", 0: "done"}
LEFT_OUT = "left out"


def parser_of(name: str) -> argparse.ArgumentParser:
    """The parser of one study, or of all; the default's help names the others."""
    summaries = {one: STUDIES[one].SUMMARY for one in STUDIES} | {ALL: "every study in turn"}
    width = max(map(len, summaries))
    others = "\n".join(f"  {one.ljust(width)}  {text}" for one, text in summaries.items())
    parser = argparse.ArgumentParser(
        prog="multitables_benchmark.py" if name == DEFAULT else f"multitables_benchmark.py {name}",
        description=summaries[name],
        epilog=f"studies, named before their options:\n{others}" if name == DEFAULT else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    (add_result_options if name == ALL else STUDIES[name].add_arguments)(parser)
    return parser


def run_all(words: Sequence[str]) -> int:
    """Run the studies that measure, each with the same `words`; returns the exit status."""
    ended: dict[str, int] = {}
    lines, left_out = [], []
    for name in STUDIES:
        if name == REPORT:
            continue
        print(f"\n==== {name}: {STUDIES[name].SUMMARY}\n", flush=True)
        start = time.monotonic()
        arguments = parser_of(name).parse_args(words)
        end = ""
        try:
            ended[name] = STUDIES[name].run(arguments)
            if ended[name] == 2:  # it has no row, and says why
                ended[name], end = 0, LEFT_OUT
        except KeyboardInterrupt:
            ended[name] = 130
        except NotMeasuredError as error:
            ended[name], end = 0, LEFT_OUT
            left_out.append(f"{name}: {error}")
        except OSError as error:
            print(f"not measured: {error}", file=sys.stderr)
            ended[name] = 2
        else:
            left_out += [f"{name}: {line}" for line in _left_out(name, arguments.output)]
        lines.append([name, f"{time.monotonic() - start:.0f}", end or ENDS[ended[name]]])
        if ended[name] == 130:
            break
    print(f"\n{aligned(['study', 'seconds', 'end'], lines, left=('end',))}")
    print("\n".join(["", "Left out:", *left_out] if left_out else ["", "Nothing was left out."]))
    return next(status for status in ENDS if status in ended.values())


def _left_out(name: str, output: str) -> Iterator[str]:
    """The contenders without a number in the results of a study, and why."""
    kept = results.read(output, name)
    for who, reasons in kept.more.get("left_out", {}).items() if kept else ():
        yield from (f"{who}: {why}" for why in reasons)


def main(words: Sequence[str] | None = None) -> int:
    """Run one study, or all; returns the exit status."""
    rest = list(sys.argv[1:] if words is None else words)
    name = rest.pop(0) if rest and rest[0] in (*STUDIES, ALL) else DEFAULT
    arguments = parser_of(name).parse_args(rest)
    interruption.install()
    try:
        status = run_all(rest) if name == ALL else STUDIES[name].run(arguments)
        if name == REPORT or any(publish.with_rows(STUDIES, arguments.output)):
            failed = publish.publish(arguments.output, STUDIES).failed
            return 2 if failed and name == REPORT else status
        return status
    except KeyboardInterrupt:
        print("interrupted before anything was finished", file=sys.stderr)
        return 130
    except (OSError, NotMeasuredError) as error:
        print(f"multitables_benchmark: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
