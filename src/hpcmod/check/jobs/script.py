"""Read a batch script as a shell does: #SBATCH lines, and commands as words with the line each stands in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_CLOSING = {"'": "'", '"': '"', "`": "`", "(": ")"}
_BREAK = re.compile(r"&&|\|\||;;|\|&|[\n;|&()]")
_REDIRECTION = re.compile(r"(?:\d+|&)?(?:>>|>\||>&|<&|<>|<<<|<<-?|>|<)")
_QUOTED = re.compile(r"\\\n|'([^']*)'|\"((?:[^\"\\]|\\.)*)\"|\\(.)", re.DOTALL)
_BLANK = re.compile(r"(?:[ \t\r]|\\[ \t\r]*\n)+")
_DIRECTIVE = "#SBATCH"


@dataclass(frozen=True)
class Word:
    """One word of a shell as it is written, quotes and all."""

    text: str
    line: int

    @property
    def plain(self) -> str:
        """The word without its quotes; what it expands to is not known."""
        return _QUOTED.sub(lambda found: found[1] or found[2] or found[3] or "", self.text)


@dataclass(frozen=True)
class Command:
    """A simple command: words up to the next separator."""

    words: tuple[Word, ...]
    background: bool = False
    """It ends with `&`."""


@dataclass(frozen=True)
class Option:
    """An option by its long name without dashes, e.g. nodes; of one without a value the value is empty."""

    name: str
    value: str
    line: int


@dataclass(frozen=True)
class BatchScript:
    """A batch script, read."""

    lines: tuple[str, ...]
    options: tuple[Option, ...]
    """Of the #SBATCH lines that sbatch reads: those before the first command."""
    late: tuple[int, ...]
    """Numbers of the #SBATCH lines after it, which it does not read."""
    commands: tuple[Command, ...]


SLURM_SHORT = {
    "A": "account", "C": "constraint", "D": "chdir", "G": "gpus", "J": "job-name", "N": "nodes", "c": "cpus-per-task",
    "d": "dependency", "e": "error", "m": "distribution", "n": "ntasks", "o": "output", "p": "partition", "q": "qos",
    "t": "time", "w": "nodelist", "x": "exclude", "a": "array", "i": "input", "L": "licenses", "T": "threads",
}  # fmt: skip
"""Options of srun and sbatch with a value, by letter (srun(1), sbatch(1) of Slurm 22.05)."""

SLURM_FLAGS = {
    "exclusive", "label", "unbuffered", "kill-on-bad-exit", "overlap", "pty", "verbose", "quiet", "no-kill",
    "contiguous", "hold", "immediate", "multi-prog", "spread-job", "use-min-nodes", "disable-status", "test-only",
    "exact", "whole", "interactive", "x11", "propagate", "requeue", "no-requeue", "parsable", "preserve-env",
    "oversubscribe", "wait-all-nodes", "get-user-env", "reboot",
}  # fmt: skip
"""Long options of srun and sbatch whose value, if they take one, must follow an `=`."""

RUNTIME_SHORT = {"B": "bind", "H": "home", "S": "scratch", "W": "workdir", "o": "overlay"}
RUNTIME_FLAGS = {
    "nv", "nvccli", "rocm", "cleanenv", "contain", "containall", "no-home", "writable", "writable-tmpfs",
    "fakeroot", "userns", "ipc", "pid", "net", "uts", "no-privs", "keep-privs", "compat", "no-init", "no-umask",
    "no-eval", "disable-cache", "no-tmp", "quiet", "silent", "debug", "verbose", "nocolor", "allow-setuid",
    "no-pid", "sharens", "no-compat", "docker-login", "no-https", "oom-kill-disable", "passphrase", "unsquash",
    "oci", "no-tmp-sandbox", "keep-layers",
}  # fmt: skip
"""Options of `singularity exec` and `apptainer exec` that take no value (1.4.5, and SingularityCE 4)."""
RUNTIME_LETTERS = {"e": "cleanenv", "c": "contain", "C": "containall", "w": "writable"}


def read_batch_script(text: str) -> BatchScript:
    """Read a batch script; whatever the text, it never fails."""
    lines = tuple(text.split("\n"))
    first = _first_command(lines)
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line.startswith(_DIRECTIVE)]
    options = [option for number, line in numbered if number < first for option in _directive_options(line, number)]
    documents = _document_lines(lines)
    late = tuple(number for number, _ in numbered if number > first and number not in documents)
    return BatchScript(lines, tuple(options), late, tuple(read_commands(text)))


def _first_command(lines: Sequence[str]) -> int:
    """Find the first line that is neither empty nor a comment: there sbatch stops reading options."""
    return next((n for n, line in enumerate(lines, 1) if line.strip() and line.lstrip()[0] != "#"), len(lines) + 1)


_DOCUMENT = re.compile(r"(?<!<)<<-?\s*[\"']?([A-Za-z_]\w*)")


def _document_lines(lines: Sequence[str]) -> set[int]:
    """Find the lines of here-documents: a script may write another one."""
    inside, ends = set[int](), list[str]()
    for number, line in enumerate(lines, 1):
        if ends:
            inside.add(number)
            if line.lstrip("\t") == ends[0]:
                del ends[0]
        elif not re.match(r"\s*#|.*\(\(", line):  # in arithmetic << is no here-document
            ends = [found[1] for found in _DOCUMENT.finditer(line)]
    return inside


def _directive_options(line: str, number: int) -> tuple[Option, ...]:
    text = line[len(_DIRECTIVE) :].partition("#")[0]
    words = [Word(word.text, number) for command in read_commands(text) for word in command.words]
    return read_options(words, SLURM_SHORT, SLURM_FLAGS)[0]


def read_options(
    words: Sequence[Word], short: dict[str, str], flags: set[str], letters: dict[str, str] | None = None
) -> tuple[tuple[Option, ...], tuple[Word, ...]]:
    """Split words into options and what comes after them.

    Parameters
    ----------
    short
        Names of the one-letter options that take a value.
    flags
        Names of the long options that take none; all others do.
    letters
        Names of the one-letter options that take none.
    """
    options: list[Option] = []
    left = list(words)
    while left and left[0].plain.startswith("-") and left[0].plain != "--":
        word = left.pop(0)
        name, equals, value = word.plain.lstrip("-").partition("=")
        if not word.plain.startswith("--"):
            letter, rest = word.plain[1:2], word.plain[2:]
            name = short.get(letter) or (letters or {}).get(letter, letter)
            value, equals = (rest, rest) if letter in short else ("", "=")
        if not equals and name not in flags and left:
            value = left.pop(0).plain
        options.append(Option(name, value, word.line))
    return tuple(options), tuple(left[1:] if left and left[0].plain == "--" else left)


def read_commands(text: str) -> Iterator[Command]:
    """Cut a text of shell into simple commands; comments, redirections and here-documents are left out."""
    words: list[Word] = []
    for kind, piece, line in _tokens(text):
        if kind == "word":
            words.append(Word(piece, line))
        elif words:
            yield Command(tuple(words), background=piece == "&")
            words = []
    if words:
        yield Command(tuple(words))


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield words and breaks: kind, text, line."""
    at, line, ends = 0, 1, list[str]()
    while at < len(text):
        start = at
        if blank := _BLANK.match(text, at):
            at = blank.end()
        elif text[at] == "#":
            at = _line_end(text, at)
        elif redirected := _REDIRECTION.match(text, at):
            at, delimiter = _skip_target(text, redirected.end())
            ends += [delimiter] if redirected[0].endswith(("<<", "<<-")) else []
        elif broken := _BREAK.match(text, at):
            at = broken.end()
            yield "break", broken[0], line
            if broken[0] == "\n" and ends:
                at = _skip_documents(text, at, ends)
                ends = []
        else:
            at = _word_end(text, at)
            yield "word", text[start:at], line
        line += text.count("\n", start, at)


def _line_end(text: str, at: int) -> int:
    found = text.find("\n", at)
    return len(text) if found < 0 else found


def _skip_target(text: str, at: int) -> tuple[int, str]:
    """Skip the blanks and the word after a redirection; return where it ends, and the word without quotes."""
    while at < len(text) and text[at] in " \t":
        at += 1
    end = _word_end(text, at) if at < len(text) and not _BREAK.match(text, at) else at
    return max(end, at), Word(text[at:end], 0).plain


def _skip_documents(text: str, at: int, ends: Sequence[str]) -> int:
    for delimiter in ends:
        found = re.compile(rf"^\t*{re.escape(delimiter)}$", re.MULTILINE).search(text, at)
        at = min(found.end() + 1, len(text)) if found else len(text)
    return at


def _word_end(text: str, at: int) -> int:
    """Return where the word ends that begins here: at least one character further."""
    start = at
    while at < len(text) and not (text[at] in " \t\r\n;|&()<>" and at > start):
        if text[at] == "\\":
            at += 2
        elif text[at] in "'\"`" or text.startswith(("$(", "${"), at):
            at = _closed(text, at)
        else:
            at += 1
    return min(at, len(text))


def _closed(text: str, at: int) -> int:
    """Return where what is opened here is closed: quotes, $(...), ${...} and whatever is within them."""
    if text[at] == "$":
        at += 1
    inside = [_CLOSING.get(text[at], "}")]
    at += 1
    while inside and at < len(text):
        char, now = text[at], inside[-1]
        if char == "\\" and now != "'":
            at += 1
        elif char == now:
            inside.pop()
        elif now != "'" and (char == "`" or (char in "(\"'" and now != '"')):
            inside.append(_CLOSING[char])
        elif now == '"' and text.startswith(("$(", "${"), at):
            inside.append(")" if text[at + 1] == "(" else "}")
            at += 1
        at += 1
    return min(at, len(text))
