"""The command ``allotment``, outside of the package, whose import takes a second or more.

Ctrl-C in that second ends the process without a word, as it ends programs that do not ask about it:
nothing is under way yet. Afterwards it stops a training, or whatever else a command does.
"""

import signal


def main() -> int:
    """Runs one command and returns its exit status."""
    asked = signal.getsignal(signal.SIGINT)
    if asked is signal.default_int_handler:  # else it is ignored, as in the background of a shell
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from allotment.cli import main as run

    signal.signal(signal.SIGINT, asked)
    return run()
