"""Run groups of benchmarks on the node in a box and print the table: hack/bench."""

import sys

from tests.bench import attach, calls, children, hooks, inventory, lists, noop, prepare, start, wire
from tests.bench.table import Row, machine, print_now, render
from tests.box.containerd import Containerd
from tests.box.cri import Cri


def main(selected: set[str]) -> None:
    """Measure the wanted groups, or all."""
    rows: list[Row] = []
    notes = [machine()]
    print_now(notes[0])
    beside = {"attach": attach, "noop": noop, "start": start}
    apart = {
        "children": children,
        "hooks": hooks,
        "calls": calls,
        "prepare": prepare,
        "wire": wire,
        "list": lists,
        "inventory": inventory,
    }
    selected = selected or {*beside, *apart}
    if selected & {*beside}:
        runtime = Containerd()
        runtime.start()
        with Cri() as cri:
            for name in (name for name in beside if name in selected):
                beside[name].run(rows, notes, cri)
        runtime.stop()
    for name in (name for name in apart if name in selected):
        apart[name].run(rows, notes)
    sys.stdout.write(render(rows, notes))


main(set(sys.argv[1:]))
