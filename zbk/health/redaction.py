"""Removal of secrets from text that leaves a machine. Pure.

Removed are the secrets that are known (the values of variables such as ``ZBK_PASSWORD``), and what
the text itself names as one: a value after a word such as password, secret, token or payload, the
credentials in an address, and private keys. A line stays a line.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

REMOVED: Final = "[removed]"
SECRET_SIZE_MIN: Final = 6
"""A shorter known secret would remove parts of ordinary words; a pattern may still find it."""

_NAMES: Final = (
    r"pass(?:word|wd|phrase)|secret|token|api[_-]?key|private[_-]?key|access[_-]?key|ledger[_-]?key"
    r"|credentials?|authorization|payload|custom[_-]?metadata"
)
_SECRET_NAME: Final = re.compile(r"pass(word|wd|phrase)|secret|token|key|credential", re.IGNORECASE)
_NAMED: Final = re.compile(
    rf"""(?i)\b(?P<name>[\w-]*(?:{_NAMES})[\w-]*["']?\s*[:=]\s*)"""
    r"""(?P<value>(?:bearer|basic)\s+\S+|b?"(?:[^"\\]|\\.)*"|b?'(?:[^'\\]|\\.)*'|\{[^{}]*\}|[^\s,;}]+)"""
)
_CREDENTIALS: Final = re.compile(r"(?P<scheme>\b[a-z][a-z0-9+.-]*://)[^\s/@]+@", re.IGNORECASE)
_BEARER: Final = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}")
_PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)


def known_secrets(environment: Mapping[str, str]) -> list[str]:
    """Return the values of the variables whose names say that they are secret, longest first."""
    found = {value for name, value in environment.items() if _SECRET_NAME.search(name)}
    return sorted((one for one in found if len(one) >= SECRET_SIZE_MIN), key=len, reverse=True)


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    """Return a text without secrets.

    >>> redacted('user=ann password="a b" at zk://u:p@h/zbk')
    'user=ann password="[removed]" at zk://[removed]@h/zbk'
    """
    for secret in secrets:
        text = text.replace(secret, REMOVED)
    text = _PRIVATE_KEY.sub(REMOVED, text)
    text = _NAMED.sub(_without_value, text)
    text = _CREDENTIALS.sub(lambda match: f"{match['scheme']}{REMOVED}@", text)
    return _BEARER.sub(REMOVED, text)


def redacted_option(name: str, value: object, secrets: Iterable[str] = ()) -> str:
    """Return the value of an option as a text without secrets.

    >>> redacted_option("token", "a-secret"), redacted_option("metadata", "zk://u:p@h/zbk")
    ('[removed]', 'zk://[removed]@h/zbk')
    """
    return redacted(f"{name}: {value}", secrets).partition(": ")[2]


def _without_value(match: re.Match[str]) -> str:
    """Return the name, and what stands for its value; in JSON that stays a string."""
    is_json = '"' in match["name"] or match["value"].startswith('"')
    return match["name"] + (f'"{REMOVED}"' if is_json else REMOVED)
