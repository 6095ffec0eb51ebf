"""ResourceSlices of this node.

layout.py         assignment of devices to slices
documents.py      slices as JSON, in each version of the API
diff.py           writes that bring the server to the desired state
rejections.py     devices that the server rejected, and fields that it dropped
feature_probe.py  features of the server
schedule.py       rate limit and back-off
notices.py        notices of this room
controller.py     the loop
"""

from dra_shim.resourceslice.controller import ResourceSliceController
from dra_shim.resourceslice.notices import (
    DeviceRefused,
    FeaturesMissing,
    FieldsDropped,
    Notice,
    SlicesPublished,
    SliceSyncFailed,
)

__all__ = [
    "DeviceRefused",
    "FeaturesMissing",
    "FieldsDropped",
    "Notice",
    "ResourceSliceController",
    "SliceSyncFailed",
    "SlicesPublished",
]
