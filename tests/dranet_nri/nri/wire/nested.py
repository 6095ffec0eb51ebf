"""Messages nested in another, counted once it is decoded."""

from google.protobuf.message import Message


def nested_in(message: Message) -> int:
    """Count by walking the decoded message."""
    found = 0
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            found += len(value)
            continue
        for inner in (value,) if isinstance(value, Message) else value:
            found += 1 + nested_in(inner)
    return found
