#!/usr/bin/env python3
"""Random answers that attacca's grammars allow, checked by Python's jsonschema, formats included.

The tests of tests/grammar write the answers, a line of JSON each: a schema and a text.

    apt install python3-jsonschema
    python3 tests/oracle/grammar_jsonschema.py build/host/tests/grammar_tests

Exits with 0 if every text is valid, 1 if one is not, 77 if jsonschema is missing. CTest runs it as grammar_oracle.
"""
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SKIPPED = 77
REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent


def without_repeats(pairs):
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        raise ValueError(f"a key is there twice: {names}")
    return dict(pairs)


def validator_class(jsonschema):
    def pattern(_, expression, value, __):
        """As ECMA-262 means it: \\w is ASCII, and $ is the end."""
        expression = re.sub(r"(?<!\\)\$", r"\\Z", expression.replace("(?<", "(?P<"))
        if isinstance(value, str) and not re.search(expression, value, re.ASCII):
            yield jsonschema.ValidationError(f"{value!r} does not match {expression!r}")

    return jsonschema.validators.extend(jsonschema.Draft202012Validator, {"pattern": pattern})


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.strip())
    try:
        import jsonschema
    except ImportError:
        print("skipped: Python has no jsonschema; install what Debian calls python3-jsonschema")
        sys.exit(SKIPPED)
    kind = validator_class(jsonschema)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "texts"
        done = subprocess.run([pathlib.Path(sys.argv[1]).resolve(), "--gtest_filter=Schema.random_texts*"],
                              env=os.environ | {"ATTACCA_GRAMMAR_TEXTS": str(path)}, cwd=REPOSITORY,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            sys.exit(f"the tests failed:\n{done.stdout[-4000:]}")
        lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    failures, checked = 0, collections.Counter()
    for line in lines:
        case = json.loads(line)
        checked[case["name"]] += 1
        try:
            value = json.loads(case["text"], object_pairs_hook=without_repeats)
            validator = kind(case["schema"], format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
            problem = next(validator.iter_errors(value), None)
        except ValueError as error:
            problem = error
        if problem is not None:
            failures += 1
            print(f"{case['name']}: {case['text']}: {str(problem).splitlines()[0]}")
    print(f"{len(lines)} texts of {len(checked)} schemas, {failures} of them not valid")
    sys.exit(1 if failures or len(checked) < 200 else 0)


if __name__ == "__main__":
    main()
