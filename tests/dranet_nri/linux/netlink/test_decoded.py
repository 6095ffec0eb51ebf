"""Cache of decoded messages: what is decoded again, and what is kept."""

from dranet_nri.linux.netlink.decoded import CACHED, CACHED_LEN, DecodedMessages

NEW, SAME, LONG = b"new", b"same", bytes(CACHED_LEN + 1)


class Decoder:
    """Counts what it decodes; the value of b"none" is None."""

    def __init__(self) -> None:
        self.decoded: list[bytes] = []
        self.messages = DecodedMessages(self._decode)

    def _decode(self, body: bytes) -> str | None:
        self.decoded.append(body)
        return None if body == b"none" else body.decode()

    def again(self, *bodies: bytes) -> list[bytes]:
        """Return what a dump of these messages decodes."""
        self.decoded.clear()
        values = self.messages.of(bodies)
        assert values == tuple(None if body == b"none" else body.decode() for body in bodies)
        return list(self.decoded)


def test_only_changed_messages_are_decoded_again() -> None:
    decoder = Decoder()

    assert decoder.again(SAME, b"old", b"none") == [SAME, b"old", b"none"]
    assert decoder.again(SAME, NEW, b"none") == [NEW]
    assert decoder.again(NEW, SAME) == []


def test_messages_of_earlier_dumps_are_forgotten() -> None:
    decoder = Decoder()

    decoder.again(SAME, b"old")
    decoder.again(SAME)

    assert decoder.again(SAME, b"old") == [b"old"]


def test_long_and_surplus_messages_are_not_kept() -> None:
    decoder = Decoder()
    many = [b"%d" % number for number in range(CACHED + 1)]

    assert decoder.again(LONG, *many) == [LONG, *many]
    assert decoder.again(LONG, *many) == [LONG, many[-1]]
