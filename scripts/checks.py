#!/usr/bin/env python3
"""What ran on a GPU: bench/results/<gpu>/checks.json, and its table in docs/benchmarks.md.

Usage: checks.py tests JUNIT --gpu SLUG --device NAME --driver VERSION [--commit COMMIT]
       checks.py ranks OUTCOMES --gpu SLUG --device NAME --driver VERSION [--commit COMMIT]
       checks.py memcheck|racecheck|synccheck|initcheck FOLDER --gpu SLUG --device NAME --driver VERSION [--commit COMMIT]
       checks.py page [--check]
(and --root FOLDER). All but the last write one section of checks.json and leave the others, which have a commit and a date of
their own. JUNIT is what `ctest --output-junit` wrote. OUTCOMES has a line for each check, `passed NAME`, `failed NAME` or
`skipped NAME`. FOLDER has for each test binary NAME.log, the sanitizer's output,
NAME.list, the names of the tests it was to run, and NAME.json, from --gtest_output; without that the binary did not finish.
They fail where a test failed or a sanitizer found something. `page` rewrites what stands between `<!-- checks: h200 -->` and
`<!-- end of checks -->`; --check writes nothing and fails where that is stale.
"""
import argparse
import datetime
import json
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree

import tables

SANITIZERS = ["memcheck", "racecheck", "synccheck", "initcheck"]
SECTIONS = {"tests": "the tests with the label gpu", "ranks": "ranks that share the GPU, over each transport"}
MOST_NAMES = 30  # most names of tests in a sentence
PART = re.compile(r"(?P<open><!-- checks: (?P<gpu>\S+) -->\n)(?P<body>.*?)(?P<close><!-- end of checks -->)", re.DOTALL)
FILE = pathlib.Path("docs") / "benchmarks.md"
# racecheck counts hazards; the other tools count errors.
SUMMARY = re.compile(r"^=+ (?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard)", re.MULTILINE)


def tests_of_junit(path):
    """Names of tests by result. CTest also calls a test skipped if it could not start it; that one counts as failed."""
    found = {"passed": [], "failed": [], "skipped": []}
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        status, skipped = case.get("status"), case.find("skipped")
        # A test that skipped itself has SKIP_RETURN_CODE=77 or SKIP_REGULAR_EXPRESSION_MATCHED.
        is_skipped = status == "disabled" or skipped is not None and skipped.get("message", "").startswith("SKIP_")
        is_passed = status == "run" and case.find("failure") is None
        found["skipped" if is_skipped else "passed" if is_passed else "failed"].append(case.get("name"))
    return found


def tests_of_outcomes(path):
    found = {"passed": [], "failed": [], "skipped": []}
    for outcome in path.read_text(encoding="utf-8").splitlines():
        kind, name = outcome.split(" ", 1)
        found[kind].append(name)
    return found


def tests_of_gtest(path):
    found = {"passed": [], "failed": [], "skipped": []}
    for suite in json.loads(path.read_text(encoding="utf-8"))["testsuites"]:
        for test in suite["testsuite"]:
            if test["status"] != "RUN":
                continue
            kind = "failed" if test.get("failures") else "skipped" if test["result"] == "SKIPPED" else "passed"
            found[kind].append(f"{suite['name']}.{test['name']}")
    return found


def binary_of(log):
    """A sanitizer's findings in one test binary. `errors` is null if its output ends without a count."""
    counts = [int(first or second) for first, second in SUMMARY.findall(log.read_text(encoding="utf-8", errors="replace"))]
    asked = log.with_suffix(".list").read_text(encoding="utf-8").split()
    result = log.with_suffix(".json")
    is_finished = result.exists()
    # A binary that crashed wrote no result; none of its tests is known to have passed.
    tests = tests_of_gtest(result) if is_finished else {"passed": [], "failed": asked, "skipped": []}
    return {"binary": log.stem, "errors": sum(counts) if counts else None, "is_finished": is_finished, **tests}


def commit_of(root):
    """The commit in the form of `attacca bench`: changed results do not make a tree dirty."""
    def git(*arguments):
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else None

    commit = git("rev-parse", "--short", "HEAD")
    if not commit:
        return "unknown"
    return commit if git("status", "--porcelain", "--", ".", ":!bench/results") == "" else f"{commit}+dirty"


def is_good(section):
    parts = section.get("binaries", [section])
    return bool(parts) and all(not part["failed"] and part.get("errors", 0) == 0 for part in parts)


def record(arguments):
    source = arguments.source
    if arguments.what == "tests":
        found = tests_of_junit(source)
    elif arguments.what == "ranks":
        found = tests_of_outcomes(source)
    else:
        found = {"binaries": [binary_of(log) for log in sorted(source.glob("*.log"))]}
    section = {"device": arguments.device, "driver": arguments.driver,
               "commit": arguments.commit or commit_of(arguments.root),
               "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(), **found}
    path = arguments.root / "bench" / "results" / arguments.gpu / tables.CHECKS
    path.parent.mkdir(parents=True, exist_ok=True)
    checks = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    checks[arguments.what] = section
    path.write_text(json.dumps({what: checks[what] for what in [*SECTIONS, *SANITIZERS] if what in checks}, indent=1) + "\n",
                    encoding="utf-8")
    count = lambda key: sum(len(part[key]) for part in section.get("binaries", [section]))
    print(f"{arguments.what}: {count('passed')} passed, {count('failed')} failed, {count('skipped')} skipped; in "
          f"{path.relative_to(arguments.root)}")
    return 0 if is_good(section) else 1


def line(what, section):
    parts = section.get("binaries", [section])
    counts = [sum(len(part[key]) for part in parts) for key in ("passed", "failed", "skipped")]
    name, errors = SECTIONS.get(what), ""
    if not name:
        name = f"{what}, {len(parts)} test binaries"
        errors = "unknown" if any(part["errors"] is None for part in parts) else f"{sum(part['errors'] for part in parts)}"
    cells = [name, *(f"{count:,}" for count in (counts[0] + counts[1], counts[1], counts[2])), errors, section["commit"],
             section["date"]]
    return "| " + " | ".join(cells) + " |"


def names(checks, key, said):
    """A sentence with the tests of one result; empty if there are none."""
    found = [f"`{name}`" + ("" if what in SECTIONS else f" ({what})") for what, section in checks.items()
             for part in section.get("binaries", [section]) for name in part[key]]
    more = [f"and {len(found) - MOST_NAMES} more, named in {tables.CHECKS}"] if len(found) > MOST_NAMES else []
    return [f"{said}: {', '.join(found[:MOST_NAMES] + more)}."] if found else []


def render(root, gpu):
    path = root / "bench" / "results" / gpu / tables.CHECKS
    if not path.exists():
        return f"No checks in bench/results/{gpu} yet; `make gpu-check` on a machine with a GPU writes them.\n"
    checks = json.loads(path.read_text(encoding="utf-8"))
    parts = ["\n".join(["| check | ran | failed | skipped | errors | commit | date |",
                        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
                        *(line(what, section) for what, section in checks.items())])]
    parts += names(checks, "failed", "Failed") + names(checks, "skipped", "Skipped")
    origins = dict.fromkeys(f"<sub>{section['device']}, driver {section['driver']}</sub>" for section in checks.values())
    return "\n\n".join([*parts, *origins]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=[*SECTIONS, *SANITIZERS, "page"])
    parser.add_argument("source", nargs="?", type=pathlib.Path)
    for name in "--gpu", "--device", "--driver":
        parser.add_argument(name)
    parser.add_argument("--commit", default="")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    arguments = parser.parse_args()
    if arguments.what == "page":
        return tables.rewrite_parts(arguments, "checks.py page", FILE, PART,
                                    "'<!-- checks: GPU -->' with an '<!-- end of checks -->'",
                                    lambda part: render(arguments.root, part["gpu"]))
    if not (arguments.source and arguments.gpu and arguments.device and arguments.driver):
        parser.error(f"{arguments.what} needs what was written, --gpu, --device and --driver")
    return record(arguments)


if __name__ == "__main__":
    sys.exit(main())
