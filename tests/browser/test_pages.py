"""Every page in a real browser, against a live cluster, while a bookie is killed and repaired."""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import axe_core_python
import pytest
from selenium.common.exceptions import (
    ElementNotInteractableException,
    StaleElementReferenceException,
)
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import zbk
from tests.browser.conftest import Site
from tests.support.machine import patient_s
from tests.support.waiting import wait_until

if TYPE_CHECKING:  # it takes long, and most processes run no test of this file
    from selenium import webdriver

AXE = (Path(axe_core_python.__file__).parent / "axe.min.js").read_text()
IMAGES = os.environ.get("ZBK_CONSOLE_IMAGES")  # a folder: write a screenshot of each page there
PAGES = (
    "overview", "bookies", "bookie", "ledgers", "ledger", "entries", "durability", "recovery",
    "performance", "events", "datasets", "logs", "config",
)  # fmt: skip
OF_A_LOSS = ("overview", "bookies", "lost-ledger", "recovery")
"""Pages whose screenshots are taken while a bookie is away."""


def path_of(name: str, site: Site) -> str:
    if name == "ledger":
        return f"/ledgers/{site.unsynced_ledger()}"
    special = {
        "overview": "/",
        "bookie": f"/bookies/{site.cluster.bookies[0].bookie_id}",
        "lost-ledger": f"/ledgers/{site.pd_id}",
        "entries": f"/ledgers/{site.striped_id}?at=90",
    }
    return special.get(name, f"/{name}")


def twin(site: Site, path: str, query: str = "") -> dict[str, Any]:
    with urlopen(f"{site.url}{path}.json{query}", timeout=patient_s(10)) as answer:  # noqa: S310 - our own
        found: dict[str, Any] = json.loads(answer.read())
    return found


def errors_in(browser: "webdriver.Chrome") -> list[str]:
    log = browser.get_log("browser")  # type: ignore[no-untyped-call] # selenium has no type for it
    return [one["message"] for one in log if one["level"] == "SEVERE"]


def violations(browser: "webdriver.Chrome") -> list[str]:
    browser.execute_script(AXE)
    found = browser.execute_async_script(
        "const done = arguments[0]; axe.run().then((found) => done(found.violations))"
    )
    return [f"{one['id']}: {node['html'][:200]}" for one in found for node in one["nodes"]]


def text_of_live(browser: "webdriver.Chrome") -> str:
    return str(browser.execute_script("return document.getElementById('live').textContent"))


def wrong_now(browser: "webdriver.Chrome") -> str:
    """The part of the overview that names dead bookies, ledgers at risk and the repair."""
    script = "return document.querySelector('.incident')?.textContent ?? ''"
    return str(browser.execute_script(script))


def texts(browser: "webdriver.Chrome", selector: str) -> list[str]:
    """The texts of elements as one sees them, read in one step: the page replaces its parts."""
    script = "return [...document.querySelectorAll(arguments[0])].map((one) => one.innerText)"
    found: list[str] = browser.execute_script(script, selector)
    return found


def shown(browser: "webdriver.Chrome", selector: str, end: str) -> list[str]:
    """The texts of figures that end so, read in one step: the page replaces its figures."""
    script = "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)"
    texts: list[str] = browser.execute_script(script, f"#live svg {selector}")
    return [one for one in texts if one.endswith(end)]


def at_risk(browser: "webdriver.Chrome") -> list[int]:
    """The entries at risk at each bookie, as the figure of the open page names them."""
    return [int(one.split()[0].replace(",", "")) for one in shown(browser, "text.tick", " at risk")]


def wait_for(is_so: Callable[[], bool]) -> None:
    """Wait until it is so; an element that is gone belongs to the page before."""

    def is_so_now() -> bool:
        try:
            return is_so()
        except StaleElementReferenceException:
            return False

    wait_until(is_so_now, 30.0)


def act(step: Callable[[], None]) -> None:
    """Click or type, once; again if the page has replaced the element, or not laid it out yet."""

    def is_done() -> bool:
        with suppress(ElementNotInteractableException):
            step()
            return True
        return False

    wait_for(is_done)


def test_a_lost_bookie_is_shown_until_its_ledgers_are_repaired(
    site: Site, browser: "webdriver.Chrome"
) -> None:
    wait_for(lambda: twin(site, "/index")["headline"]["bookie_count"] == 4)
    browser.get(site.url)
    named = site.client.get_ledger_metadata(site.pd_id).last_fragment.bookies
    victim = next(one for one in site.cluster.bookies if one.bookie_id in named)
    site.cluster.kill(victim.index)
    # the open page shows it without a reload
    wait_for(lambda: "not registered" in text_of_live(browser))
    assert "problem" in texts(browser, ".numbers")[0]
    wait_for(lambda: victim.bookie_id in wrong_now(browser))
    for name in OF_A_LOSS if IMAGES else ():
        browser.get(f"{site.url}{path_of(name, site)}")
        browser.save_screenshot(f"{IMAGES}/console-{name}.png")
    browser.get(site.url)
    wait_for(lambda: any(one["kind"] == "lost" for one in twin(site, "/events")["events"]))
    wait_for(
        lambda: (
            victim.bookie_id
            not in site.client.get_ledger_metadata(site.pd_id).last_fragment.bookies
        )
    )
    browser.get(site.url)
    wait_for(lambda: "none: each ledger that was counted" in wrong_now(browser))
    events = f"{site.url}/events.jsonl?lane={victim.bookie_id}"
    with urlopen(events, timeout=patient_s(10)) as answer:  # noqa: S310 - our own
        kinds = {json.loads(line)["kind"] for line in answer}
    assert {"lost", "counts as lost"} <= kinds
    browser.get(f"{site.url}/bookies")
    assert texts(browser, "tbody tr td")[0] == victim.bookie_id
    site.cluster.restart(victim.index)
    wait_for(lambda: twin(site, "/index")["headline"]["bookie_count"] == 4)
    assert errors_in(browser) == []


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_renders_without_errors_and_is_accessible(
    site: Site, browser: "webdriver.Chrome", name: str, mode: str
) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": mode}]},
    )
    if name == "durability":
        site.unsynced_ledger()
    browser.get(f"{site.url}{path_of(name, site)}")
    assert browser.find_element(By.TAG_NAME, "h1").text
    assert violations(browser) == []
    assert errors_in(browser) == []
    if IMAGES and mode == "light" and name not in OF_A_LOSS:
        browser.save_screenshot(f"{IMAGES}/console-{name}.png")


def test_the_map_of_a_ledger_has_a_block_for_each_bookie(
    site: Site, browser: "webdriver.Chrome"
) -> None:
    browser.get(f"{site.url}/ledgers/{site.pd_id}")
    found = twin(site, f"/ledgers/{site.pd_id}")
    count = sum(len(one["bookies"]) for one in found["fragments"])
    assert len(browser.find_elements(By.CSS_SELECTOR, "svg.wide rect.block")) == count
    assert [one["last_entry_id"] for one in found["fragments"]][-1] == 1_999


def test_zooming_into_a_striped_ledger_shows_which_bookies_have_which_entry(
    site: Site, browser: "webdriver.Chrome"
) -> None:
    browser.get(f"{site.url}/ledgers/{site.striped_id}")
    assert browser.find_elements(By.CSS_SELECTOR, "svg rect.striped")
    act(lambda: browser.find_element(By.NAME, "at").send_keys("10", Keys.ENTER))
    wait_for(lambda: browser.current_url.endswith("?at=10"))
    wait_for(lambda: len(shown(browser, "rect.block title", "entry 12 stored")) == 2)  # Qw
    browser.execute_script("document.querySelector('a[rel=next]').click()")
    wait_for(lambda: browser.current_url.endswith("?at=58"))
    window = twin(site, f"/ledgers/{site.striped_id}", "?at=58")["window"]
    assert (window["first_entry_id"], window["last_entry_id"]) == (58, 105)


@pytest.mark.parametrize("ledger_type", [one for one in zbk.LedgerType if one.is_volatile])
def test_the_gap_of_a_vd_ledger_is_what_a_loss_of_power_takes_now(
    site: Site, browser: "webdriver.Chrome", ledger_type: zbk.LedgerType
) -> None:
    writer = site.client.create_ledger(ledger_type=ledger_type)
    writer.append_many([b"y" * 100] * 100).result()
    browser.get(f"{site.url}/ledgers/{writer.ledger_id}")
    assert "Durability gap" in texts(browser, "section h2")
    assert "there is no gap" not in browser.find_element(By.TAG_NAME, "main").text
    wait_for(lambda: at_risk(browser) == [100] * 3)  # the open page asks again and again
    browser.get(f"{site.url}/durability")
    links = texts(browser, "section:first-of-type tbody td:first-child a")
    assert str(writer.ledger_id) in links
    writer.sync()
    browser.get(f"{site.url}/ledgers/{writer.ledger_id}")
    wait_for(lambda: set(at_risk(browser)) == {0})  # the sync did not wait for the third bookie


def test_the_configuration_of_running_bookies_is_shown(
    site: Site, browser: "webdriver.Chrome"
) -> None:
    wait_for(lambda: len(twin(site, "/config")["bookies"]["options"]) > 20)
    browser.get(f"{site.url}/config")
    changed = browser.find_element(By.CSS_SELECTOR, "section table").text
    words = " ".join(changed.split())
    assert "sync_interval_ms 0 command line 1000" in words, "value, source, default"
    differing = browser.find_elements(By.CSS_SELECTOR, "tr.changed.problem td.mono:first-child")
    assert "journal_dir" in {one.text for one in differing}
    browser.get(f"{site.url}{path_of('bookie', site)}")
    table = browser.find_elements(By.CSS_SELECTOR, "table")[-2].text
    assert "sync_interval_ms 0 command line 1000" in " ".join(table.split())


def test_the_keyboard_leads_through_lists_and_pages(
    site: Site, browser: "webdriver.Chrome"
) -> None:
    browser.get(f"{site.url}/ledgers")
    body = browser.find_element(By.TAG_NAME, "body")
    body.send_keys("j")
    assert browser.switch_to.active_element.text == "0"
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    wait_for(lambda: browser.current_url.endswith("/ledgers/0"))
    browser.find_element(By.TAG_NAME, "body").send_keys("gb")
    wait_for(lambda: browser.current_url.endswith("/bookies"))
    for keys, path in (("gs", "/datasets"), ("gg", "/logs")):
        browser.find_element(By.TAG_NAME, "body").send_keys(keys)
        wait_for(lambda path=path: browser.current_url.endswith(path))  # type: ignore[misc]


def test_an_action_shows_its_consequence_and_command_and_runs(
    site: Site, browser: "webdriver.Chrome"
) -> None:
    # a client of its own: the actors of the other one, started in a test, ended with that test
    with zbk.connect(site.cluster.metadata_uri) as client, client.create_ledger() as ledger:
        ledger.append(b"away")
    browser.get(f"{site.url}/ledgers/{ledger.ledger_id}")
    act(lambda: browser.find_element(By.PARTIAL_LINK_TEXT, "Delete").click())
    text = browser.find_element(By.ID, "content").text
    assert "cannot be undone" in text
    assert f"zbk ledger delete {ledger.ledger_id} --yes" in text
    browser.find_element(By.CSS_SELECTOR, "form button").click()
    wait_for(lambda: "is deleted" in browser.find_element(By.ID, "content").text)
    assert ledger.ledger_id not in list(site.client.list_ledgers())
