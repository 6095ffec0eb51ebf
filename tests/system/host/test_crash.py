"""The plugin killed in the middle, one row for each kind of operation; hack/prove runs them all."""

import pytest

from tests.box.nics import Nic
from tests.prove.environment import After, HostEnvironment
from tests.prove.matrix import require_expected, row
from tests.prove.shapes import shape


@pytest.fixture
def environment(nics: tuple[Nic, ...], before: dict[str, object]) -> HostEnvironment:
    """Return the host; a lost NIC is lost for the tests that follow."""
    return HostEnvironment("host", nics, lambda: nics)


@pytest.mark.parametrize(
    ("name", "after", "last", "event"),
    [
        ("attach 1 NIC", After.LISTED, 1, "created attachments/"),  # the intent
        ("attach 3 NICs", After.GONE, 2, "move link"),
        ("attach parameters", After.LISTED, 1, "add address"),
        ("attach 2 claims", After.LISTED, 1, "renamed attachments/"),  # one of two results
        ("attach child", After.LISTED, 1, "add MACVLAN child"),
        ("attach child", After.GONE, 1, "add rule"),
        ("attach one route twice", After.LISTED, 1, "renamed attachments/"),
        ("undo 2 claims", After.GONE, 3, "move link"),  # the first on its way back
        ("detach parameters", After.GONE, 2, " link "),  # down, then moved to the host
        ("detach 2 NICs, names taken", After.GONE, 1, "move link"),  # one waits for its name
        ("supersede 1 NIC", After.LISTED, 2, "move link"),  # into the second sandbox
        ("detach child", After.GONE, 1, "delete link"),
        ("left parameters", After.LISTED, 1, "move link"),  # moved out, then attached again
    ],
)
def test_plugin_killed_at_any_step_loses_no_device(
    environment: HostEnvironment, name: str, after: After, last: int, event: str
) -> None:
    require_expected(environment, shape(name))

    result, died = row(environment, shape(name), after, last, event)

    assert died
    assert result.loss is None, f"{result.event}: {result.detail}"
