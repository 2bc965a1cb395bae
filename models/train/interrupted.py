"""What ends work that the same command goes on with.

Its status is not 0, lest a script take half of a run for a whole one.
"""

import signal

STATUS = 128 + signal.SIGINT  # as shells say it


class Interrupted(Exception):
    """A signal, or the end of a lent machine's time, ended the work; what was made is saved."""
