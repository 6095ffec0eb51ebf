"""Entry point of `python -m dranet_nri`, the same as `dranet-nri`."""

import sys

from dranet_nri.cli import main

sys.exit(main())
