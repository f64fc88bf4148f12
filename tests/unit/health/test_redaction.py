"""Secrets are removed from text, and the rest stays."""

import json

import pytest

from zbk.health.redaction import known_secrets, redacted

CANARY = "c4n4ry-S3cret"


@pytest.mark.parametrize(
    "text",
    [
        f"password={CANARY}",
        f"PASSWORD: {CANARY}",
        f"--password={CANARY} --x",
        f"zbk_password = '{CANARY} and more {CANARY}'",
        f'{{"password": "{CANARY}", "x": 1}}',
        f'{{"ledger_key": "{CANARY}\\" still {CANARY}"}}',
        f"client_secret={CANARY}; next",
        f"api-key: {CANARY}",
        f"Authorization: Bearer {CANARY}",
        f"authorization=Basic {CANARY}",
        f"header Bearer {CANARY}",
        f"token={CANARY},x=1",
        f"payload=b'{CANARY}'",
        f"custom_metadata={{'job': b'{CANARY}'}}",
        f"zk://user:{CANARY}@host:2181/zbk",
        f"https://{CANARY}@host/x",
        f"-----BEGIN RSA PRIVATE KEY-----\n{CANARY}\n-----END RSA PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\n{CANARY} and the file ends",
    ],
)
def test_a_named_secret_is_removed(text: str) -> None:
    assert CANARY not in redacted(text)
    assert "removed" in redacted(text)


def test_a_known_secret_is_removed_wherever_it_is() -> None:
    environment = {"ZBK_PASSWORD": CANARY, "AWS_SECRET_KEY": "another-one", "PATH": "/usr/bin"}
    secrets = known_secrets(environment)

    text = redacted(f"it says {CANARY}; another-one, too, in /usr/bin", secrets)

    assert text == "it says [removed]; [removed], too, in /usr/bin"


def test_a_value_that_is_a_common_word_is_no_known_secret() -> None:
    assert known_secrets({"TOKENIZERS_PARALLELISM": "false", "KEY": "", "SHELL": "/bin/bash"}) == []


def test_other_text_stays_as_it_is() -> None:
    text = (
        "2026-11-24T10:00:00.000Z INFO zbk.bookie: READY bookie b-1 at tcp://h:3181\n"
        "session_timeout_ms  10s  zk://h1:2181,h2:2181/zbk\n"
        "wrong password for ledger 7\n"
    )

    assert redacted(text) == text


def test_json_stays_json() -> None:
    text = json.dumps({"password": True, "token": None, "secret": "x", "n": {"api_key": 7}})

    assert json.loads(redacted(text))["secret"] == "[removed]"
