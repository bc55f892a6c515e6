"""Checks of single values in a site profile: each takes a TOML value and returns the value for a Site."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from hpcmod.core.values.compression import ANY_OF, NAMES, is_compression
from hpcmod.core.values.shape import (
    TEXT,
    Check,
    Shape,
    list_shape,
    object_shape,
    shape_of,
    shaped,
    table_shape,
    text_shape,
)
from hpcmod.core.values.text import check_plain
from hpcmod.core.values.trust import (
    NAMED_NEEDS,
    OTHER_NEED,
    TrustRule,
    parse_keys,
    parse_needs,
    parse_root,
    parse_rules,
    parse_signers,
)
from hpcmod.machine.values.bind import Bind
from hpcmod.machine.values.condition import ALWAYS, Condition
from hpcmod.machine.values.site import IN_CONTAINER, LAUNCHERS, Tunable
from hpcmod.machine.values.sources import ProfileSource
from hpcmod.machine.values.tables import Binds
from hpcmod.machine.values.targets import GPU_TARGET

_ABOVE_0 = {"type": "number", "exclusiveMinimum": 0}
_NODES = text_shape("[1-9][0-9]{0,5}")


@shaped(TEXT)
def check_text(value: Any) -> str:
    """Validate a non-empty string of one line."""
    if not isinstance(value, str) or not value:
        raise ValueError("must be a non-empty string" + ("" if value == "" else f" in quotes, found {value!r}"))
    return check_plain(value, "the string")


@shaped(text_shape(r"[^\x00-\x1f\x7f]*"))
def text_or_nothing(value: Any) -> str:
    """Validate a string of one line, which may be empty."""
    return "" if value == "" else check_text(value)


@shaped(TEXT)
def source(value: Any) -> str:
    """Validate a source of values."""
    return str(ProfileSource.parse(check_text(value)))


@shaped(list_shape(TEXT))
def texts(value: Any) -> tuple[str, ...]:
    """Validate a list of strings."""
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise ValueError("must be a list of strings")
    return tuple(check_text(item) for item in value)


def matching(pattern: str, form: str) -> Check:
    """Return a check for a string of one line that matches a regular expression, which `form` describes to people."""

    @shaped(text_shape(pattern))
    def check(value: Any) -> str:
        if not re.fullmatch(pattern, check_text(value)):
            raise ValueError(f"must be {form}, found {value!r}")
        return str(value)

    return check


def list_of(check: Check) -> Check:
    """Return a check for a list of strings that each pass a check."""

    @shaped(list_shape(shape_of(check)))
    def check_all(value: Any) -> tuple[Any, ...]:
        return tuple(check(item) for item in texts(value))

    return check_all


tried = matching(
    r"rendered only|run (on a stand-in|by hpcmod's tests)|reported by a user on \d{4}-\d\d-\d\d",
    "`rendered only`, `run on a stand-in`, `run by hpcmod's tests`, or `reported by a user on YYYY-MM-DD`",
)
slurm_release = matching(r"\d\d\.\d\d", "a release such as 24.11")
option = matching("-.*", "an option, which begins with -")
options = list_of(option)
host_suffix = matching(
    r"[A-Za-z0-9-]*[A-Za-z0-9](\.[A-Za-z0-9-]*[A-Za-z0-9])*", "the end of a host name, such as i or -ib.cluster"
)
path = matching("/.*", "an absolute path")
paths = list_of(path)
place = matching(r"(/|\$\{?[A-Za-z_]).*", "an absolute path or begin with a variable")
places = list_of(place)
host_commands = list_of(
    matching(r"(/([A-Za-z0-9_.+-]+/)*)?[A-Za-z0-9_][A-Za-z0-9_.+-]*", "names or absolute paths of commands")
)
variable_patterns = list_of(matching(r"[A-Za-z_][A-Za-z0-9_]*\*?", "names of variables, `*` only at the end"))
gpu_targets = list_of(matching(GPU_TARGET, "words such as gfx90a or sm_90"))
_LAYOUT = r"(-[cES]|--stripe-count|--component-end|--stripe-size) (-1|\d+[kMG]?|eof)|(-p|--pool) \w[\w.-]*"
striping = matching(rf"({_LAYOUT})( ({_LAYOUT}))*", "-c, -S, -E or -p of `lfs setstripe`, each with its value")


@shaped({"type": "integer", "minimum": 0})
def count(value: Any) -> int:
    """Validate a non-negative integer."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"must be a non-negative integer, found {value!r}")
    return value


@shaped(text_shape(r" *[0-9]{1,5}(-[0-9]{1,5})? *(, *[0-9]{1,5}(-[0-9]{1,5})? *)*"))
def cores(value: Any) -> tuple[int, ...]:
    """Validate core numbers in Linux notation: `0-6` or `0,8,16-17`."""
    numbers: list[int] = []
    for part in check_text(value).split(","):
        ends = re.fullmatch(r" *(\d{1,5})(?:-(\d{1,5}))? *", part)
        if not ends or int(ends[2] or ends[1]) < int(ends[1]):
            raise ValueError(f"must be core numbers such as 0-6 or 0,8,16-17, found {value!r}")
        numbers.extend(range(int(ends[1]), int(ends[2] or ends[1]) + 1))
    return tuple(numbers)


cores_by_gpu = list_of(cores)


def one_of(*words: str) -> Check:
    """Return a check for one of these words."""

    @shaped({"enum": words})
    def check(value: Any) -> str:
        if value not in words:
            raise ValueError(f"must be one of {', '.join(words)}, found {value!r}")
        return str(value)

    return check


def some_of(*words: str) -> Check:
    """Return a check for a list of these words."""
    return list_of(one_of(*words))


job_options = some_of("account", "qos", "time", "partition", "constraint")
"""Validate a list of options of sbatch that the user must give."""


@shaped({"anyOf": [_ABOVE_0, table_shape(_ABOVE_0, _NODES)]})
def hours(value: Any) -> tuple[tuple[int, float], ...]:
    """Validate a number of hours, or a table of these by the smallest number of nodes that each applies to."""
    parsed = []
    for nodes, item in (value if isinstance(value, dict) else {"1": value}).items():
        number = isinstance(item, (int, float)) and not isinstance(item, bool) and item > 0
        if not (number and re.fullmatch(r"[1-9]\d{0,5}", nodes)):
            raise ValueError(f"must be hours, or a table of NODES = HOURS, found {value!r}")
        parsed.append((int(nodes), float(item)))
    return tuple(sorted(parsed))


variable_name = matching("[A-Za-z_][A-Za-z0-9_]*", "the name of an environment variable")
variable_names = list_of(variable_name)


_BINDS = list_shape({"anyOf": [TEXT, list_shape(TEXT)]})


def binds(*, required: bool) -> Check:
    """Return a check for a list of bind paths; a nested list contains alternatives."""

    @shaped(_BINDS)
    def check(value: Any) -> Binds:
        if not isinstance(value, list):
            raise ValueError("must be a list of bind paths, or of lists of alternatives")
        groups = (texts(item) if isinstance(item, list) else (check_text(item),) for item in value)
        return tuple(tuple(Bind.parse(item, required=required) for item in group) for group in groups if group)

    return check


@shaped(table_shape(_BINDS))
def binds_by_condition(value: Any) -> tuple[tuple[Condition, Binds], ...]:
    """Validate a table of optional bind paths by the condition that the image must satisfy."""
    conditions = []
    for text, item in _table(value).items():
        with _naming(text):
            condition = Condition.parse(text)
            if not condition.bounds or condition.multi_node or condition.single_node:
                raise ValueError("must be about the image, such as rocm<6.2")
            conditions.append((condition, binds(required=False)(item)))
    return tuple(conditions)


@shaped(list_shape(text_shape("/[^:,]*")))
def library_directories(value: Any) -> tuple[Bind, ...]:
    """Validate a list of library directories, or glob patterns, to be bound to one path."""
    for item in paths(value):
        if re.search(r"[:,]", item):
            raise ValueError(f"must be paths without colons and commas, found {item!r}")
    return tuple(Bind.parse(f"{item}:{IN_CONTAINER}") for item in value)


library_places = list_of(matching("/[A-Za-z0-9/._+-]*", "paths that contain only letters, digits and /._+-"))
"""Container directories; their names become part of a string that a shell there evaluates."""


def _table(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError('must be a table of NAME = "value"')
    return value


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Add the name of a variable to the error about its value."""
    try:
        yield
    except ValueError as err:
        raise ValueError(f"{name}: {err}") from err


_CASE = object_shape({"value": TEXT, "when": TEXT, "why": TEXT}, "value")
_CASES = [{"const": False}, TEXT, _CASE, list_shape({"anyOf": [TEXT, _CASE]}, least=1)]


@shaped(table_shape({"anyOf": _CASES}, shape_of(variable_name)))
def tunables(value: Any) -> tuple[tuple[str, tuple[Tunable, ...]], ...]:
    """Validate a table of variables: a string, a table with a condition, a list of these, or false to unset."""
    parsed = []
    for name, item in _table(value).items():
        variable_name(name)
        with _naming(name):
            parsed.append((name, _cases(name, item)))
    return tuple(parsed)


def _cases(name: str, item: Any) -> tuple[Tunable, ...]:
    """Validate the cases of one variable, of which the first that holds is used."""
    if item is False:
        return ()
    cases = tuple(_tunable(name, case) for case in (item if isinstance(item, list) else [item]))
    by_nodes = {case.condition.multi_node or case.condition.single_node for case in cases}
    if not cases or len(by_nodes) > 1:  # at load, modules set cases without a node condition
        raise ValueError("either every case of a list says multi-node or single-node, or none does")
    return cases


def _tunable(name: str, item: Any) -> Tunable:
    if not isinstance(item, dict):
        return Tunable(name, check_text(item))
    if not {"value"} < set(item) <= {"value", "when", "why"}:
        raise ValueError('must be a string, or { value = "...", when = "...", why = "..." }')
    condition = Condition.parse(check_text(item["when"])) if "when" in item else ALWAYS
    return Tunable(name, check_text(item["value"]), condition, check_text(item["why"]) if "why" in item else "")


def texts_by(check_name: Check) -> Check:
    """Return a check for a table of strings, by names that a check accepts."""

    @shaped(table_shape(TEXT, shape_of(check_name)))
    def check(value: Any) -> tuple[tuple[str, str], ...]:
        for name, item in _table(value).items():
            check_name(name)
            with _naming(name):
                check_text(item)
        return tuple(value.items())

    return check


variables = texts_by(variable_name)
"""Validate a table of environment variables."""

reasons = texts_by(one_of(*LAUNCHERS))
"""Validate a table of launchers, each with a reason."""


_RATE: Shape = {"type": "number"}
_SIZED = object_shape({"busbw": _RATE, "bytes": shape_of(count)}, "busbw", "bytes")


@shaped(table_shape({"anyOf": [_RATE, _SIZED]}, _NODES))
def bandwidths(value: Any) -> tuple[tuple[int, tuple[float, int]], ...]:
    """Validate a table of node counts, each with GB/s, or with GB/s and the message size in bytes."""
    parsed = []
    for nodes, item in _table(value).items():
        rate, size = (item.get("busbw"), item.get("bytes")) if isinstance(item, dict) else (item, 0)
        whole = isinstance(size, int) and not isinstance(size, bool) and size >= 0
        known = not isinstance(item, dict) or set(item) == {"busbw", "bytes"}
        number = isinstance(rate, (int, float)) and not isinstance(rate, bool)
        if not (re.fullmatch(r"[1-9]\d{0,5}", nodes) and number and whole and known):
            raise ValueError(
                f"must be a table of NODES = GB/s, or NODES = {{ busbw = GB/s, bytes = N }}, found {nodes} = {item!r}"
            )
        parsed.append((int(nodes), (float(str(rate)), int(str(size)))))
    return tuple(parsed)


needs = shaped(list_shape({"anyOf": [{"enum": NAMED_NEEDS}, text_shape(OTHER_NEED)]}))(parse_needs)
keys = shaped(list_shape(text_shape("/.*")))(parse_keys)
signers = shaped(list_shape(object_shape({"identity": TEXT, "issuer": TEXT}, "identity", "issuer")))(parse_signers)
trusted_root = shaped(text_shape("/.*"))(parse_root)
_RULE = {
    "source": TEXT,
    "needs": shape_of(needs),
    "keys": shape_of(keys),
    "identities": list_shape(TEXT),
    "signers": shape_of(signers),
    "trusted_root": shape_of(trusted_root),
}


@shaped(list_shape(object_shape(_RULE, "source", "needs")))
def rules(value: Any) -> tuple[TrustRule, ...]:
    """Validate a list of tables, each a trust rule."""
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ValueError("must be a list of tables")
    return parse_rules(value)


@shaped(text_shape(rf"({'|'.join(NAMES)})(:[0-9]{{1,2}})?"))
def compression(value: Any) -> str:
    """Validate the name of a compressor, optionally followed by a colon and a level."""
    if not is_compression(check_text(value)):
        raise ValueError(f"must be {ANY_OF}, optionally with :LEVEL, found {value!r}")
    return str(value)
