"""The roles of client processes, by name."""

from collections.abc import Callable

from tests.chaos import client_roles, log_roles
from tests.chaos.client import Stage

ROLES: dict[str, Callable[[Stage], None]] = {
    "write": client_roles.write,
    "read": client_roles.read,
    "tail": client_roles.tail,
    "recover": client_roles.recover,
    "take_over": client_roles.take_over,
    "own": log_roles.own,
    "read_log": log_roles.read_log,
}
