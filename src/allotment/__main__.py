"""``python -m allotment``, the same as the command ``allotment``."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
