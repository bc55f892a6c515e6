"""Make the summary of start-report from lines of the batch script, the nodes and the scheduler on stdin.

Runs with the host's Python (3.6 or later) and nothing else.
"""

import re
import sys
import time

MOST_LINES = 200000


def read_lines(lines):
    """Return marks of the batch script, records of the ranks, and rows of the scheduler."""
    marks, records, job, usage = [], [], {}, []
    for number, line in enumerate(lines):
        kind, _, rest = line.rstrip("\n").partition(" ")
        if number > MOST_LINES:
            break
        if kind == "times":
            marks = [(name, float(value)) for name, value in re.findall(r"(\w+)=(\d{1,12}(?:\.\d{1,9})?)(?!\S)", rest)]
        elif kind == "rank":
            records.append(parse_record(rest.split(";")))
        elif kind == "usage":
            usage.append(rest.split("|"))
        elif kind == "job":
            job.update(re.findall(r"(\w+)=(\S+)", rest))
    steps = [int(one["step_id"]) for one in records if one.get("step_id", "").isdigit()]
    step = str(max(steps)) if steps else ""
    return marks, [one for one in records if one.get("step_id") == step], job, usage, step


def parse_time(text):
    """Return the seconds since 1970 of a time of the scheduler; None if it is unknown."""
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return None


def tell_queue(job):
    submitted, started = parse_time(job.get("SubmitTime", "")), parse_time(job.get("StartTime", ""))
    if submitted is None or started is None:
        return "unknown"
    clock = "%Y-%m-%d %H:%M:%S"
    at = "submitted %s, started %s" % tuple(time.strftime(clock, time.localtime(one)) for one in (submitted, started))
    return "%.0f (%s)" % (max(started - submitted, 0), at)


def tell_mark(marks, name):
    """Return how long a part of the batch script took: until the next mark."""
    for (mark, begin), (_, end) in zip(marks, marks[1:]):
        if mark == name:
            return show(max(end - begin, 0.0))
    return "not used"


def tell_launch(begin, records):
    """Return the seconds from the step in the batch script to the start of each task, by the clocks of the nodes."""

    def launch(record):
        task, boot = seconds(record, "task"), seconds(record, "boot")
        return None if None in (begin, task, boot) else max(boot + task - begin, 0.0)

    return with_slowest(*spread(records, launch))


def with_slowest(text, slowest):
    where = "; slowest: rank %s on %s" % (slowest.get("rank", "?"), slowest.get("host", "?")) if slowest else ""
    return text + (where if len(set(text.split("/"))) > 1 else "")


def tell_phase(records, title, measure):
    text, slowest = spread(records, measure)
    told = with_slowest(text, slowest)
    packages = name_packages(slowest, 10) if title == "imports" and slowest else ""
    return told + ("; packages: %s" % packages if packages else "")


def tell_gpus(usage, step):
    """Return the use of the GPUs in per cent, as the scheduler's accounting measured it."""
    rows = [row[1] for row in usage if len(row) > 1 and row[0].endswith("." + step)]
    found = re.findall(r"gres/gpuutil=(\d+)", "\n".join(rows))
    return "%s %% on average (accounting)" % found[0] if found else "unknown"


def main():
    me = sys.argv[1]
    marks, records, job, usage, step = read_lines(sys.stdin)
    hosts = set(one.get("host") for one in records)
    head = "%d ranks on %d nodes; seconds: minimum/median/maximum" % (len(records), len(hosts))
    lines = [
        ("queue", tell_queue(job)),
        ("node check", tell_mark(marks, "check")),
        ("staging", tell_mark(marks, "stage")),
        ("launch", tell_launch(dict(marks).get("step"), records)),
    ]
    lines += [(title, tell_phase(records, title, measure)) for title, measure in PHASES]
    lines.append(("GPUs", "utilisation " + tell_gpus(usage, step)))
    sys.stdout.write("%s: %s\n" % (me, head if records else "no rank was measured"))
    for title, text in lines if records else lines[:3]:
        sys.stdout.write("  %-14s%s\n" % (title, text))


main()
