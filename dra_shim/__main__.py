"""`python -m dra_shim` is `dra-shim`."""

import sys

from dra_shim.cli import main

sys.exit(main())
