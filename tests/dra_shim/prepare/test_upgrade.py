"""Claims that the version before prepared, asked for again after an upgrade."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from dra_shim.settings.common import StatePaths
from dranet_nri.model import Consumed
from dranet_nri.state.record import VERSION
from tests.dra_shim.prepare.prepare_bench import Bench
from tests.fakes.cluster import result

pytestmark = pytest.mark.process


RESULT = result("hca", "nic/fast", shareID="5a", consumedCapacity={"dra.net/bandwidth": "20G"})


def test_record_of_the_previous_version_is_kept(tmp_path: Path) -> None:
    state = StatePaths(tmp_path / "state", tmp_path / "run")
    with closing(Bench(state)) as bench:
        claim = bench.cluster.add("nics", "u1", "hca")
        bench.cluster.claims["nics"]["status"]["allocation"]["devices"]["results"] = [RESULT]
        now = bench.prepare(claim)
        record = bench.record(claim)
        assert record is not None
        (device,) = record.devices
        path = state.allocations / "u1.json"
        older = json.loads(path.read_text())
        older["version"] = VERSION - 1
        assert older["devices"][0].pop("subrequest") == device.subrequest == "fast"
        assert older["devices"][0].pop("consumed")
        assert device.consumed == (Consumed("dra.net/bandwidth", 20 * 10**9),)
        path.write_text(json.dumps(older))

        again = bench.prepare(claim)

        assert again == now
        assert [answer.error for answer in again] == [""]
        assert json.loads(path.read_text()) == older
