"""ResourceSlices of this node.

layout.py         which device is in which slice
documents.py      slices as JSON, in each version of the API
diff.py           what must be written
rejections.py     what the server did not take, or left away
feature_probe.py  which features the server has
schedule.py       when to write
notices.py        what is told
controller.py     all of it put to work
"""

from dra_shim.resourceslice.controller import Publisher
from dra_shim.resourceslice.notices import (
    DeviceRefused,
    FeaturesMissing,
    FieldsDropped,
    Notice,
    Notify,
    Published,
    Trouble,
)

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
