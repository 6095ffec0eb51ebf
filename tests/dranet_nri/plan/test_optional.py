"""Configuration that a pod can lack, and refusals that fail its attach."""

from errno import EACCES, EBUSY, EEXIST, ENODEV, ENOENT, ENOMEM, EOPNOTSUPP, EPERM

import pytest

from dranet_nri.errors import KernelError
from dranet_nri.model import Address, Neighbour, Ns, Route, Rule
from dranet_nri.plan.ops import AddAddress, AddNeighbour, AddRoute, AddRule, Op, SetUp
from dranet_nri.plan.optional import is_optional, warning_lines
from dranet_nri.plan.settings.rate import LimitRate

ADDRESS, ROUTE = Address("2001:db8::5/64"), Route("10.9.0.0/16")
RULE, NEIGHBOUR = Rule(4, 1000), Neighbour("10.1.0.1", "02:00:00:00:00:01")
OPS: tuple[tuple[Op, Address | Route | Rule | Neighbour], ...] = (
    (AddAddress(Ns.POD, "net1", ADDRESS), ADDRESS),
    (AddRoute(Ns.POD, "net1", ROUTE), ROUTE),
    (AddRule(Ns.POD, RULE), RULE),
    (AddNeighbour(Ns.POD, "net1", NEIGHBOUR), NEIGHBOUR),
)


def error(code: int) -> KernelError:
    return KernelError("add it", code)


@pytest.mark.parametrize(("op", "value"), OPS)
def test_inherited_configuration_may_be_missing(
    op: Op, value: Address | Route | Rule | Neighbour
) -> None:
    assert is_optional({value}, op, error(EACCES))
    assert is_optional({value}, op, error(EEXIST))


@pytest.mark.parametrize(("op", "value"), OPS)
def test_claimed_configuration_or_a_transient_error_fails_the_attach(
    op: Op, value: Address | Route | Rule | Neighbour
) -> None:
    others = {op for _, op in OPS} - {value}

    assert not is_optional(others, op, error(EACCES))
    assert not any(is_optional({value}, op, error(code)) for code in (EBUSY, ENODEV, ENOMEM))


@pytest.mark.parametrize(("code", "lacking"), [(ENOENT, True), (EOPNOTSUPP, True), (EPERM, False)])
def test_rate_limit_may_be_missing_if_the_kernel_lacks_it(code: int, *, lacking: bool) -> None:
    assert is_optional((), LimitRate(Ns.POD, "net1", 10**9), error(code)) is lacking


def test_essential_operation_may_not_be_missing() -> None:
    assert not is_optional({ADDRESS}, SetUp(Ns.POD, "net1"), error(EACCES))


@pytest.mark.parametrize(
    ("count", "last"),
    [(5, "left out, because the kernel refused it: add it: EACCES; IPv6 is"), (9, "4 more")],
)
def test_some_failures_are_listed_with_the_number_of_further_ones(count: int, last: str) -> None:
    refused = [(OPS[0][0], error(EACCES))] * count

    reported = warning_lines(("a backup route",), refused)

    assert reported[0] == "a backup route"
    assert len(reported) == min(count + 1, 7)
    assert reported[-1].startswith(last)
