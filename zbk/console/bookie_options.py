"""The options of running bookies and their sources, as their admin APIs report them.

Options in which bookies differ come first.

A bookie that serves no admin API to this machine is named with the reason. All are asked at once,
and no more than ``BOOKIE_COUNT_MAX``. A bookie removes its secrets; they are removed here again.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from zbk.config import AutorecoveryConfig, BookieConfig
from zbk.config.running import AUTORECOVERY
from zbk.console.collector import Collector
from zbk.conversion import convert
from zbk.health.bookie_api import TEXT_SIZE_MAX, NoAnswer, ask_admin_apis
from zbk.health.bookie_scrape import BOOKIE_COUNT_MAX
from zbk.health.redaction import redacted, redacted_option

PATH: Final = "/api/v1/zbk/config/sources"


class SourcedValue(msgspec.Struct, frozen=True):
    """The value of an option, and where it comes from."""

    value: str
    source: str


def bookie_options(collector: Collector) -> dict[str, Any]:
    """Return each option with its values, and the bookies that have each value."""
    facts = collector.facts
    bookies = facts.bookies[:BOOKIE_COUNT_MAX] if facts else ()
    urls = {one.bookie_id: one.http for one in bookies}
    return {
        "asked_count": len(urls),
        "bookie_count": len(facts.bookies) if facts else 0,
        **options_at(urls, collector.bookie_token),
    }


def options_at(urls: Mapping[str, str], token: str) -> dict[str, Any]:
    """Return the options of some bookies, and those that report none, as ``ask_admin_apis``."""
    found = ask_admin_apis(urls, PATH, token)
    answers = {one: _options_in(answer) for one, answer in found.items()}
    return {
        "options": option_rows(
            {one: of for one, of in answers.items() if not isinstance(of, NoAnswer)}
        ),
        "silent": [
            {"bookie_id": one, "why": answer.why}
            for one, answer in answers.items()
            if isinstance(answer, NoAnswer)
        ],
    }


def option_rows(found: Mapping[str, Mapping[str, SourcedValue]]) -> list[dict[str, Any]]:
    """Return a row for each option: those that differ first, then those that were changed."""
    defaults = {
        **msgspec.structs.asdict(BookieConfig()),
        **{
            f"{AUTORECOVERY}{name}": value
            for name, value in msgspec.structs.asdict(AutorecoveryConfig()).items()
        },
    }
    rows = []
    for name in dict.fromkeys(option for of in found.values() for option in of):
        holders: dict[str, list[str]] = {}
        sources: dict[str, list[str]] = {}
        for bookie_id, options in found.items():
            if name in options:
                one = options[name]
                holders.setdefault(one.value, []).append(bookie_id)
                sources.setdefault(one.value, []).append(one.source)
        default = redacted_option(name, defaults.get(name, ""))
        rows.append(
            {
                "option": name,
                "default": default,
                "sources": sorted({one for of in sources.values() for one in of}),
                "values": [
                    {"value": one, "sources": sorted(set(sources[one])), "bookies": of}
                    for one, of in holders.items()
                ],
                "is_different": len(holders) > 1,
                "is_changed": set(holders) != {default},
            }
        )
    return sorted(rows, key=lambda one: (not one["is_different"], not one["is_changed"]))


# ------------------------------------------------------------------ private


def _options_in(answer: object) -> dict[str, SourcedValue] | NoAnswer:
    """Return the options in the answer of a bookie, or why there are none."""
    if isinstance(answer, NoAnswer):
        return answer
    try:
        found = convert(answer, dict[str, SourcedValue])
    except msgspec.ValidationError:
        return NoAnswer("its answer has no options")
    return {
        name[:TEXT_SIZE_MAX]: SourcedValue(
            redacted_option(name, one.value)[:TEXT_SIZE_MAX], redacted(one.source)[:TEXT_SIZE_MAX]
        )
        for name, one in found.items()
    }
