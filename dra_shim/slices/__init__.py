"""ResourceSlices of this node.

layout.py     which device is in which slice
documents.py  slices as JSON, in each version of the API
plan.py       what must be written
faults.py     what the server did not take, or left away
probe.py      which features the server has
pace.py       when to write
notices.py    what is told
publisher.py  all of it put to work
"""

from dra_shim.slices.notices import (
    DeviceRefused,
    FeaturesMissing,
    FieldsDropped,
    Notice,
    Notify,
    Published,
    Trouble,
)
from dra_shim.slices.publisher import Publisher

__all__ = [
    "DeviceRefused",
    "FeaturesMissing",
    "FieldsDropped",
    "Notice",
    "Notify",
    "Published",
    "Publisher",
    "Trouble",
]
