"""Cache of decoded link messages."""

from dranet_nri.linux.netlink.codec import attribute
from dranet_nri.linux.netlink.links import CACHED_LEN, IFLA_IFNAME, INFO, dumped_link

IFLA_IFALIAS = 20  # linux/if_link.h


def message(index: int, *, alias: bytes = b"") -> bytes:
    """Return the message of a link named nic<index>."""
    head = INFO.pack(0, 1, index, 0x1003, 0)
    name = attribute(IFLA_IFNAME, f"nic{index}\0".encode())
    return head + name + attribute(IFLA_IFALIAS, alias)


def test_equal_messages_are_decoded_once() -> None:
    first = dumped_link(message(7))

    assert dumped_link(message(7)) is first
    assert (first.name, first.index) == ("nic7", 7)


def test_changed_message_is_decoded_again() -> None:
    before = dumped_link(message(7, alias=b"old"))
    after = dumped_link(message(7, alias=b"new"))

    assert before.attrs[IFLA_IFALIAS] == b"old"
    assert after.attrs[IFLA_IFALIAS] == b"new"


def test_long_message_is_not_cached() -> None:
    long = message(7, alias=bytes(CACHED_LEN))

    assert dumped_link(long) is not dumped_link(long)
    assert dumped_link(long) == dumped_link(long)
