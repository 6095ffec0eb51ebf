"""Access to a cluster through `kubectl`, which supports every kind of credentials of a kubeconfig.

kubectl runs in a process group of its own, so that Ctrl-C does not end it: the clean-up needs it.
"""

import json
import re
import subprocess
from collections.abc import Sequence
from typing import Any, Final

from dra_shim.verify.documents import Document
from dra_shim.verify.types import CommandResult
from dranet_nri.errors import DranetError

LIMIT_S = 60.0
_LOG_LINE: Final = re.compile(r"[IWEF]\d{4} \d\d:")  # of klog, before the error
NO_KUBECTL = "kubectl is not on the PATH: install it"


class KubectlError(DranetError):
    """kubectl failed, or is not installed."""

    kind = "api"


class Kubectl:
    """kubectl with its flags for access."""

    def __init__(self, kubeconfig: str, context: str, namespace: str) -> None:
        flags = [f"--kubeconfig={kubeconfig}"] if kubeconfig else []
        flags += [f"--context={context}"] if context else []
        self._command = ("kubectl", *flags, f"--namespace={namespace}")

    def get(self, *words: str) -> list[Document]:
        """Return the objects of a kind.

        Raises:
            KubectlError: it cannot be read.
        """
        text = self._checked("get", *words, "--output=json")
        try:
            items: list[Document] = json.loads(text)["items"]
        except (ValueError, TypeError, LookupError):
            reason = "printed no JSON list; check the kubectl on the PATH"
            raise KubectlError(f"kubectl get: {reason}") from None
        return items

    def logs(self, namespace: str, pod: str, container: str, tail: int) -> str:
        """Return the last lines of a container's log, or why it cannot be read."""
        words = ("logs", f"--namespace={namespace}", pod, f"--container={container}")
        done = self._run(*words, f"--tail={tail}", limit_s=LIMIT_S)
        return done.stdout if not done.exit_code else done.stderr

    def create(self, documents: Sequence[Document]) -> None:
        """Create documents.

        Raises:
            KubectlError: one of them was refused.
        """
        manifest: dict[str, Any] = {"apiVersion": "v1", "kind": "List", "items": list(documents)}
        # Kubernetes 1.32 does not know tolerations of devices: it ignores them with a warning.
        self._checked("create", "--filename=-", "--validate=warn", stdin=json.dumps(manifest))

    def delete_namespace(self, name: str, limit_s: float) -> None:
        """Delete a namespace with its objects, and wait until it is gone.

        Raises:
            KubectlError: it still exists after the limit.
        """
        words = ("delete", "namespace", name, "--ignore-not-found", f"--timeout={limit_s:.0f}s")
        self._checked(*words, limit_s=limit_s + 10)

    def start_shell(self, pod: str) -> subprocess.Popen[bytes]:
        """Start a shell in a pod, with unbuffered pipes for its input and its outputs.

        Raises:
            KubectlError: there is no kubectl.
        """
        pipe = subprocess.PIPE
        try:
            return subprocess.Popen(  # noqa: S603 - kubectl, and the name of a pod
                [*self._command, "exec", "--stdin", pod, "--", "sh"],
                bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True,
            )  # fmt: skip
        except FileNotFoundError:
            raise KubectlError(NO_KUBECTL) from None

    def _checked(self, *words: str, stdin: str = "", limit_s: float = LIMIT_S) -> str:
        done = self._run(*words, stdin=stdin, limit_s=limit_s)
        if done.exit_code:
            lines = done.stderr.split("\n")
            lines = [line for line in lines if line and not _LOG_LINE.match(line)] or lines
            error_text = " ".join(" ".join(lines).split()) or f"exit status {done.exit_code}"
            raise KubectlError(f"kubectl {words[0]}: {error_text}")
        return done.stdout

    def _run(self, *words: str, stdin: str = "", limit_s: float) -> CommandResult:
        try:
            done = subprocess.run(  # noqa: S603 - kubectl, and the words of its command line
                [*self._command, *words], input=stdin, capture_output=True,
                encoding="utf-8", errors="replace", check=False, timeout=limit_s,
                start_new_session=True,
            )  # fmt: skip
        except FileNotFoundError:
            raise KubectlError(NO_KUBECTL) from None
        except subprocess.TimeoutExpired:
            return CommandResult(124, "", f"no answer within {limit_s:.0f} s")
        return CommandResult(done.returncode, done.stdout, done.stderr)
