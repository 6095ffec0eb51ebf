"""`python3 -m tests.box.ended UID`: ends a pod in the runtime, without the kubelet."""

from __future__ import annotations

import sys

from tests.box.cri import Cri


def main() -> None:
    """Stop and remove all sandboxes of the pod."""
    with Cri() as runtime:
        for sandbox in runtime.pods():
            if sandbox.metadata.uid == sys.argv[1]:
                runtime.stop_pod(sandbox.id)
                runtime.remove_pod(sandbox.id)


if __name__ == "__main__":
    main()
