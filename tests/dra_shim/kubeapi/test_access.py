"""Credentials and URL of the server, from a service account or a kubeconfig."""

import asyncio
import gc
import json
import shutil
import socket
import ssl
import subprocess
import threading
import traceback
import warnings
from contextlib import aclosing, suppress
from pathlib import Path

import pytest

from dra_shim.kubeapi import (
    NODE,
    ApiClient,
    HttpClient,
    RejectedError,
    UnavailableError,
    in_cluster,
)
from dra_shim.kubeapi.ca_file import CaFile
from dra_shim.kubeapi.kubeconfig import from_kubeconfig
from dranet_nri.errors import InvalidValueError
from tests.capability import lacking
from tests.dranet_nri.nri.stub.plugin_bench import finish
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.http import served

pytestmark = pytest.mark.process


POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
KUBECONFIG = """
apiVersion: v1
kind: Config
clusters:
- {{name: dev, cluster: {{server: "{url}"}}}}
contexts:
- {{name: dev, context: {{cluster: dev{user}}}}}
- {{name: other, context: {{cluster: gone}}}}
users:
- {{name: me, user: {{token: secret}}}}
current-context: dev
"""


@pytest.fixture
def account(tmp_path: Path) -> Path:
    """Return a service account's directory, as a kubelet mounts it."""
    (tmp_path / "token").write_text("t")
    self_signed(tmp_path, "ca.crt")
    return tmp_path


def kubeconfig(tmp_path: Path, url: str = "https://10.0.0.1", user: str = ", user: me") -> Path:
    """Write a kubeconfig."""
    path = tmp_path / "config"
    path.write_text(KUBECONFIG.format(url=url, user=user))
    return path


@pytest.mark.parametrize(
    ("host", "url"),
    [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")],
)
def test_in_cluster_configuration_has_the_url_of_the_server(
    account: Path, host: str, url: str
) -> None:
    assert in_cluster({**POD, "KUBERNETES_SERVICE_HOST": host}, account).server == url


@pytest.mark.parametrize("missing", list(POD))
def test_missing_pod_environment_is_refused_with_the_kubeconfig_remedy(
    account: Path, missing: str
) -> None:
    environ = {name: value for name, value in POD.items() if name != missing}

    with pytest.raises(InvalidValueError, match="outside of a pod; set --kubeconfig"):
        in_cluster(environ, account)


def test_missing_service_account_token_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(InvalidValueError, match="token: no such file; mount a service account"):
        in_cluster(POD, tmp_path)


@pytest.mark.parametrize("text", [None, "", "no certificate"])
def test_invalid_ca_file_is_refused(account: Path, text: str | None) -> None:
    (account / "ca.crt").unlink()
    if text is not None:
        (account / "ca.crt").write_text(text)

    with pytest.raises(InvalidValueError, match=r"ca\.crt: no certificates: .*; mount the cl"):
        in_cluster(POD, account)


@pytest.mark.parametrize("url", ["https://", "http://a:b", "10.0.0.1:6443", "ftp://a"])
def test_invalid_server_url_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(InvalidValueError, match=r"not the URL of|must be an http\(s\):// URL"):
        HttpClient(from_kubeconfig(kubeconfig(tmp_path, url)))


@pytest.mark.parametrize(
    ("user", "sent"), [(", user: me", "Bearer secret"), ("", None)], ids=["a user", "nobody"]
)
def test_request_has_the_credentials_of_the_kubeconfig(
    tmp_path: Path, user: str, sent: str | None
) -> None:
    server = FakeApiServer()

    async def scenario() -> None:
        async with served(server) as url:
            api = ApiClient(
                HttpClient(from_kubeconfig(kubeconfig(tmp_path, f"{url}/behind/a/path", user)))
            )
            await asyncio.gather(api.list(NODE), return_exceptions=True)
            await api.close()

    finish(scenario())

    (request,) = server.requests
    assert request.path == "/behind/a/path/api/v1/nodes"
    assert (request.headers.get("authorization"), request.headers["user-agent"]) == (
        sent,
        "dra-shim",
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not a kubeconfig"),
        ("a: [", "not a kubeconfig"),
        ("[1]", "not a kubeconfig"),
        ("clusters: 7", "not a kubeconfig"),
        ("clusters: [{name: a, cluster: {server: 7}}]\ncontexts: []", "not a kubeconfig"),
        ("clusters: []\ncontexts: []", "No current context"),
        ("clusters: []\ncontexts: []\ncurrent-context: x", "Context 'x' not found"),
    ],
)
def test_invalid_kubeconfig_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)

    with pytest.raises(InvalidValueError, match=f"--kubeconfig {path}: {reason}"):
        from_kubeconfig(path)


def test_error_of_a_kubeconfig_has_no_token_of_it(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_bytes(b"users: [{name: a\xff, user: {token: s3cret}}]")

    with pytest.raises(InvalidValueError) as caught:
        from_kubeconfig(path)

    reason = "is not UTF-8 at byte 16; save it as UTF-8"
    assert str(caught.value) == f"--kubeconfig {path}: {reason}"
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))


def test_context_with_a_missing_cluster_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidValueError, match="not a kubeconfig"):
        from_kubeconfig(kubeconfig(tmp_path), "other")


@pytest.mark.parametrize(
    ("cluster", "user"),
    [("certificate-authority: gone.crt", "token: t"), ("server: x", "client-certificate: gone")],
)
def test_missing_file_of_a_kubeconfig_is_refused(tmp_path: Path, cluster: str, user: str) -> None:
    path = kubeconfig(tmp_path)
    text = path.read_text().replace("cluster: {server", f"cluster: {{{cluster}, server")
    path.write_text(text.replace("token: secret", user))

    with pytest.raises(InvalidValueError, match="certificates or credentials cannot be used"):
        from_kubeconfig(path)


def test_token_file_is_relative_to_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "me.token").write_text("mine")

    assert sent_by(tmp_path, "tokenFile: me.token") == ["Bearer mine"]


def test_credential_plugin_runs_again_after_a_refusal(tmp_path: Path) -> None:
    """The plugin prints the number of its run, and the server accepts only that of the second."""
    runs = tmp_path / "runs"
    script = f"""echo >>{runs}; echo "{{\\"status\\": {{\\"token\\": \\"$(wc -l <{runs})\\"}}}}" """

    sent = sent_by(tmp_path, plugin(tmp_path, script), times=2, tokens={"2"})

    assert sent == ["Bearer 1", "Bearer 2", "Bearer 2"]


def test_refused_token_of_a_kubeconfig_is_sent_once(tmp_path: Path) -> None:
    with pytest.raises(RejectedError, match="refused the token"):
        sent_by(tmp_path, "token: secret", tokens={"another"})


def test_server_is_reached_through_the_proxy_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = FakeApiServer()

    async def scenario() -> None:
        async with served(server) as url:
            monkeypatch.setenv("http_proxy", url)
            config = from_kubeconfig(kubeconfig(tmp_path, "http://server.invalid"))
            through = ApiClient(HttpClient(config))
            await through.list(NODE)
            await through.close()
            monkeypatch.setenv("no_proxy", "server.invalid")
            direct = ApiClient(HttpClient(config))
            with pytest.raises(UnavailableError, match=r"no connection to server\.invalid"):
                await direct.list(NODE)
            await direct.close()

    finish(scenario())

    assert [request.headers["host"] for request in server.requests] == ["server.invalid"]


@pytest.mark.parametrize(
    ("direct", "connects"),
    [
        ("10.0.0.1,127.0.0.0/8", True),
        ("example.com,::1/128, 127.0.0.1", True),
        ("10.96.0.0/12,127.1.0.0/16", False),
    ],
)
def test_server_in_a_network_of_no_proxy_is_reached_directly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, direct: str, *, connects: bool
) -> None:
    server = FakeApiServer()

    async def scenario() -> None:
        async with served(server) as url:
            monkeypatch.setenv("http_proxy", "http://proxy.invalid:3128")
            monkeypatch.setenv("no_proxy", direct)
            api = ApiClient(HttpClient(from_kubeconfig(kubeconfig(tmp_path, url))))
            await asyncio.gather(api.list(NODE), return_exceptions=True)
            await api.close()

    finish(scenario())

    assert len(server.requests) == int(connects)


def test_credential_plugin_runs_once(tmp_path: Path) -> None:
    answer = json.dumps({"status": {"token": "printed"}})
    runs = tmp_path / "runs"

    sent = sent_by(tmp_path, plugin(tmp_path, f"echo >>{runs}; echo '{answer}'"), times=2)

    assert sent == ["Bearer printed", "Bearer printed"]
    assert runs.read_text() == "\n"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exit 3", "returned 3"),
        ("echo '{}'", "KeyError"),
        ("echo no", "JSONDecodeError"),
        ("", "FileNotFoundError"),
    ],
)
def test_failed_credential_plugin_is_a_retryable_error(
    tmp_path: Path, script: str, reason: str
) -> None:
    user = plugin(tmp_path, script)
    if not script:
        (tmp_path / "plugin").unlink()

    with pytest.raises(UnavailableError, match=f"the kubeconfig's credential plugin: .*{reason}"):
        sent_by(tmp_path, user)


def plugin(tmp_path: Path, script: str) -> str:
    """Write a credential plugin; return its entry in a kubeconfig's user."""
    program = tmp_path / "plugin"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    version = "client.authentication.k8s.io/v1beta1"
    return f'exec: {{apiVersion: "{version}", command: "{program}"}}'


def sent_by(
    tmp_path: Path, user: str, times: int = 1, tokens: set[str] | None = None
) -> list[str | None]:
    """Send requests as the user of a kubeconfig; return the Authorization of each request.

    With `tokens` the server accepts only these.
    """
    server = FakeApiServer()
    server.tokens = tokens

    async def scenario() -> None:
        async with served(server) as url:
            path = kubeconfig(tmp_path, url)
            path.write_text(path.read_text().replace("token: secret", user))
            api = ApiClient(HttpClient(from_kubeconfig(path)))
            try:
                for _ in range(times):
                    await api.list(NODE)
            finally:
                await api.close()

    finish(scenario())
    return [request.headers.get("authorization") for request in server.requests]


def test_kubeconfig_that_is_missing_or_a_directory_is_refused(tmp_path: Path) -> None:
    for path, reason in (
        (tmp_path / "config", "No such file or directory"),
        (tmp_path, "Is a directory"),
    ):
        with pytest.raises(InvalidValueError) as caught:
            from_kubeconfig(path)
        assert str(caught.value) == f"--kubeconfig {path}: {reason}; check the path"


@pytest.mark.parametrize("name", ["ca.crt", "other.crt"])
def test_token_is_sent_only_to_a_server_with_a_certificate_of_the_ca(
    account: Path, name: str
) -> None:
    trusted = name == "ca.crt"
    certificate, key = self_signed(account, name)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    server = FakeApiServer()
    server.tokens = {"t"}

    async def scenario() -> None:
        async with served(server, tls=tls) as url:
            port = url.rpartition(":")[2]
            environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": port}
            api = ApiClient(HttpClient(in_cluster(environ, account)))
            try:
                await api.list(NODE)
            finally:
                await api.close()

    if trusted:
        finish(scenario())
    else:
        with pytest.raises(UnavailableError, match="certificate verify failed"):
            finish(scenario())
    assert len(server.requests) == int(trusted)


def test_ca_of_a_rotation_is_trusted_by_the_next_connection(account: Path) -> None:
    self_signed(account, "ca.crt")
    certificate, key = self_signed(account, "new.crt")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    server = FakeApiServer()

    async def scenario() -> None:
        async with served(server, tls=tls) as url:
            port = url.rpartition(":")[2]
            environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": port}
            api = ApiClient(HttpClient(in_cluster(environ, account)))
            try:
                with pytest.raises(UnavailableError, match="certificate verify failed"):
                    await api.list(NODE)
                certificate.replace(account / "ca.crt")
                with suppress(UnavailableError):
                    await api.list(NODE)
            finally:
                await api.close()

    finish(scenario())

    assert len(server.requests) == 1


def test_ca_file_without_certificates_changes_nothing(account: Path) -> None:
    self_signed(account, "ca.crt")
    authority = CaFile(account / "ca.crt")
    first = authority.context()

    (account / "ca.crt").write_text("no certificate")
    invalid = authority.context()
    (account / "ca.crt").unlink()
    missing = authority.context()
    self_signed(account, "ca.crt")
    again = authority.context()

    assert first is invalid is missing
    assert again is not first
    assert authority.context() is again
    assert len(again.get_ca_certs()) == 1


BOOKMARK = b'{"type":"BOOKMARK","object":{"kind":"Node","metadata":{"resourceVersion":"2"}}}\n'


@pytest.mark.parametrize("answered", [True, False])
def test_connection_of_a_watch_that_is_left_ends_without_the_server(
    account: Path, *, answered: bool
) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*self_signed(account, "ca.crt"))
    listening = socket.create_server(("127.0.0.1", 0))
    asked, left = threading.Event(), threading.Event()

    def serve() -> None:
        """Answer at most one watch, and then nothing, not even the close of TLS."""
        with tls.wrap_socket(listening.accept()[0], server_side=True) as peer:
            peer.recv(1 << 16)
            asked.set()
            if answered:
                peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n" + BOOKMARK)
            left.wait(60)

    async def scenario() -> None:
        port = str(listening.getsockname()[1])
        environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": port}
        api = ApiClient(HttpClient(in_cluster(environ, account)))
        async with aclosing(api.watch(NODE, {}, "1", 600)) as events:
            first = asyncio.ensure_future(anext(events))
            await asyncio.to_thread(asked.wait, 60)
            if answered:
                await first
            else:
                first.cancel()
                await asyncio.wait([first])
        await api.close()

    thread = threading.Thread(target=serve)
    thread.start()
    with listening, warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        finish(scenario())
        gc.collect()
    left.set()
    thread.join()

    assert [str(warning.message) for warning in found if "unclosed" in str(warning.message)] == []


def self_signed(directory: Path, name: str) -> tuple[Path, Path]:
    """Create a self-signed certificate for 127.0.0.1, and its key."""
    openssl = shutil.which("openssl") or lacking("openssl", "install it")
    certificate, key = directory / name, directory / f"{name}.key"
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "2", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1",
         "-out", str(certificate), "-keyout", str(key)],
        check=True, capture_output=True,
    )  # fmt: skip
    return certificate, key
