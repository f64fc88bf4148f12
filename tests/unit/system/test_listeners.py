"""Which addresses of this machine are listened at, and by whom."""

import os
import socket

import pytest

from zbk.system.listeners import listeners, owners_of, python_listeners


@pytest.mark.parametrize(
    ("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
)
def test_the_address_of_a_python_program_is_found_with_its_process(family: int, host: str) -> None:
    try:
        own = socket.create_server((host, 0), family=socket.AddressFamily(family))
    except OSError as error:
        pytest.skip(f"this machine has no such address: {error}")
    with own:
        port = own.getsockname()[1]
        found = [(pid, one.host) for pid, one in python_listeners() if one.port == port]
        assert found == [(os.getpid(), host)]
    assert not [one for one in listeners() if one.port == port]


def test_a_socket_that_only_is_bound_is_no_listener() -> None:
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        assert own.getsockname()[1] not in {one.port for one in listeners()}


def test_a_socket_without_a_process_has_no_owner() -> None:
    assert list(owners_of({"0": None})) == []
