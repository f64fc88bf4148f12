"""Certificates for tests, made by ``openssl``: an authority, and what it signs."""

import shutil
import subprocess
from pathlib import Path


class Authority:
    """An authority that signs certificates, with its files in a folder."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.key, self.certificate = folder / f"{name}.key.pem", folder / f"{name}.pem"
        self._openssl(
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
            "-keyout", str(self.key), "-out", str(self.certificate),
        )  # fmt: skip

    def sign(self, name: str, alternatives: str) -> tuple[Path, Path]:
        """Return the private key and the certificate of a new name; both are PEM files."""
        key, request = self._folder / f"{name}.key.pem", self._folder / f"{name}.csr"
        certificate, extension = self._folder / f"{name}.pem", self._folder / f"{name}.ext"
        extension.write_text(f"subjectAltName={alternatives}\n", encoding="ascii")
        self._openssl(
            "req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}",
            "-keyout", str(key), "-out", str(request),
        )  # fmt: skip
        self._openssl(
            "x509", "-req", "-in", str(request), "-CA", str(self.certificate), "-CAkey",
            str(self.key), "-CAcreateserial", "-days", "2", "-extfile", str(extension),
            "-out", str(certificate),
        )  # fmt: skip
        return key, certificate

    def _openssl(self, *arguments: str) -> None:
        program = shutil.which("openssl")
        assert program, "openssl is installed"
        subprocess.run([program, *arguments], check=True, capture_output=True, cwd=self._folder)
