"""Plans equal their golden files; hack/golden --accept rewrites the files."""

from pathlib import Path

import pytest

from dranet_nri.plan.ops import Plan
from tests.dranet_nri.plan.shapes import shapes, write_shapes

GOLDEN = Path(__file__).parents[2] / "golden" / "plan"


@pytest.mark.parametrize(
    ("name", "ops"), [pytest.param(name, ops, id=name) for name, ops in shapes().items()]
)
def test_plan_reads_as_its_golden_file(name: str, ops: Plan) -> None:
    lines = [str(op) for op in ops]

    assert lines == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8").splitlines()


def test_every_golden_file_has_its_shape(tmp_path: Path) -> None:
    write_shapes(tmp_path)

    written = sorted((path.name, path.read_bytes()) for path in tmp_path.iterdir())
    assert sorted((path.name, path.read_bytes()) for path in GOLDEN.iterdir()) == written
