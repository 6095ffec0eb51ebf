"""Print what the node in a box installs: the product's dependencies and the `box` extra."""

from __future__ import annotations

import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
print("\n".join([*project["dependencies"], *project["optional-dependencies"]["box"]]))
