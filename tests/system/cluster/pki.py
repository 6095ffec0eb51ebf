"""Certificates of a test cluster, made by openssl and removed with it."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

DAYS: Final = "2"
CURVE: Final = ("-pkeyopt", "ec_paramgen_curve:P-256")
# Nothing of the machine's own configuration gets into a certificate.
CONFIGURATION: Final = "[req]\ndistinguished_name = none\n[none]\n"


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority; it and all it issues are files of one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._configuration = directory / "openssl.cnf"
        self._configuration.write_text(CONFIGURATION)
        self._own = self._files("ca")
        usage = ("basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign")
        self._make(self._own, "/CN=test-cluster", *usage)

    @property
    def certificate(self) -> Path:
        """Return what a peer needs to check the certificates of this authority."""
        return self._own.certificate

    def issue_client(self, user: str, *groups: str) -> Identity:
        """Return what a client needs to be this user of these groups."""
        subject = "".join(f"/O={group}" for group in groups) + f"/CN={user}"
        return self._issue(user.replace(":", "-"), subject, "extendedKeyUsage=clientAuth")

    def issue_server(self, name: str, hosts: Sequence[str]) -> Identity:
        """Return what a server needs to be trusted under these names.

        Args:
            name: What it is.
            hosts: As in subjectAltName: `DNS:localhost`, `IP:127.0.0.1`.
        """
        names = f"subjectAltName={','.join(hosts)}"
        return self._issue(name, f"/CN={name}", "extendedKeyUsage=serverAuth", names)

    def key_pair(self, name: str) -> tuple[Path, Path]:
        """Return the files of a new private key and of its public key."""
        private, public = self._directory / f"{name}.key", self._directory / f"{name}.pub"
        _openssl("genpkey", "-algorithm", "EC", *CURVE, "-out", private)
        _openssl("pkey", "-in", private, "-pubout", "-out", public)
        return private, public

    def _files(self, name: str) -> Identity:
        return Identity(self._directory / f"{name}.crt", self._directory / f"{name}.key")

    def _issue(self, name: str, subject: str, *extensions: str) -> Identity:
        identity = self._files(name)
        self._make(identity, subject, *extensions, by=self._own)
        return identity

    def _make(
        self, identity: Identity, subject: str, *extensions: str, by: Identity | None = None
    ) -> None:
        command: list[str | Path] = ["req", "-x509", "-config", self._configuration]
        command += ["-newkey", "ec", *CURVE, "-noenc", "-days", DAYS, "-subj", subject]
        command += ["-keyout", identity.key, "-out", identity.certificate]
        for extension in extensions:
            command += ["-addext", extension]
        if by is not None:
            command += ["-CA", by.certificate, "-CAkey", by.key]
        _openssl(*command)


def _openssl(*arguments: str | Path) -> None:
    done = subprocess.run(("openssl", *arguments), capture_output=True, text=True, check=False)
    if done.returncode:
        command = " ".join(str(argument) for argument in arguments)
        raise RuntimeError(f"openssl {command}: {done.stderr.strip()}")
