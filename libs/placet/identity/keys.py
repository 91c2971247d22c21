"""Ed25519 keys as JWK files (RFC 8037), made and read in one place."""

from __future__ import annotations

import json
import os
from pathlib import Path

from joserfc.errors import JoseError
from joserfc.jwk import KeySet, OKPKey


def generate() -> OKPKey:
    """A fresh Ed25519 key whose `kid` is its thumbprint (RFC 7638)."""
    key = OKPKey.generate_key("Ed25519", private=True)
    key.ensure_kid()
    return key


def write_pair(directory: Path, name: str) -> OKPKey:
    """Make `<name>.private.jwk` (mode 0600) and `<name>.public.jwk` unless they are there; returns the key."""
    directory.mkdir(parents=True, exist_ok=True)
    private = directory / f"{name}.private.jwk"
    if not private.exists():
        key = generate()
        write_secret(private, json.dumps(key.as_dict(private=True)))
    key = read(private)
    public = directory / f"{name}.public.jwk"
    if not public.exists():
        public.write_text(json.dumps(key.as_dict(private=False)), encoding="utf-8")
    return key


def write_secret(path: Path, text: str) -> None:
    """Write a file only its owner can read, whole or not at all."""
    partial = path.with_suffix(path.suffix + ".partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    partial.replace(path)


def read(path: Path) -> OKPKey:
    """Read a JWK file. Raises `FileNotFoundError`, or `ValueError` when it is not an Ed25519 key."""
    try:
        key = OKPKey.import_key(json.loads(path.read_text(encoding="utf-8")))
        key.ensure_kid()
    except (JoseError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} holds no Ed25519 key") from error
    if key.curve_name != "Ed25519":
        raise ValueError(f"{path} holds a key for another curve")
    return key


def key_set(*keys: OKPKey) -> KeySet:
    """The public halves as a JWKS."""
    return KeySet([OKPKey.import_key(key.as_dict(private=False)) for key in keys])
