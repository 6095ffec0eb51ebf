"""`python -m dranet_nri` is `dranet-nri`."""

import sys

from dranet_nri.cli import main

sys.exit(main())
