"""The manifest's securityContext, as the kernel has it; the other tests pass under it."""

from tests.system.cluster.daemons import MUST, Daemons


def test_each_process_may_what_it_must_and_no_more(daemons: Daemons) -> None:
    assert daemons.rights() == MUST
