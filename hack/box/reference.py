"""Tables of the reference pages, written from the code.

reference.py [--check]
    write the tables between their marks in manifests/docs; with --check, exit 1 and name the page
    if that would change anything
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from dra_shim.status.reasons import EVENT_TYPES
from dranet_nri.config import fields
from dranet_nri.inventory import attribute_names
from dranet_nri.inventory.attribute_names import AttributeMeaning

DOCS: Final = Path(__file__).parents[2] / "manifests/docs"
MARKED: Final = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(\n<!-- end -->)", re.DOTALL)
TYPES: Final = {str: "string", int: "int", bool: "bool"}


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table of Markdown."""
    head = list(head)
    first, *rest = (f"| {' | '.join(line)} |" for line in (head, *rows))
    return "\n".join((first, f"|{'---|' * len(head)}", *rest))


def field_table(known: Mapping[str, str]) -> str:
    """Return the table of the fields of one object; a field with fields is a row for each."""
    rows: list[tuple[str, str]] = []
    for name, text in known.items():
        inner = fields.BLOCK_FIELDS.get(name)
        if inner is None:
            rows.append((f"`{name}`", text))
        else:
            rows += (
                (f"`{name}.{part}`", f"{value}; {text}" if first == 0 else value)
                for first, (part, value) in enumerate(inner.items())
            )
    return table(("field", "value"), rows)


def attribute_table(known: Mapping[str, AttributeMeaning]) -> str:
    """Return the table of attributes."""
    rows = (
        (f"`{name.partition('/')[2]}`", TYPES[meaning.type], meaning.text)
        for name, meaning in known.items()
    )
    return table(("attribute", "type", "value"), rows)


def event_table() -> str:
    """Return the table of Events."""
    rows = (
        (
            f"`{event.reason}`",
            "Warning" if event.warning else "Normal",
            event.kind,
            event.meaning,
        )
        for event in EVENT_TYPES
    )
    return table(("reason", "type", "object", "meaning"), rows)


TABLES: Final = {
    "events": event_table(),
    **{
        name: field_table(known) for name, known in fields.TOP_FIELDS.items() if name != "interface"
    },
    "interface": field_table(fields.INTERFACE_FIELDS),
    "policy": field_table(fields.POLICY_FIELDS),
    "attributes-standard": attribute_table(attribute_names.STANDARD),
    "attributes-every-device": attribute_table(attribute_names.EVERY_DEVICE),
    "attributes-rdma": attribute_table(attribute_names.WITH_RDMA),
    "attributes-azure": attribute_table(attribute_names.AZURE),
}


def main(arguments: list[str]) -> str | int:
    """Write or check the pages; return the exit status or what is wrong."""
    if arguments not in ([], ["--check"]):
        return __doc__ or 2
    left, stale = {*TABLES}, []
    for page in sorted(DOCS.glob("*.md")):
        text = page.read_text()
        left -= {name for _, name, _ in MARKED.findall(text)}
        new = MARKED.sub(lambda found: f"{found[1]}\n{TABLES[found[2]]}\n{found[3]}", text)
        if new != text:
            stale.append(page.name)
            if not arguments:
                page.write_text(new)
    if left:
        return f"error: no page has a mark for {', '.join(sorted(left))}"
    if arguments and stale:
        return f"error: {', '.join(stale)}: not what the code says; run hack/gen-reference"
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
