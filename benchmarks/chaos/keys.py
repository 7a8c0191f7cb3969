"""Certificates, tokens and keys that rotate. OpenSSL makes them."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import threading
import time
from pathlib import Path

EVERY = 75.0  # seconds between rotations: 24 times as fast as half-hourly ones
LIFE = 150.0  # of a token, and of vended keys: a 24th of an hour
_KEPT_KEYS = 3  # of the issuer: the next one, the one that signs, and the one before
_KEPT_TICKET_KEYS = 60  # more than a lifetime of tickets needs
ISSUER, AUDIENCE = "https://issuer.chaos", "penstock"


class Keys:
    """The files of a folder, and the token of vended keys of S3.

    Attributes:
        ca: the certificate that clients trust.
        token: the file with the token of clients.
        rotations: how many there were.
    """

    def __init__(self, folder: Path, names: list[str]) -> None:
        """Names are those of the servers in subjectAltName's form."""
        folder.mkdir(mode=0o700)
        self._folder, self._names = folder, ",".join(names)
        self.ca, self.token = folder / "ca.pem", folder / "client.token"
        self.certificate, self.key = folder / "server.pem", folder / "server.key"
        self.issuer_keys, self.ticket_keys = folder / "issuer.json", folder / "tickets.keys"
        self._published: list[dict[str, str]] = []
        self._signed: list[str] = []  # lines of ticket keys; the first one signs
        self._vended: dict[str, float] = {}
        self._guard = threading.Lock()
        self.rotations = 0
        _openssl(
            *["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=chaos", "-keyout"],
            str(folder / "ca.key"),
            "-out",
            str(self.ca),
        )
        self.rotate()

    def rotate(self) -> None:
        """Replaces everything; what was made before the last rotation ends soon."""
        with self._guard:
            self.rotations += 1
            self._rotate_certificate()
            self._rotate_issuer()
            self._rotate_ticket_keys()
        self.sign()

    def sign(self, life: float = LIFE) -> None:
        """Writes a new token of clients. Its key was published by the rotation before, so that servers have it."""
        head = {"alg": "RS256", "kid": self._published[-2:][0]["kid"]}
        now = time.time()
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "trainers", "iat": int(now), "exp": int(now + life)}
        text = ".".join(_base64(json.dumps(part).encode()) for part in (head, claims))
        key = str(self._folder / f"issuer-{head['kid']}.key")
        done = subprocess.run(
            ["openssl", "dgst", "-sha256", "-sign", key], input=text.encode(), capture_output=True, check=True
        )
        _write(self.token, f"{text}.{_base64(done.stdout)}")

    def mismatch(self) -> None:
        """Replaces the certificate's key with another one."""
        with self._guard:
            _openssl("genpkey", "-algorithm", "RSA", "-out", str(self._folder / "other.key"))
            _write(self.key, (self._folder / "other.key").read_text())

    def mend(self) -> None:
        """Makes a certificate and a key that fit."""
        with self._guard:
            self._rotate_certificate()

    def vend(self) -> dict[str, str]:
        """Properties of keys that S3 accepts for a while."""
        ends = time.time() + LIFE
        with self._guard:
            token = f"session-{len(self._vended)}"
            self._vended[token] = ends
        return {"s3.session-token": token, "s3.session-token-expires-at-ms": str(int(ends * 1000))}

    def admits(self, session: str | None) -> bool:
        """Whether S3 accepts a session's token now. Keys without a session are static."""
        with self._guard:
            return session is None or self._vended.get(session, 0) > time.time()

    def _rotate_certificate(self) -> None:
        made = self._folder / "made"
        names = self._folder / "names"
        names.write_text(f"subjectAltName={self._names}")
        _openssl(
            *["req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=server", "-keyout"],
            f"{made}.key",
            "-out",
            f"{made}.csr",
        )
        ca = ["-CA", str(self.ca), "-CAkey", str(self._folder / "ca.key"), "-CAcreateserial"]
        _openssl(
            *["x509", "-req", "-in", f"{made}.csr", *ca, "-days", "1"],
            *["-extfile", str(names), "-out", f"{made}.pem"],
        )
        _write(self.key, Path(f"{made}.key").read_text())
        _write(self.certificate, Path(f"{made}.pem").read_text())

    def _rotate_issuer(self) -> None:
        kid = f"k{self.rotations}"
        key = self._folder / f"issuer-{kid}.key"
        _openssl("genpkey", "-algorithm", "RSA", "-out", str(key))
        modulus = _openssl("rsa", "-in", str(key), "-noout", "-modulus").partition("=")[2].strip()
        public = {"kty": "RSA", "kid": kid, "alg": "RS256", "use": "sig", "e": "AQAB"}
        self._published = [*self._published, {**public, "n": _base64(bytes.fromhex(modulus))}][-_KEPT_KEYS:]
        _write(self.issuer_keys, json.dumps({"keys": self._published}))

    def _rotate_ticket_keys(self) -> None:
        """Adds a key that signs from the next rotation on."""
        line = f"t{self.rotations} {base64.b64encode(os.urandom(32)).decode()}"
        if len(self._signed) > 1:
            self._signed.insert(0, self._signed.pop())
        self._signed.append(line)
        while len(self._signed) > _KEPT_TICKET_KEYS:
            del self._signed[-2]
        _write(self.ticket_keys, "\n".join(self._signed) + "\n")


def _write(file: Path, text: str) -> None:
    """Replaces a file, which only this user may read."""
    part = file.with_suffix(".part")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        out.write(text)
    part.rename(file)


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _openssl(*arguments: str) -> str:
    return subprocess.run(["openssl", *arguments], check=True, capture_output=True, text=True).stdout
