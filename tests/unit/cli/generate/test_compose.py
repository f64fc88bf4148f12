"""``zbk generate compose``: its services fit each other, and what zbk accepts."""

import pytest

from tests.support.cli import Run
from tests.support.generated_files import COMPOSE, check_environment, commands_in, parse
from zbk.cli.generate.compose import compose_file


def test_compose_has_zookeeper_bookies_and_autorecovery() -> None:
    services = COMPOSE["services"]

    assert list(services) == [
        "zookeeper", "token", "bookie1", "bookie2", "bookie3", "autorecovery", "console"
    ]  # fmt: skip
    environments = [one.get("environment", {}) for one in services.values()]
    addresses = [one.get("ZBK_BOOKIE_ADVERTISE") for one in environments]
    assert addresses[2:5] == [f"tcp://bookie{number}:3181" for number in (1, 2, 3)]
    mounted = [
        volume.split(":")[0] for one in services.values() for volume in one.get("volumes", ())
    ]
    assert set(mounted) == set(COMPOSE["volumes"])
    for name, service in services.items():
        assert ("healthcheck" in service) == (name != "token"), name  # it ends by itself
        for other in service.get("depends_on", ()):
            assert other in services


@pytest.mark.parametrize("name", ["token", "bookie1", "autorecovery", "console"])
def test_the_commands_of_compose_are_those_of_zbk(name: str) -> None:
    service = COMPOSE["services"][name]

    commands = list(commands_in(service["command"]))

    assert commands
    for command in commands:
        parse(command)
    check_environment(service.get("environment", {}))


def test_the_number_of_bookies_is_chosen(run: Run) -> None:
    assert len(compose_file(5, "i")["services"]) == 9
    assert "bookie5" in run("generate", "compose", "--bookies", "5").stdout
