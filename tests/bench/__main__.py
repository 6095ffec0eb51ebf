"""Run groups of benchmarks on the node in a box and print the table: hack/bench."""

import sys

from tests.bench import attach, inventory, noop, prepare, start, wire
from tests.bench.table import Row, machine, render, say
from tests.box.containerd import Containerd
from tests.box.cri import Cri


def main(wanted: set[str]) -> None:
    """Measure the wanted groups, or all."""
    rows: list[Row] = []
    notes = [machine()]
    say(notes[0])
    runtime = Containerd()
    runtime.start()
    with Cri() as cri:
        for name, group in (("attach", attach), ("noop", noop), ("start", start)):
            if name in wanted or not wanted:
                group.run(rows, notes, cri)
    runtime.stop()
    for name, apart in (("prepare", prepare), ("wire", wire), ("inventory", inventory)):
        if name in wanted or not wanted:
            apart.run(rows, notes)
    sys.stdout.write(render(rows, notes))


main(set(sys.argv[1:]))
