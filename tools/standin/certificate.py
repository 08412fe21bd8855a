"""A cluster's certificate authority where there is no test bed: the Kubernetes provider reads it as a certificate."""

import base64
from pathlib import Path


def authority(folder: Path) -> str:
    """The account's one self-signed certificate, PEM in base64, made at its first use."""
    path = folder / "authority.pem"
    if not path.exists():
        path.with_suffix(".new").write_bytes(_made())
        path.with_suffix(".new").rename(path)
    return base64.b64encode(path.read_bytes()).decode()


def _made() -> bytes:
    # Not at the top: only the first cluster of an account needs it.
    import datetime

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=3650))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM)
