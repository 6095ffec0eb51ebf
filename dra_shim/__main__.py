"""Entry point of `python -m dra_shim`, the same as `dra-shim`."""

import sys

from dra_shim.cli import main

sys.exit(main())
