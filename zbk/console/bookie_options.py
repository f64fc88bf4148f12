"""The options of running bookies, as their admin APIs report them; differences come first.

A bookie that serves no admin API to this machine is named with the reason. All are asked at once,
and no more than ``BOOKIE_COUNT_MAX``. A bookie removes its secrets; they are removed here again.
"""

import json
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError

from zbk.config import BookieConfig
from zbk.console.collector import PAGE_TIMEOUT_S, THREAD_COUNT, Collector
from zbk.health.bookie_scrape import BOOKIE_COUNT_MAX
from zbk.health.redaction import redacted, redacted_option

PATH: Final = "/api/v1/config/server_config"
ANSWER_SIZE_MAX: Final = 256 * 1024
VALUE_SIZE_MAX: Final = 500


def bookie_options(collector: Collector) -> dict[str, Any]:
    """Return each option with its values, and the bookies that have each value."""
    facts = collector.facts
    bookies = facts.bookies[:BOOKIE_COUNT_MAX] if facts else ()
    urls = {one.bookie_id: one.http for one in bookies}
    with ThreadPoolExecutor(THREAD_COUNT, "zbk-options") as threads:
        answers = dict(zip(urls, threads.map(_options_at, urls.values()), strict=True))
    found = {one: answer for one, answer in answers.items() if not isinstance(answer, str)}
    return {
        "asked_count": len(urls),
        "bookie_count": len(facts.bookies) if facts else 0,
        "options": option_rows(found),
        "silent": [
            {"bookie_id": one, "why": answer}
            for one, answer in answers.items()
            if isinstance(answer, str)
        ],
    }


def option_rows(found: Mapping[str, Mapping[str, str]]) -> list[dict[str, Any]]:
    """Return a row for each option: those that differ first, then those that were changed."""
    defaults = BookieConfig()
    rows = []
    for name in dict.fromkeys(option for of in found.values() for option in of):
        holders: dict[str, list[str]] = {}
        for bookie_id, options in found.items():
            if name in options:
                holders.setdefault(options[name], []).append(bookie_id)
        default = redacted_option(name, getattr(defaults, name, ""))
        rows.append(
            {
                "option": name,
                "default": default,
                "values": [{"value": one, "bookies": of} for one, of in holders.items()],
                "is_different": len(holders) > 1,
                "is_changed": set(holders) != {default},
            }
        )
    return sorted(rows, key=lambda one: (not one["is_different"], not one["is_changed"]))


# ------------------------------------------------------------------ private


def _options_at(url: str) -> dict[str, str] | str:
    """Return the options of a bookie at a registered URL, or why there are none."""
    if not url.startswith(("http://", "https://")):
        return "it serves no HTTP"
    try:
        with urllib.request.urlopen(f"{url}{PATH}", timeout=PAGE_TIMEOUT_S) as answer:  # noqa: S310
            text = answer.read(ANSWER_SIZE_MAX)
    except HTTPError as error:
        return _reason(error)
    except (OSError, ValueError, HTTPException):
        return "its HTTP endpoint does not answer"
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
        return "its answer has no options"
    return {
        name[:VALUE_SIZE_MAX]: redacted_option(name, value)[:VALUE_SIZE_MAX]
        for name, value in found.items()
    }


def _reason(error: HTTPError) -> str:
    try:
        told = json.loads(error.read(ANSWER_SIZE_MAX))
        text = str(told["error"])
    except (OSError, ValueError, HTTPException, RecursionError, KeyError, TypeError):
        text = "it has no such route"
    return f"{error.code}: {redacted(text)[:VALUE_SIZE_MAX]}"
