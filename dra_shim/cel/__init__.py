"""CEL expressions: device selectors of claims, and the filter of the inventory.

selectors.py    selectors and filters, compiled and evaluated
environment.py  variables and functions of both languages
values.py       quantities and versions as CEL values
addresses.py    IP addresses and networks as CEL values
urls.py         URLs as CEL values
formats.py      named formats as CEL values
attribute.py    attributes in dranet's filter
patterns.py     regular expressions in selectors
references.py   names that an expression refers to
mistaken.py     likely mistakes in an expression, with a remedy
"""

from dra_shim.cel.mistaken import (
    drivers_in,
    resembles_driver,
    unknown_attribute,
    unknown_attributes,
    unknown_capacity,
    unknown_in_filter,
    wrong_reference,
    wrong_types,
)
from dra_shim.cel.references import names_in
from dra_shim.cel.selectors import (
    MAX_EXPRESSION,
    Near,
    Selector,
    SelectorError,
    compile_selector,
    filter_devices,
    matching_devices,
    numa_list,
)

__all__ = [
    "MAX_EXPRESSION",
    "Near",
    "Selector",
    "SelectorError",
    "compile_selector",
    "drivers_in",
    "filter_devices",
    "matching_devices",
    "names_in",
    "numa_list",
    "resembles_driver",
    "unknown_attribute",
    "unknown_attributes",
    "unknown_capacity",
    "unknown_in_filter",
    "wrong_reference",
    "wrong_types",
]
