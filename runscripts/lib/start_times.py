def parse_record(lines):
    """Return a record of a rank, of lines `KEY VALUE`, as a dictionary; the last line of a key counts."""
    return dict(line.rstrip("\n").split(" ", 1) for line in lines if " " in line)


def seconds(record, key):
    """Return a time of a record; None if it is missing or not a number."""
    try:
        value = float(record[key].split(" ")[0])
    except (KeyError, ValueError):
        return None
    return value if 0 <= value < 1e12 else None


def took(record, begin, end):
    """Return the seconds between two times of a record; None if one is missing."""
    first, last = seconds(record, begin), seconds(record, end)
    return None if None in (first, last) else max(last - first, 0.0)


PHASES = (
    ("container", lambda record: took(record, "task", "script")),
    ("interpreter", lambda record: took(record, "script", "python")),
    ("imports", lambda record: seconds(record, "imports")),
    # of the optimizer, or else until the first collective
    ("to first step", lambda one: took(one, "task" if "task" in one else "script", "step" if "step" in one else "collective")),
)


def show(value):
    """Return seconds for people."""
    return "%.0f" % value if value >= 100 else "%.1f" % value if value >= 10 else "%.2f" % value


def spread(records, measure):
    """Return minimum, median and maximum over the ranks as text, and the slowest record; None if none has it."""
    found = sorted(((measure(one), number) for number, one in enumerate(records) if measure(one) is not None))
    if not found:
        return "unknown", None
    middle = (found[(len(found) - 1) // 2][0] + found[len(found) // 2][0]) / 2
    text = "/".join(show(value) for value in (found[0][0], middle, found[-1][0]))
    few = "" if len(found) == len(records) else " (%d of %d ranks)" % (len(found), len(records))
    return text + few, records[found[-1][1]]


def name_packages(record, most):
    """Return the packages whose modules took longest to import, with their own seconds."""
    pairs = [pair.partition("=") for pair in record.get("packages", "").split(",") if "=" in pair]
    return ", ".join("%s %s" % (name, took) for name, _, took in pairs[:most])
