"""The command `hpcmod`: find the subcommand, and turn errors into a message and an exit code."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

import hpcmod
from hpcmod.core.cli.groups import LazyGroup
from hpcmod.core.cli.output import CommandFailure, Failure, print_json, print_message, print_text, tell
from hpcmod.core.cli.verbs import FIRST, HEADINGS, HELP_NAMES, RESUMED
from hpcmod.core.errors import ELSEWHERE, INTERRUPTED, SETS_ELSEWHERE, HpcmodError, explain_os_error
from hpcmod.core.log import QUIET, CommandLine, Logger, Traceback, logging_to, read_settings
from hpcmod.core.text.quote import terminal
from hpcmod.core.values.text import without_relative_entries

_LOG = Logger(__name__)

atexit.register(gc.freeze)  # else Python searches all objects for cycles as it ends: a tenth of a short command


class _Hpcmod(LazyGroup):
    """The command `hpcmod`."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> Any:
        """Run a command, print all of its output, and die of Ctrl-C as other programs do, so that shells' loops end."""
        for name in ("stdout", "stderr"):
            if getattr(sys, name) is None:  # closed, as by `hpcmod ls >&-`
                setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - until the end
        try:
            try:
                return self._main(args, *rest, **options)
            finally:
                sys.stdout.flush()
        except OSError as fault:  # the output has no reader, or no space
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else Python tries again as it ends
            if isinstance(fault, BrokenPipeError):
                sys.exit(1)
            tell(f"the output cannot be written: {os.strerror(fault.errno or 0)}")
            sys.exit(explain_os_error(fault).exit_code)
        except SystemExit as end:
            if end.code == INTERRUPTED and args is None:
                signal.signal(signal.SIGINT, signal.SIG_DFL)
                os.kill(os.getpid(), signal.SIGINT)
            raise

    def _main(self, args: Sequence[str] | None, *rest: Any, **options: Any) -> Any:
        """Run a command; with `--json`, errors that click finds on the command line are JSON too."""
        if "PATH" in os.environ:  # also for libraries that look for programs themselves, as click does
            os.environ["PATH"] = without_relative_entries(os.environ["PATH"])
        words = list(sys.argv[1:] if args is None else args)
        if not asks_for_json(self, words):
            return super().main(args, *rest, **options)
        try:
            code = super().main(words, *rest, **{**options, "standalone_mode": False, "obj": _AS_JSON})
        except click.ClickException as fault:
            print_json(CommandFailure(Failure(fault.exit_code, fault.format_message(), "")))
            fault.show()
            sys.exit(fault.exit_code)
        sys.exit(code if isinstance(code, int) else 0)

    def make_context(self, *args: Any, **options: Any) -> click.Context:
        """Parse the command line; control characters are removed from error messages."""
        try:
            return super().make_context(*args, **options)
        except click.ClickException as fault:
            raise _cleaned(fault) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Print an HpcmodError as one message with its cure, and exit with its code."""
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            return super().invoke(ctx)
        except click.ClickException as fault:
            raise _cleaned(fault) from None
        except BrokenPipeError:  # `hpcmod ... | head`: click exits silently, as other programs do
            raise
        except (KeyboardInterrupt, click.Abort) as fault:
            interrupted = isinstance(fault, KeyboardInterrupt) or isinstance(fault.__context__, KeyboardInterrupt)
            self._end(ctx, interrupted)
        except (HpcmodError, OSError) as fault:
            elsewhere = {"install": ELSEWHERE, "add": SETS_ELSEWHERE}.get(ctx.invoked_subcommand or "", "")
            err = explain_os_error(fault, elsewhere) if isinstance(fault, OSError) else fault
            _LOG.debug("exit code %d\n%s", err.exit_code, Traceback())
            if ctx.obj == _AS_JSON:
                print_json(CommandFailure(Failure(err.exit_code, err.message, err.cure)))
            print_message(f"hpcmod: {err.message}", is_error=True)
            if err.cure:
                print_message(err.cure, is_error=True)
            sys.exit(err.exit_code)

    def _end(self, ctx: click.Context, interrupted: bool) -> NoReturn:
        """Say what is left after Ctrl-C, or after a question that was answered with no, and exit."""
        code = INTERRUPTED if interrupted else 1
        resumed = "what is complete is kept; to go on, run the same command again"
        kept = resumed if ctx.invoked_subcommand in RESUMED else "nothing was left behind"
        message = f"interrupted: {kept}" if interrupted else "nothing was changed"
        if ctx.obj == _AS_JSON:
            print_json(CommandFailure(Failure(code, message, "")))
        tell(message)
        sys.exit(code)


def _cleaned(fault: click.ClickException) -> click.ClickException:
    fault.message = terminal(fault.message)  # type: ignore[misc]
    if isinstance(fault, click.FileError):
        fault.ui_filename = terminal(fault.ui_filename)  # type: ignore[misc]
    return fault


_AS_JSON = "as JSON"


def asks_for_json(command: click.Command | None, words: Sequence[str]) -> bool:
    """Return whether `--json` is an option of the called command rather than of a program that it runs."""
    left = list(words)
    while isinstance(command, click.Group):
        while left and left[0].startswith("-"):
            del left[: 1 + _count_values(command, left[0])]
        if not left:
            return False
        command = command.get_command(click.Context(command), left.pop(0))
    ours = left[: left.index("--")] if "--" in left else left
    return "--json" in ours and (command is None or any(parameter.name == "as_json" for parameter in command.params))


def _count_values(command: click.Command, word: str) -> int:
    """Return how many words after an option are its values."""
    options = (option for option in command.params if isinstance(option, click.Option))
    return next((option.nargs for option in options if word in option.opts and not (option.is_flag or option.count)), 0)


@click.group(
    cls=_Hpcmod,
    headings=dict(zip(HEADINGS, HEADINGS)),
    invoke_without_command=True,
    context_settings={"help_option_names": HELP_NAMES},
)
@click.option("-v", "--verbose", count=True, help="Log actions to stderr; -vv: also requests, programs, locks.")
@click.option("-q", "--quiet", is_flag=True, help="Print only errors on stderr: no messages, no progress.")
@click.option("--log-file", default="", metavar="FILE", help="File to append the full log to.")
@click.version_option(hpcmod.__version__, "-V", "--version", prog_name="hpcmod")
@click.pass_context
def main(ctx: click.Context, verbose: int, quiet: bool, log_file: str) -> None:
    """Container images as modules that a supercomputer's users can load.

    \b
    Examples:
      hpcmod install PyTorch-2.7.1-rocm-6.2.4-singularity.eb
      hpcmod fetch docker://ghcr.io/org/image@sha256:...
      hpcmod info image.sif
      eval "$(hpcmod site env)"     # let the site's own eb find hpcmod

    Exit codes: 0 ok, 1 a check failed, 2 bad input, 3 not found, 4 verification failed, 5 no space, 6 busy,
    7 the environment is missing something, 8 a remote server failed, 9 not trusted,
    10 signed by an unknown key, 130 interrupted.
    """
    settings = read_settings(os.environ, verbosity=verbose, file=log_file)
    if settings.variables():
        ctx.with_resource(logging_to(settings))
        _LOG.info("hpcmod %s on %s: %s", hpcmod.__version__, os.uname().nodename, CommandLine(sys.argv))
    if quiet:
        os.environ[QUIET] = "1"
    if ctx.invoked_subcommand is None:
        _print_first_screen()


def _print_first_screen() -> None:
    """Print the commands that carry the work, on one screen."""
    texts = {name: text for commands in main.tables.values() for name, (_, text) in commands.items()}
    width = max(len(name) for names in FIRST.values() for name in names)
    print_text("Container images as modules that a supercomputer's users can load.\n")
    for heading, names in FIRST.items():
        print_text(f"{heading}:")
        for name in filter(texts.get, names):
            print_text(f"  {name:{width}}  {texts[name]}")
    print_text("\nAll commands: hpcmod --help. More about one: hpcmod help COMMAND.")
