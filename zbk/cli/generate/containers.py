"""What compose files and Kubernetes manifests share: the environment and the start of a bookie."""

from typing import Final

import zbk

BOOKIE_PORT: Final = 3181
HTTP_PORT: Final = 9181
CONSOLE_PORT: Final = 8710
USER_ID: Final = 10_001
STOP_S: Final = 60
"""Seconds in which a bookie ends its last checkpoint."""

DEFAULT_IMAGE: Final = f"zbk:{zbk.__version__}"

JOURNAL_DIR: Final = "/data/journal/zbk"  # a volume has other files at its top (lost+found)
LEDGER_DIR: Final = "/data/ledgers/zbk"

INIT_COMMAND: Final = f"test -e {JOURNAL_DIR}/cookie || zbk bookie init"
"""Makes the bookie's id once. The id stays in the volumes, wherever they are mounted next."""

TOKEN_DIR: Final = "/run/zbk"  # noqa: S105 - a path
TOKEN_FILE: Final = f"{TOKEN_DIR}/token"
"""The secret of the admin APIs: bookies require it, and the console shows it to them."""

TOKEN_COMMAND: Final = ("zbk", "generate", "token", "--file", TOKEN_FILE)
"""Makes the token once."""

RUN_COMMAND: Final = ("zbk", "bookie", "run", "--log-format", "json")
SERVE_COMMAND: Final = (*RUN_COMMAND, "--http-token-file", TOKEN_FILE)
AUTORECOVERY_COMMAND: Final = ("zbk", "autorecovery", "run", "--log-format", "json")


def console_command(host: str) -> list[str]:
    """Return the command of a console that listens at ``host`` in its container."""
    token_options = ["--http-token-file", TOKEN_FILE, "--bookie-token-file", TOKEN_FILE]
    address = f"{host}:{CONSOLE_PORT}"
    return ["zbk", "console", "--http", address, "--log-format", "json", *token_options]


def http_check(port: int = HTTP_PORT, path: str = "/readyz") -> list[str]:
    """Return the command that fails unless a server on loopback answers."""
    program = (  # urllib would ask a proxy of the environment, which does not reach loopback
        f"import http.client as c; h = c.HTTPConnection('127.0.0.1', {port}, timeout=3); "
        f"h.request('GET', '{path}'); exit(h.getresponse().status != 200)"
    )
    return ["python3", "-c", program]


def bookie_environment(metadata: str, advertise: str) -> dict[str, str]:
    """Return the environment of a bookie in a container, which has no key."""
    return {
        "ZBK_METADATA": metadata,
        "ZBK_BOOKIE_JOURNAL_DIR": JOURNAL_DIR,
        "ZBK_BOOKIE_LEDGER_DIR": LEDGER_DIR,
        "ZBK_BOOKIE_LISTEN": f"tcp://0.0.0.0:{BOOKIE_PORT}",
        "ZBK_BOOKIE_ADVERTISE": advertise,
        "ZBK_BOOKIE_HTTP": f"0.0.0.0:{HTTP_PORT}",
        "ZBK_INSECURE": "true",
    }


def autorecovery_environment(metadata: str) -> dict[str, str]:
    """Return the environment of autorecovery in a container."""
    return {"ZBK_METADATA": metadata, "ZBK_AUTORECOVERY_HTTP": f"0.0.0.0:{HTTP_PORT}"}
