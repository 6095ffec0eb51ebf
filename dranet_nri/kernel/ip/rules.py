"""Policy rules (RTM_*RULE). Numbers and structs are those of linux/fib_rules.h."""

import struct
from collections.abc import Iterable
from errno import EEXIST
from functools import lru_cache
from socket import AF_INET, AF_INET6
from typing import Final

from dranet_nri.errors import KernelError
from dranet_nri.kernel.messages import RuleMessage
from dranet_nri.linux.netlink import codec
from dranet_nri.linux.netlink.codec import (
    attributes,
    encode,
    family_number,
    fixed,
    split_prefix,
    text,
    u8,
    u32,
)
from dranet_nri.linux.netlink.rtnetlink import RtnetlinkSocket
from dranet_nri.model import Rule

RTM_NEWRULE: Final = 32
RTM_GETRULE: Final = 34
NLM_F_EXCL_CREATE: Final = 0x600
FIB_RULE_INVERT: Final = 0x2
NOT_SUPPRESSED: Final = 0xFFFFFFFF

FRA_DST: Final = 1
FRA_SRC: Final = 2
FRA_IIFNAME: Final = 3
FRA_PRIORITY: Final = 6
FRA_FWMARK: Final = 10
FRA_SUPPRESS_PREFIXLEN: Final = 14
FRA_TABLE: Final = 15
FRA_FWMASK: Final = 16
FRA_OIFNAME: Final = 17
FRA_PAD: Final = 18
FRA_PROTOCOL: Final = 21
SUPPORTED_ATTRIBUTES: Final = frozenset(
    {
        FRA_DST,
        FRA_SRC,
        FRA_IIFNAME,
        FRA_PRIORITY,
        FRA_FWMARK,
        FRA_SUPPRESS_PREFIXLEN,
        FRA_TABLE,
        FRA_FWMASK,
        FRA_OIFNAME,
        FRA_PAD,
        FRA_PROTOCOL,
    }
)
# Tables that every namespace has; a rule to one of them belongs to no device.
COMMON_TABLES: Final = frozenset({0, 253, 254, 255})
MAX_CACHED: Final = 256  # cached rules; namespaces have the same few

_HEADER: Final = struct.Struct("=BBBBBBBBI")  # struct fib_rule_hdr


def rules_from(messages: Iterable[bytes]) -> tuple[Rule, ...]:
    """Return the rules in the messages, without those that a Rule cannot represent.

    A rule that also selects by port, user or suppressed prefix would match more without that.
    Rules of multicast routing do not belong to devices.
    """
    return tuple(rule for body in messages if (rule := _rule(body)) is not None)


def rules_of(rules: tuple[Rule, ...], name: str, tables: set[int]) -> tuple[Rule, ...]:
    """Return the rules with the link in iif or oif, or for one of its own tables."""
    own = tables - COMMON_TABLES
    return tuple(rule for rule in rules if name in {rule.iif, rule.oif} or rule.table in own)


@lru_cache(MAX_CACHED)
def _rule(body: bytes) -> Rule | None:
    family, dst_len, src_len, tos, table, _, _, action, flags = fixed(_HEADER, body)
    attrs = attributes(body, _HEADER.size)
    suppressed = u32(attrs.get(FRA_SUPPRESS_PREFIXLEN), NOT_SUPPRESSED) != NOT_SUPPRESSED
    if suppressed or attrs.keys() - SUPPORTED_ATTRIBUTES or family not in {AF_INET, AF_INET6}:
        return None
    source, destination = codec.address(attrs.get(FRA_SRC)), codec.address(attrs.get(FRA_DST))
    return Rule(
        family=4 if family == AF_INET else 6,
        priority=u32(attrs.get(FRA_PRIORITY)),
        source=f"{source}/{src_len}" if source else "",
        destination=f"{destination}/{dst_len}" if destination else "",
        table=u32(attrs.get(FRA_TABLE), table),
        iif=text(attrs.get(FRA_IIFNAME)),
        oif=text(attrs.get(FRA_OIFNAME)),
        fwmark=u32(attrs.get(FRA_FWMARK)),
        fwmask=u32(attrs.get(FRA_FWMASK)),
        tos=tos,
        invert=bool(flags & FIB_RULE_INVERT),
        action=action,
        protocol=u8(attrs.get(FRA_PROTOCOL)),
    )


def add_rule(netlink: RtnetlinkSocket, what: str, rule: Rule) -> None:
    """Add a rule, unless an equal one exists.

    The kernel returns EEXIST only for an equal rule of the same priority.
    """
    try:
        netlink.do(what, RTM_NEWRULE, NLM_F_EXCL_CREATE, _request(rule))
    except KernelError as error:
        if error.code != EEXIST:
            raise


def _request(rule: Rule) -> bytes:
    fixed = {
        "family": family_number(rule.family),
        "tos": rule.tos,
        "table": rule.table if rule.table < 256 else 0,
        "action": rule.action,
        "flags": FIB_RULE_INVERT if rule.invert else 0,
    }
    # Also 0: without a priority the kernel would choose one.
    attrs: list[tuple[str, codec.Value]] = [("FRA_PRIORITY", rule.priority)]
    for field, name, prefix in (
        ("src_len", "FRA_SRC", rule.source),
        ("dst_len", "FRA_DST", rule.destination),
    ):
        if prefix:
            plain, fixed[field] = split_prefix(prefix)
            attrs.append((name, plain))
    optional: tuple[tuple[str, str | int], ...] = (
        ("FRA_TABLE", rule.table),
        ("FRA_IIFNAME", rule.iif),
        ("FRA_OIFNAME", rule.oif),
        ("FRA_FWMARK", rule.fwmark),
        ("FRA_FWMASK", rule.fwmask),
        ("FRA_PROTOCOL", rule.protocol),
    )
    attrs += ((name, value) for name, value in optional if value)
    return encode(RuleMessage, fixed, attrs)
