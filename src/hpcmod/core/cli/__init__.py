"""The command line itself: tables of commands, options that rooms share, output."""

import signal
import sys

if sys.argv[0].endswith("/hpcmod") and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback while Python imports; see `_Hpcmod.invoke`
