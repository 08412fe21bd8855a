"""The bed's one certificate, its own authority, and the key that signs service account tokens."""

import datetime
import ipaddress
from pathlib import Path

NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
LIFETIME = datetime.timedelta(days=30)


def write(folder: Path) -> None:
    """Writes tls.crt, tls.key, service-account.key and service-account.pub (PEM) into `folder`."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    def private(key: ec.EllipticCurvePrivateKey) -> bytes:
        plain = serialization.NoEncryption()
        return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)

    key, signer = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ray-train-efa test bed")])
    names: list[x509.GeneralName] = [x509.DNSName(value) for value in NAMES]
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    # Signs itself and serves: certificate authority and server in one. Python checks each of these extensions.
    usage = x509.KeyUsage(True, False, False, False, False, True, False, False, False)
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(identifier, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([*names, x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    public = serialization.PublicFormat.SubjectPublicKeyInfo
    for file, content in {
        "tls.crt": certificate.public_bytes(serialization.Encoding.PEM),
        "tls.key": private(key),
        "service-account.key": private(signer),
        "service-account.pub": signer.public_key().public_bytes(serialization.Encoding.PEM, public),
    }.items():
        (folder / file).write_bytes(content)
