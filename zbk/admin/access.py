"""Who may use the admin API of a process: the token, and whether actions are allowed."""

import secrets
from pathlib import Path
from typing import Final

import msgspec

from zbk.errors import InvalidOptionError

TOKEN_SIZE_MIN: Final = 16
TOKEN_SIZE_MAX: Final = 1_024


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """``token`` "" requires none, which suffices on loopback only."""

    is_loopback: bool
    token: str = ""
    has_actions: bool = False

    def __repr__(self) -> str:
        return f"<Access is_loopback={self.is_loopback} has_actions={self.has_actions}>"

    def refusal(self, authorization: str) -> tuple[int, str] | None:
        """Return status and text for a request that is refused; ``None`` if it is not."""
        if not self.token:
            if self.is_loopback:
                return None
            return 403, "beyond loopback the admin API needs a token: --http-token-file"
        scheme, _, given = authorization.partition(" ")
        is_equal = secrets.compare_digest(given.strip().encode(), self.token.encode())
        if scheme.lower() == "bearer" and is_equal:
            return None
        return 401, "give the token: Authorization: Bearer TOKEN"


def read_token(path: Path) -> str:
    """Return the token that a file holds.

    Raises:
        InvalidOptionError: the file cannot be read, or holds no token.
    """
    try:
        with path.open("rb") as file:
            token = file.read(TOKEN_SIZE_MAX + 1).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = f"cannot be read: {error}"
        raise InvalidOptionError("http token file", str(path), reason) from error
    if not TOKEN_SIZE_MIN <= len(token) <= TOKEN_SIZE_MAX or len(token.split()) != 1:
        reason = f"must hold one word of {TOKEN_SIZE_MIN} to {TOKEN_SIZE_MAX} ASCII characters"
        raise InvalidOptionError("http token file", str(path), reason)
    return token
