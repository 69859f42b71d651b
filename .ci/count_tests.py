#!/usr/bin/env python3
"""Count the tests of several `meson test` runs: count_tests.py [--failed-steps N] LOG.json...

Each Criterion test counts by itself, any other Meson test as one. A program that ended without its
closing line (a crash, a time limit) counts as one failed test. Logs that do not exist are runs that
had no tests. Prints 'N passed, N failed, N skipped'; exit status 1 where anything failed or nothing
ran.
"""

import argparse
import json
import pathlib
import re

SYNTHESIS = re.compile(r"Synthesis: Tested: (\d+) \| Passing: (\d+) \| Failing: (\d+) \| Crashing: (\d+)")
SKIP = re.compile(r"^\[SKIP\]", re.MULTILINE)


def count(test):
    """passed, failed and skipped of one Meson test"""
    good = test["result"] in ("OK", "EXPECTEDFAIL")
    output = test.get("stdout", "") + "\n" + test.get("stderr", "")
    synthesis = SYNTHESIS.search(output)
    if synthesis is None:
        if test["result"] == "SKIP":
            return 0, 0, 1
        return (1, 0, 0) if good else (0, 1, 0)
    # Criterion counts a crash among the failures too.
    passed, failed = int(synthesis[2]), int(synthesis[3])
    if not good and failed == 0:
        failed = 1
    return passed, failed, len(SKIP.findall(output))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--failed-steps", type=int, default=0, help="failures outside of tests")
    parser.add_argument("logs", nargs="*", type=pathlib.Path)
    args = parser.parse_args()

    totals = [0, args.failed_steps, 0]
    for log in args.logs:
        if log.exists():
            for line in log.read_text(encoding="utf-8").splitlines():
                totals = [a + b for a, b in zip(totals, count(json.loads(line)))]
    passed, failed, skipped = totals
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed > 0 or passed == 0 else 0


if __name__ == "__main__":
    raise SystemExit(main())
