"""What a vehicle must know to take part: who it is, where its base station is, and who trains for it."""

import math
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key

from mobfl.errors import InputError

_MOST_NAME = 80  # characters, as many as a base station notes


@dataclass(frozen=True)
class Vehicle:
    """Checked as it is built; paths as text, so that it can be told as JSON."""

    name: str
    superlink: str  # HOST:PORT
    trainer: str  # the socket at which its trainer answers
    insecure: bool = False
    root_certificates: str | None = None  # who vouches for the base station; None: whom this system trusts
    key: str | None = None  # the file of the private key that the base station knows the vehicle by
    draws: str = ""  # where vehicles are simulated, what their draws are addressed by,
    enter_s: float = -math.inf  # and when they come and go, on the road's clock
    leave_s: float = math.inf

    def __post_init__(self) -> None:
        if not 1 <= len(self.name) <= _MOST_NAME or not self.name.isprintable():
            raise InputError(f"name must be 1 to {_MOST_NAME} printable characters, got {self.name[:200]!r}")
        host, _, port = self.superlink.rpartition(":")
        if not host or "/" in host or not port.isascii() or not port.isdigit() or not 1 <= int(port[:6]) <= 65535:
            raise InputError(f"superlink must be HOST:PORT, got {self.superlink!r}")
        if self.insecure and (self.root_certificates or self.key):
            raise InputError("insecure must come without root-certificates and key, got one of them")
        self.tls()
        self.private_key()

    @property
    def url(self) -> str:
        return f"{'http' if self.insecure else 'https'}://{self.superlink}"

    def tls(self) -> ssl.SSLContext | bool:
        if self.insecure or self.root_certificates is None:
            return not self.insecure
        try:
            return ssl.create_default_context(cafile=self.root_certificates)
        except (OSError, ssl.SSLError) as error:
            found = getattr(error, "strerror", None) or error
            raise InputError(
                f"root-certificates {self.root_certificates} must be a file with certificates, got {found}"
            ) from None

    def private_key(self) -> ec.EllipticCurvePrivateKey | None:
        if self.key is None:
            return None
        try:
            loaded = load_ssh_private_key(Path(self.key).read_bytes(), None)
        except OSError as error:
            raise InputError(f"key {self.key} must be a private key's file, got {error.strerror}") from None
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise InputError(f"key {self.key} must be a private key without a password, got {error}") from None
        if not isinstance(loaded, ec.EllipticCurvePrivateKey):
            raise InputError(f"key {self.key} must be of the kind ecdsa, got {type(loaded).__name__}")
        return loaded
