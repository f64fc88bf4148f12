"""``zbk generate token``, and the tokens of the processes in generated files."""

from pathlib import Path

import kubernetes_validate

from tests.support.cli import Run
from tests.support.generated_files import COMPOSE, containers, parsed
from zbk.admin.access import read_token
from zbk.cli.generate.containers import TOKEN_DIR, TOKEN_FILE
from zbk.cli.generate.k8s import token_manifest


def test_compose_makes_one_token_that_bookies_require_and_the_console_has() -> None:
    services = COMPOSE["services"]
    maker = services["token"]
    assert (maker["network_mode"], maker["volumes"]) == ("none", [f"token:{TOKEN_DIR}"])
    assert maker["command"][-1] == TOKEN_FILE
    for name in ("bookie1", "bookie2", "bookie3", "console"):
        service = services[name]
        assert f"token:{TOKEN_DIR}:ro" in service["volumes"]
        assert f"--http-token-file {TOKEN_FILE}" in " ".join(service["command"])
        assert service["depends_on"]["token"] == {"condition": "service_completed_successfully"}
    assert f"--bookie-token-file {TOKEN_FILE}" in " ".join(services["console"]["command"])


def secret_in(text: str) -> str:
    (found,) = [one for one in parsed(text) if one["kind"] == "Secret"]
    kubernetes_validate.validate(found, "1.27", strict=True)
    assert found == token_manifest(found["stringData"]["token"])
    return str(found["stringData"]["token"])


def test_kubernetes_has_a_new_token_or_the_secret_that_is_named(run: Run) -> None:
    first, second = (secret_in(run("generate", "k8s").stdout) for _ in range(2))
    assert first != second
    assert len(first) >= 43

    named = parsed(run("generate", "k8s", "--token-secret", "other").stdout)

    assert "Secret" not in [one["kind"] for one in named]
    volumes = [
        volume["secret"]["secretName"]
        for one in named
        if "template" in one["spec"]
        for volume in one["spec"]["template"]["spec"]["volumes"]
        if "secret" in volume
    ]
    assert volumes == ["other", "other"], "of bookies and of the console"


def test_pods_require_and_show_the_token_of_the_secret() -> None:
    path = f"{TOKEN_DIR}/{next(iter(token_manifest('t')['stringData']))}"
    found = {}
    for container, pod, _ in containers():
        words = container["command"]
        used = {one for one in words if one.endswith("-token-file")}
        if used:
            assert [words[words.index(one) + 1] for one in used] == [path] * len(used)
            mount = {"name": "token", "mountPath": TOKEN_DIR, "readOnly": True}
            assert mount in container["volumeMounts"]
            (volume,) = [one for one in pod["volumes"] if one["name"] == "token"]
            assert volume["secret"] == {"secretName": "zbk-token", "defaultMode": 0o440}
        found[container["name"]] = used
    assert found == {
        "init": set(),
        "bookie": {"--http-token-file"},
        "autorecovery": set(),
        "console": {"--http-token-file", "--bookie-token-file"},
    }


def test_a_token_is_made_once_and_only_its_owner_reads_it(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "token"
    assert run("generate", "token").stdout != run("generate", "token").stdout
    (tmp_path / "token.new").write_text("half")  # of a start that a crash ended

    assert run("generate", "token", "--file", str(file)).stdout == ""

    token = read_token(file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert run("generate", "token", "--file", str(file)).exit_code == 0
    assert read_token(file) == token
    file.write_text("")
    refused = run("generate", "token", "--file", str(file))
    assert refused.exit_code == 1
    assert "must hold one word" in refused.stderr
