"""``python -m halfulp``: the command line."""

import sys

from halfulp.cli import main

sys.exit(main())
