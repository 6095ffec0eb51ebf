"""The manifest's securityContext, as the kernel has it; the other tests pass under it."""

from tests.system.cluster.daemons import MUST, Daemons


def test_process_has_only_the_required_privileges(daemons: Daemons) -> None:
    assert daemons.rights() == MUST
