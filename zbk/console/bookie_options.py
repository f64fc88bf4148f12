"""The options of running bookies, as their admin APIs report them; differences come first.

A bookie that serves no admin API to this machine is named with the reason. All are asked at once,
and no more than ``BOOKIE_COUNT_MAX``. A bookie removes its secrets; they are removed here again.
"""

from collections.abc import Mapping
from typing import Any, Final

from zbk.config import BookieConfig
from zbk.console.collector import Collector
from zbk.health.bookie_api import TEXT_SIZE_MAX, NoAnswer, ask_admin_apis
from zbk.health.bookie_scrape import BOOKIE_COUNT_MAX
from zbk.health.redaction import redacted_option

PATH: Final = "/api/v1/config/server_config"


def bookie_options(collector: Collector) -> dict[str, Any]:
    """Return each option with its values, and the bookies that have each value."""
    facts = collector.facts
    bookies = facts.bookies[:BOOKIE_COUNT_MAX] if facts else ()
    urls = {one.bookie_id: one.http for one in bookies}
    answers = {one: _options_in(answer) for one, answer in ask_admin_apis(urls, PATH).items()}
    found = {one: of for one, of in answers.items() if not isinstance(of, NoAnswer)}
    return {
        "asked_count": len(urls),
        "bookie_count": len(facts.bookies) if facts else 0,
        "options": option_rows(found),
        "silent": [
            {"bookie_id": one, "why": answer.why}
            for one, answer in answers.items()
            if isinstance(answer, NoAnswer)
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


def _options_in(answer: object) -> dict[str, str] | NoAnswer:
    """Return the options in the answer of a bookie, or why there are none."""
    if isinstance(answer, NoAnswer):
        return answer
    if not isinstance(answer, dict) or not all(isinstance(one, str) for one in answer.values()):
        return NoAnswer("its answer has no options")
    return {
        name[:TEXT_SIZE_MAX]: redacted_option(name, value)[:TEXT_SIZE_MAX]
        for name, value in answer.items()
    }
