"""A base station that is open to the road: a SuperLink that only its own user reaches, and the proxy before it."""

import os
import shutil
import socket
import stat
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import tomli_w

from mobfl.deploy.certificates import CA, SERVER, SERVER_KEY, ensure_certificates
from mobfl.deploy.flower_app import CONNECTION
from mobfl.deploy.local import processes
from mobfl.deploy.local.deployment import flower_environment, last_words, listens
from mobfl.deploy.proxy import write_proxy
from mobfl.errors import InputError, MobflError
from mobfl.interrupts import handled, interrupt, undisturbed
from mobfl.runs.folder import is_locked, locked

_PATIENCE_S = 120.0
_LOOK_S = 0.1
_ELSEWHERE = "/usr/local/sbin:/usr/sbin"  # not on every user's PATH
_MARK = "MOBFL_STATION"
_LOOPBACK = "127.0.0.1"
_REACHED = {"0.0.0.0": _LOOPBACK, "::": "::1"}  # who listens everywhere is asked here


class GatewayError(MobflError):
    """The base station could not be opened, or a part of it has ended by itself."""


def keep_open(home: Path, names: Sequence[str], listen: tuple[str, int], say: Callable[[str], None]) -> None:
    """Until it is interrupted or told to end; what is there from before is used again."""
    nginx = _find_nginx()
    home = home.absolute()
    _make(home)
    if is_locked(home):
        raise InputError(f"station {home} must not be open, got one that another process keeps open")
    with locked(home), handled(interrupt):
        if ensure_certificates(home, names):
            say(f"made certificates for {', '.join(names) or 'this machine'}: vehicles need {home / CA}")
        _check_free(*listen)
        port = processes.free_port()
        write_flower_home(home, port)
        try:
            _run(home, nginx, listen, port, say)
        except KeyboardInterrupt:
            say(f"station {home} is closed")


def _make(home: Path) -> None:
    if home.exists() and not home.is_dir():
        raise InputError(f"folder must be a folder, got the file {home}")
    closed = [path for path in (home, *home.parents) if path.exists() and not path.stat().st_mode & stat.S_IXOTH]
    if os.geteuid() == 0 and closed:
        raise InputError(f"folder must be reachable for the user that root's nginx becomes, got {home} in {closed[-1]}")
    home.mkdir(parents=True, exist_ok=True)
    for private in ("flower", "state", "logs"):  # models and keys of vehicles are nobody else's
        (home / private).mkdir(mode=0o700, exist_ok=True)


def write_flower_home(home: Path, port: int) -> None:
    """Where `flwr` finds the SuperLink, if FLWR_HOME is this folder."""
    link = {"address": f"{_LOOPBACK}:{port}", "root-certificates": str(home / CA)}
    text = tomli_w.dumps({"superlink": {"default": CONNECTION, CONNECTION: link}})
    (home / "flower" / "config.toml").write_text(text, encoding="utf-8")


def _run(home: Path, nginx: str, listen: tuple[str, int], port: int, say: Callable[[str], None]) -> None:
    mark = uuid.uuid4().hex
    environment = {**flower_environment(home / "flower"), _MARK: mark}
    running = dict[str, subprocess.Popen[bytes]]()
    try:
        for name, command, (host, at) in (
            ("superlink", _superlink(home, port), (_LOOPBACK, port)),
            ("proxy", _proxy(home, nginx, listen, port), (_REACHED.get(listen[0], listen[0]), listen[1])),
        ):
            running[name] = processes.start(command, environment, home / "logs" / f"{name}.log")
            _wait_for(running, home, host, at)
        say(f"station {home} is open at {_address(*listen)}; for flwr: export FLWR_HOME={home / 'flower'}")
        while True:
            _check(running, home)
            time.sleep(_LOOK_S)
    finally:
        with undisturbed():
            processes.end(list(running.values()))
            processes.end_carrying(f"{_MARK}={mark}")  # SuperLink detaches what it starts


def _superlink(home: Path, port: int) -> list[str]:
    files = {"ca-certfile": CA, "certfile": SERVER, "keyfile": SERVER_KEY}
    certificates = [f"--ssl-{kind}={home / file}" for kind, file in files.items()]
    words = ["--host", _LOOPBACK, "--port", str(port), "--database", str(home / "state" / "superlink.db")]
    return [sys.executable, "-m", "mobfl.deploy.superlink", "--enable-supernode-auth", *words, *certificates]


def _proxy(home: Path, nginx: str, listen: tuple[str, int], port: int) -> list[str]:
    configuration = write_proxy(home, _address(*listen), port)
    command = [nginx, "-e", "stderr", "-p", str(home / "proxy"), "-c", str(configuration)]
    tried = subprocess.run([*command, "-t"], capture_output=True, text=True, check=False)
    if tried.returncode:
        raise GatewayError(f"nginx refuses {configuration}: {tried.stderr.strip().splitlines()[0]}")
    return [*command, "-g", "daemon off;"]


def _find_nginx() -> str:
    found = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}{os.pathsep}{_ELSEWHERE}")
    if found is None:
        raise GatewayError("mobfl station needs nginx before the SuperLink: apt install nginx-light")
    return found


def _check_free(host: str, port: int) -> None:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise InputError(f"listen must be free, got {_address(host, port)}: {reason}") from None


def _wait_for(running: dict[str, subprocess.Popen[bytes]], home: Path, host: str, port: int) -> None:
    until = time.monotonic() + _PATIENCE_S
    while not listens(port, host):
        _check(running, home)
        if time.monotonic() > until:
            raise GatewayError(f"nothing listens at port {port} after {_PATIENCE_S:g} s: see {home / 'logs'}")
        time.sleep(_LOOK_S)


def _check(running: dict[str, subprocess.Popen[bytes]], home: Path) -> None:
    for name, process in running.items():
        if process.poll() is not None:
            raise GatewayError(last_words(name, home / "logs" / f"{name}.log"))


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
