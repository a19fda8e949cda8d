"""`mobfl station` where no vehicle is needed: certificates, the proxy's limits, its input."""

import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from machines import until
from mobfl import InputError
from mobfl.cli import cli
from mobfl.deploy import certificates
from mobfl.deploy.certificates import ensure_certificates
from mobfl.deploy.gateway import GatewayError, _find_nginx
from mobfl.deploy.local import processes
from mobfl.deploy.local.deployment import listens
from mobfl.deploy.proxy import write_proxy
from strangers import NOBODY, ask

NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin")
needs_nginx = pytest.mark.skipif(NGINX is None, reason="needs nginx")


@pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl")
def test_openssl_trusts_the_certificates(tmp_path: Path) -> None:
    assert ensure_certificates(tmp_path, ["station.example", "10.0.0.7", "station.example"])
    for name in ("-verify_hostname=station.example", "-verify_hostname=localhost", "-verify_ip=10.0.0.7"):
        words = ["openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", "ca.crt"]
        subprocess.run([*words, *name.split("="), "server.crt"], cwd=tmp_path, check=True, capture_output=True)
    assert {file.name: oct(file.stat().st_mode & 0o777) for file in tmp_path.glob("*.key")} == {
        "ca.key": "0o600",
        "server.key": "0o600",
    }


def test_certificates_are_made_once(tmp_path: Path) -> None:
    assert ensure_certificates(tmp_path, ["station.example"])
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert not ensure_certificates(tmp_path, ["station.example"])
    assert not ensure_certificates(tmp_path, [])
    with pytest.raises(
        InputError, match=r"server.crt must be for other.example, got one for localhost, 127.0.0.1, sta"
    ):
        ensure_certificates(tmp_path, ["other.example"])
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    (tmp_path / "server.crt").unlink()
    assert ensure_certificates(tmp_path, ["other.example"])
    assert (tmp_path / "ca.crt").read_bytes() == before["ca.crt"]


def test_a_certificate_that_is_over_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class TwoYearsAgo(datetime):
        @classmethod
        def now(cls, _=None) -> datetime:
            return datetime.now(UTC) - timedelta(days=730)

    with monkeypatch.context() as past:
        past.setattr(certificates, "datetime", TwoYearsAgo)
        ensure_certificates(tmp_path, [])
    with pytest.raises(InputError, match=r"server.crt must not have expired, got one until \d{4}-\d\d-\d\d: delete"):
        ensure_certificates(tmp_path, [])


def test_an_authority_without_its_key_cannot_sign(tmp_path: Path) -> None:
    ensure_certificates(tmp_path, [])
    for file in ("server.crt", "ca.key"):
        (tmp_path / file).unlink()
    with pytest.raises(InputError, match=r"must hold ca.key to make server.crt from"):
        ensure_certificates(tmp_path, [])


@pytest.mark.parametrize("listen", ["8443", "example:8443", "0.0.0.0:0", "0.0.0.0:99999", "0.0.0.0:", ":8443", "::1"])
def test_nonsense_to_listen_at(tmp_path: Path, listen: str) -> None:
    with pytest.raises(InputError, match="--listen must be ADDRESS:PORT"):
        CliRunner().invoke(cli, ["station", str(tmp_path / "s"), "--listen", listen], catch_exceptions=False)
    assert list(tmp_path.iterdir()) == []


def test_without_nginx_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(GatewayError, match="apt install nginx-light"):
        _find_nginx()


def test_a_folder_that_nginx_cannot_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="folder must have a name that nginx can read, got ';'"):
        write_proxy(tmp_path / "a;b", "127.0.0.1:1", 2)


@needs_nginx
def test_a_port_that_is_taken(open_folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(InputError, match=f"listen must be free, got {listen}: address already in use"):
            CliRunner().invoke(cli, ["station", str(open_folder / "s"), "--listen", listen], catch_exceptions=False)


@needs_nginx
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root can become another user")
def test_an_ordinary_user_is_enough_and_root_is_another(open_folder: Path) -> None:
    """The user may read files as root does, since this Python may lie where he could not find it otherwise."""
    home, port, said = open_folder / "home", processes.free_port(), open_folder / "said"
    home.mkdir()
    os.chown(home, NOBODY, NOBODY)
    become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    reads = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    words = [sys.executable, "-m", "mobfl", "station", str(home / "s"), "--listen", f"127.0.0.1:{port}"]
    station = processes.start([*become, *reads, *words], {**os.environ, "HOME": str(home)}, said)
    try:
        until("the station is open", lambda: "is open at" in said.read_text(), said.read_text)
        assert "root" not in said.read_text()
        ca = home / "s" / "ca.crt"
        inner = int((home / "s" / "flower" / "config.toml").read_text().split("127.0.0.1:")[1].split('"')[0])
        assert ask(port, "/v1/fleet/pull-messages", ca=ca, host="localhost")[0] == 401
        assert ask(port, "/v1/fleet/pull-messages", headers={"Origin": "https://x"}, ca=ca, host="localhost")[0] == 403
        assert ask(port, "/v1/control/list-nodes", ca=ca, host="localhost")[0] == 403
        assert ask(inner, "/v1/control/list-nodes", ca=ca)[0] == 403
    finally:
        processes.end([station])
    assert station.returncode == 0
    assert not listens(port)
    assert not listens(inner)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Where nginx's own user can go, which pytest's folders do not allow."""
    with tempfile.TemporaryDirectory(prefix="mobfl-test-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.fixture
def proxy(open_folder: Path) -> Iterator[tuple[int, list[bytes]]]:
    """nginx as a station has it, before a server that takes down what reaches it."""
    ensure_certificates(open_folder, [])
    reached, port = list[bytes](), processes.free_port()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(open_folder / "server.crt", open_folder / "server.key")
    with socket.create_server(("127.0.0.1", 0)) as behind:
        threading.Thread(target=_take_down, args=(behind, context, reached), daemon=True).start()
        configuration = write_proxy(open_folder, f"127.0.0.1:{port}", behind.getsockname()[1])
        command = [str(NGINX), "-e", "stderr", "-p", str(open_folder), "-c", str(configuration), "-g", "daemon off;"]
        nginx = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            while not listens(port):
                assert nginx.poll() is None
            yield port, reached
        finally:
            nginx.terminate()
            nginx.wait()


def _take_down(behind: socket.socket, context: ssl.SSLContext, reached: list[bytes]) -> None:
    while True:
        try:
            link, _ = behind.accept()
        except OSError:  # closed
            return
        with context.wrap_socket(link, server_side=True) as secured, secured.makefile("rb") as request:
            head = b"".join(iter(request.readline, b"\r\n"))
            request.read(int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0]))
            reached.append(head)
            secured.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


@needs_nginx
def test_what_the_proxy_passes_on(proxy: tuple[int, list[bytes]], open_folder: Path) -> None:
    port, reached = proxy
    ca = open_folder / "ca.crt"

    def status(path: str, body: bytes = b"", **headers: str) -> int:
        return ask(port, path, body, headers, ca, "localhost")[0]

    refused = ("/", "/docs", "/v1/control/start-run", "/v1/fleet/", "/v1/fleet/x", "/v1/fleet/../control/start-run")
    assert {status(path) for path in refused} == {403}
    assert status("/v1/fleet/push-object", bytes(9 << 20)) in {0, 413}
    assert reached == []
    assert status("/v1/fleet/push-object", bytes(6 << 20), **{"X-Forwarded-For": "127.0.0.1"}) == 200
    [request] = reached
    assert request.startswith(b"POST /v1/fleet/push-object HTTP/1.1\r\n")
    assert b"Host: 127.0.0.1:" in request
    assert b"X-Forwarded" not in request


@needs_nginx
@pytest.mark.slow
@pytest.mark.parametrize(
    "begun",
    [
        b"POST /v1/fleet/push-object HTTP/1.1\r\nHost: x\r\n",
        b"POST /v1/fleet/push-object HTTP/1.1\r\nHost: x\r\nContent-Length: 999\r\n\r\nsome",
    ],
    ids=["headers", "body"],
)
def test_who_never_ends_a_request_is_cut_off(begun: bytes, proxy: tuple[int, list[bytes]], open_folder: Path) -> None:
    port, reached = proxy
    context = ssl.create_default_context(cafile=str(open_folder / "ca.crt"))
    with (
        socket.create_connection(("127.0.0.1", port), timeout=90) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as link,
    ):
        link.sendall(begun)
        try:
            said = link.recv(4096)
        except ConnectionResetError:
            said = b""
    assert said == b"" or b" 408 " in said
    assert reached == []
