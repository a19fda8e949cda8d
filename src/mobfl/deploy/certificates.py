"""The certificates of a base station: made once, by an authority of its own whose `ca.crt` the vehicles trust."""

import ipaddress
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from mobfl.errors import InputError

CA, CA_KEY, SERVER, SERVER_KEY = "ca.crt", "ca.key", "server.crt", "server.key"
_OWN_NAMES = ("localhost", "127.0.0.1")  # proxy and operator ask for the SuperLink under these
_VALID = timedelta(days=365)
_AN_HOUR = timedelta(hours=1)  # clocks differ


def ensure_certificates(folder: Path, names: Sequence[str]) -> bool:
    """Whether new ones were made; those that are there are kept, if they are good for these names and not over."""
    if (folder / SERVER).exists():
        _check(folder, names)
        return False
    if not (folder / CA).exists():
        key = _new_key(folder / CA_KEY)
        _write(folder / CA, _signed(_subject("mobfl base station"), key, key, [], authority=True))
    elif not (folder / CA_KEY).exists():
        raise InputError(f"{folder} must hold {CA_KEY} to make {SERVER} from, or {SERVER} itself, got {CA} alone")
    authority = x509.load_pem_x509_certificate((folder / CA).read_bytes())
    signer = load_pem_private_key((folder / CA_KEY).read_bytes(), None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise InputError(f"{folder / CA_KEY} must be an elliptic-curve key, got another kind")
    key = _new_key(folder / SERVER_KEY)
    _write(folder / SERVER, _signed(authority.subject, key, signer, [*_OWN_NAMES, *names], authority=False))
    return True


def _check(folder: Path, names: Sequence[str]) -> None:
    remedy = f"delete {folder / SERVER} and start again for a new one"
    certificate = x509.load_pem_x509_certificate((folder / SERVER).read_bytes())
    if certificate.not_valid_after_utc < datetime.now(UTC):
        raise InputError(
            f"{SERVER} must not have expired, got one until {certificate.not_valid_after_utc:%Y-%m-%d}: {remedy}"
        )
    held = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    for name in (_OWN_NAMES[0], *names):
        if _general_name(name) not in list(held):
            raise InputError(
                f"{SERVER} must be for {name}, got one for {', '.join(str(n.value) for n in held)}: {remedy}"
            )


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _signed(
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    names: Sequence[str],
    authority: bool,
) -> bytes:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(issuer if authority else _subject("SuperLink"))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _AN_HOUR)
        .not_valid_after(now + (10 * _VALID if authority else _VALID))
        .add_extension(x509.BasicConstraints(authority, 0 if authority else None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .add_extension(_usage(authority), critical=True)
    )
    if names:
        distinct = [_general_name(name) for name in dict.fromkeys(names)]
        builder = builder.add_extension(x509.SubjectAlternativeName(distinct), critical=False)
    return builder.sign(signer, SHA384()).public_bytes(Encoding.PEM)


def _usage(authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority, key_cert_sign=authority, crl_sign=authority, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _new_key(file: Path) -> ec.EllipticCurvePrivateKey:
    key = ec.generate_private_key(ec.SECP384R1())
    _write(file, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), mode=0o600)
    return key


def _write(file: Path, data: bytes, mode: int = 0o644) -> None:
    """Nobody else can read a key, not even while it is being written."""
    part = file.with_suffix(f"{file.suffix}.part")
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as output:
        output.write(data)
    part.replace(file)
