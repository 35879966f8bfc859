"""``python -m halfulp.cli``."""

import sys

from halfulp.cli import main

sys.exit(main())
