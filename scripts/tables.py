#!/usr/bin/env python3
"""Writes the benchmark tables of README.md and docs/*.md from bench/results/<gpu>/*.json.

Usage: tables.py [--check] [--root FOLDER]
A table stands between two comments and is rewritten whole:

    <!-- table: launch@h200 name=graph, median, spread, baseline=raw CUDA, ratio -->
    <!-- end -->

`launch` is the "bench" field of a result, `launch+replay` puts two below each other, `launch?` may have no result yet,
`@h200` (optional) is the folder under bench/results. `"name"` (optional) leaves only the rows of that name, and then
`[key=value]` (optional) only those with that parameter. The columns (optional) are separated by commas, each with an optional
heading after `=`: name, median, spread (p10 to p90), baseline, ratio, floor, fraction, device, or a key of the rows'
params. A row that missed its gate is marked, with a line under the table that says what the mark means;
bench/known_misses.json has the reasons that are known. --check writes nothing and fails where a table is stale.
"""
import argparse
import json
import pathlib
import re
import sys

TABLE = re.compile(r"(?P<open><!-- table: (?P<what>[^\s@]+)(?:@(?P<gpu>\S+))?"
                   r"(?: \"(?P<only>[^\"\n]*)\")?(?: \[(?P<key>\w+)=(?P<value>[^\]\n]*)\])?(?P<columns>[^\n]*?)-->\n)"
                   r"(?P<body>.*?)(?P<close><!-- end -->)", re.DOTALL)
DEFAULT_COLUMNS = ["name", "median", "spread", "baseline", "ratio", "floor", "fraction"]
HEADINGS = {"name": "", "spread": "p10 – p90"}
CHECKS = "checks.json"  # written by checks.py, beside the results
MEANING = ("**missed**: the figure does not meet the project's gate. A benchmark with a miss that is not known yet runs again, "
           "up to three times in all, and a gate is missed where every run missed it; the figure is the first run's. A miss "
           "without a number of runs is from a single run.")


class Stale(Exception):
    pass


def number(value):
    """Three significant digits, without an exponent."""
    if isinstance(value, str):
        return value
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) < 0.001:
        return f"{value:.2e}"
    digits = 2 if abs(value) < 10 else 1
    while abs(value) < 10 ** (2 - digits) and digits < 6:
        digits += 1
    return f"{value:.{digits}f}"


def meets_limit(row):
    if "meets_limit" in row:
        return row["meets_limit"]
    if "limit" not in row:
        return True
    return row["median"] >= row["limit"] if row.get("is_rate") else row["median"] <= row["limit"]


def outcome(row):
    """Whether a row's gate held or was missed, and in how many runs."""
    of_runs = f"in {row['runs_missed']} of {row['runs']} runs" if row.get("runs_missed") else ""
    if meets_limit(row):
        return f"held, missed {of_runs}" if of_runs else "held"
    return f"**missed** {of_runs}".strip()


def gate_mark(row, column):
    """The mark behind the figure of a row that missed its gate in some run; empty for others."""
    if meets_limit(row) and not row.get("runs_missed"):
        return ""
    if column == "ratio":
        limit, digits = row["limit"] / row["baseline"], 2
        while digits < 6 and f"{limit:.{digits}f}" == f"{row['ratio']:.{digits}f}":
            digits += 1
        figure = f"{row['ratio']:.{digits}f}×, " if digits > 2 else ""
        return f" ({figure}gate {limit:.{digits}f}× {outcome(row)})"
    return f" (gate {number(row['limit'])} {row['unit']} {outcome(row)})"


def known_misses(root):
    path = root / "bench" / "known_misses.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def meaning_of_marks(results, known):
    """The lines under a table with marked rows: the meaning of the mark, and the known reasons."""
    if not any("missed" in outcome(row) for result in results for row in result["rows"]):
        return []
    reasons = []
    for entry in known:
        covers = lambda result, row: (
            (entry["bench"], entry["device"], entry["row"]) == (result["bench"], result["device"], row["name"])
            and entry["params"].items() <= row.get("params", {}).items() and not meets_limit(row))
        if any(covers(result, row) for result in results for row in result["rows"]):
            which = ", ".join([entry["row"], *(f"{key} {value}" for key, value in entry["params"].items())])
            reasons.append(f"- known miss since {entry['since']}: {which}. {entry['reason']}")
    return [MEANING, *(["", *reasons] if reasons else [])]


def cell(row, result, column):
    unit = row.get("unit", "")
    if column == "name":
        return row["name"]
    if column == "device":
        return result["device"]
    if column == "spread":
        return f"{number(row['p10'])} – {number(row['p90'])} {unit}" if "p10" in row and "p90" in row else ""
    if column in ("median", "p10", "p90", "baseline", "floor"):
        return f"{number(row[column])} {unit}".strip() if column in row else ""
    if column == "ratio":
        return f"{row['ratio']:.2f}×" if "ratio" in row else ""
    if column == "fraction":
        return f"{100 * row['fraction']:.0f} %" if "fraction" in row else ""
    if column in row.get("params", {}):
        value = row["params"][column]
        if isinstance(value, bool):
            return "yes" if value else "no"
        return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)
    return ""


def columns_of(text, results):
    asked = [part.strip() for part in text.split(",") if part.strip()]
    if asked:
        pairs = [(part.split("=", 1) + [None])[:2] for part in asked]
    else:
        rows = [row for result in results for row in result["rows"]]
        present = lambda column: any(cell(row, result, column) for result in results for row in result["rows"])
        params = list(dict.fromkeys(key for row in rows for key in row.get("params", {})))
        names = DEFAULT_COLUMNS[:1] + params + DEFAULT_COLUMNS[1:]
        pairs = [(name, None) for name in names if present(name)]
    if len({result["device"] for result in results}) > 1 and not any(name == "device" for name, _ in pairs):
        pairs.insert(0, ("device", None))
    known = set(DEFAULT_COLUMNS) | {"p10", "p90", "device"}
    for result in results:
        for row in result["rows"]:
            known |= set(row.get("params", {}))
    for name, _ in pairs:
        if name.strip() not in known:
            raise Stale(f"no row of {results[0]['bench']} has a column '{name.strip()}'; there is {', '.join(sorted(known))}")
    return [(name.strip(), HEADINGS.get(name.strip(), name.strip()) if title is None else title.strip())
            for name, title in pairs]


def render(results, columns, known):
    pairs = columns_of(columns, results)
    names = [name for name, _ in pairs]
    lines = ["| " + " | ".join(title for _, title in pairs) + " |",
             "|" + "|".join(" --- " if name in ("name", "device") else " ---: " for name, _ in pairs) + "|"]
    for result in results:
        for row in result["rows"]:
            cells = {name: cell(row, result, name) for name in names}
            marked = next((name for name in ("ratio", "median", "name") if cells.get(name)), names[0])
            cells[marked] += gate_mark(row, marked)
            lines.append("| " + " | ".join(cells[name].replace("|", "\\|") for name in names) + " |")
    lines.append("")
    if meaning := meaning_of_marks(results, known):
        lines += [*meaning, ""]
    for result in results:
        said = [result["device"]]
        said += [f"{key} {result[key]}" for key in ("driver", "commit") if result.get(key)]
        said += [result["date"]] if result.get("date") else []
        line = f"<sub>{', '.join(said)}</sub>"
        if line not in lines:
            lines.append(line)
    return "\n".join(lines) + "\n"


def load(root):
    found = []
    for path in sorted((root / "bench" / "results").glob("*/*.json")):
        if path.name == CHECKS:
            continue
        try:
            result = json.loads(path.read_text(encoding="utf-8"))
            result["bench"], result["device"], result["rows"]  # every result has these fields
        except (ValueError, KeyError, TypeError) as error:
            sys.exit(f"{path.relative_to(root)}: not a benchmark result: {error!r}")
        if result.get("is_quick"):
            sys.exit(f"{path.relative_to(root)}: measured with --quick, which is too little to publish")
        found.append((path.parent.name, result))
    return found


def arguments_of(description):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a file is stale")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    return parser.parse_args()


def write_file(arguments, file, text, complaint):
    """Writes `text` to `file`. With --check it fails with `complaint` if they differ."""
    path = arguments.root / file
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    if arguments.check:
        sys.exit(f"{file}: {complaint}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    print(f"{file}: written")


def rewrite_parts(arguments, script, file, pattern, marks, body_of):
    """Puts body_of(match) between `marks`, which `pattern` finds in `file`."""
    path = arguments.root / file
    text = path.read_text(encoding="utf-8")
    if not pattern.search(text):
        sys.exit(f"{file}: no {marks}")
    rewritten = pattern.sub(lambda part: part["open"] + body_of(part) + part["close"], text)
    if rewritten == text:
        return
    if arguments.check:
        sys.exit(f"{file}: differs from bench/results; run scripts/{script}")
    path.write_text(rewritten, encoding="utf-8")
    print(f"{file}: written")


def rewrite_page(script, description, file, pattern, marks, body_of):
    """The main function of other scripts: puts body_of(match, results, root) between `marks`, which `pattern` finds."""
    arguments = arguments_of(description)
    found = load(arguments.root)
    rewrite_parts(arguments, script, file, pattern, marks, lambda part: body_of(part, found, arguments.root))


def is_asked_for(row, match):
    if match["only"] is not None and row["name"] != match["only"]:
        return False
    return not match["key"] or str(row.get("params", {}).get(match["key"])) == match["value"]


def asked_for(match):
    name = "" if match["only"] is None else f"'{match['only']}'"
    return f"{name} [{match['key']}={match['value']}]".strip() if match["key"] else name


def rewrite(text, found, known):
    def table(match):
        results = []
        for asked in match["what"].split("+"):
            bench = asked.removesuffix("?")
            wanted = [result for gpu, result in found if result["bench"] == bench and match["gpu"] in (None, gpu)]
            if not wanted and asked != bench:
                continue
            if not wanted:
                where = match["gpu"] or "*"
                raise Stale(f"no result of '{bench}' in bench/results/{where}")
            wanted = [{**result, "rows": [row for row in result["rows"] if is_asked_for(row, match)]} for result in wanted]
            if not any(result["rows"] for result in wanted):
                raise Stale(f"no row {asked_for(match)} in the results of '{bench}'")
            results += wanted
        body = render(results, match["columns"], known) if results else "Not measured yet.\n"
        return match["open"] + body + match["close"]

    rewritten = TABLE.sub(table, text)
    if len(TABLE.findall(text)) != len(re.findall(r"^<!-- table: ", text, re.MULTILINE)):
        raise Stale("a '<!-- table: ... -->' has no '<!-- end -->'")
    return rewritten


def main():
    arguments = arguments_of(__doc__)
    found, known = load(arguments.root), known_misses(arguments.root)
    stale = []
    for path in [arguments.root / "README.md", *sorted((arguments.root / "docs").glob("*.md"))]:
        if not path.exists():
            continue
        name = path.relative_to(arguments.root)
        text = path.read_text(encoding="utf-8")
        try:
            rewritten = rewrite(text, found, known)
        except Stale as error:
            stale.append(f"{name}: {error}")
            continue
        if rewritten == text:
            continue
        if arguments.check:
            stale.append(f"{name}: tables differ from bench/results; run scripts/tables.py")
        else:
            path.write_text(rewritten, encoding="utf-8")
            print(f"{name}: tables written")
    for line in stale:
        print(line)
    sys.exit(1 if stale else 0)


if __name__ == "__main__":
    main()
