"""The paths of all records, below the store's root. Pure.

    /access                            Members: who has which role in ZooKeeper (``node_rights``)
    /LAYOUT                            Layout: how ledger ids become paths
    /INSTANCEID                        Instance: which cluster this is
    /idgen                             IdCounter: the next ledger id
    /cookies/<bookie id>               Cookie
    /available/<bookie id>             BookieRegistration, ephemeral: takes new entries
    /available/readonly/<bookie id>    BookieRegistration, ephemeral: serves what it has
    /principals                        Principals: whose keys the bookies accept
    /namespaces                        Namespaces: grants that count for many ledgers
    /namespaces/<path, : for />        NamespaceUsage: limits, and what is used of them
    /grants                            AccessChanges: the ledgers whose grants changed last
    /ledgers/...                       LedgerMetadata, by layout, as below
    /logs/<name>                       LogHead: the id of the log that has this name
    /logs/<name>/<log id>              LogMetadata: its list of ledgers
    /datasets/<name>                   DataSetHead: the id of the data set that has this name
    /datasets/<name>/<id>              DataSet: its versions
    /datasets/<name>/<id>/<load id>    Load
    /underreplication/ledgers/...      UnderreplicatedLedger: a task; always hierarchical, as below
    /underreplication/unrepairable/... UnderreplicatedLedger: a ledger that cannot be repaired
    /underreplication/locks/<task>     TaskLock, ephemeral; <task>.<token>: TaskProgress, ephemeral
    /underreplication/disable          exists while autorecovery is disabled
    /underreplication/trigger          AuditCounter: an operator requests an audit
    /underreplication/news             AuditCounter: there are new tasks
    /underreplication/lostbookiedelay  LostBookieDelay
    /underreplication/checks/<kind>    LastCheck
    /underreplication/auditor          AuditorStatus
    /underreplication/auditorelection/leader   AuditorVote, ephemeral

Ledger ids become paths as in BookKeeper:

    hierarchical   id < 2^31 - 1: ten digits, 2/4/4        /ledgers/00/0000/L0001
                   else: nineteen digits, 3/4/4/4/4        /ledgers/000/0000/0021/4748/L3647
    flat           ten digits, more for larger ids         /ledgers/L0000000001

Ledgers have a node of their own. BookKeeper keeps them beside ``cookies`` and ``available``, and
must know each name there that is not a ledger. Here every name under ``/ledgers`` is a ledger's or
damage, and damage fails a listing, so garbage collection never works from an incomplete list.

Source: BookKeeper's ``HierarchicalLedgerManager``, ``LongHierarchicalLedgerManager``,
``FlatLedgerManager``, ``ZkLedgerUnderreplicationManager``.
"""

import re
from collections.abc import Iterable
from typing import Final

from zbk.errors import CorruptRecordError, InvalidOptionError
from zbk.metadata.values import LedgerLayout
from zbk.protocol.entry.words import LEDGER_ID_MAX

LAYOUT: Final = "/LAYOUT"
INSTANCEID: Final = "/INSTANCEID"
IDGEN: Final = "/idgen"
COOKIES: Final = "/cookies"
AVAILABLE: Final = "/available"
READONLY: Final = "/available/readonly"
PRINCIPALS: Final = "/principals"
NAMESPACES: Final = "/namespaces"
ACCESS_CHANGES: Final = "/grants"
LEDGERS: Final = "/ledgers"
LOGS: Final = "/logs"
DATA_SETS: Final = "/datasets"
UNDERREPLICATION: Final = "/underreplication"
UNDERREPLICATED_LEDGERS: Final = "/underreplication/ledgers"
UNDERREPLICATION_LOCKS: Final = "/underreplication/locks"
UNREPAIRABLE_LEDGERS: Final = "/underreplication/unrepairable"
UNDERREPLICATION_DISABLED: Final = "/underreplication/disable"
AUDIT_TRIGGER: Final = "/underreplication/trigger"
TASK_COUNTER: Final = "/underreplication/news"
LOST_BOOKIE_DELAY: Final = "/underreplication/lostbookiedelay"
LAST_CHECKS: Final = "/underreplication/checks"
AUDITOR_STATUS: Final = "/underreplication/auditor"
AUDITOR_ELECTION: Final = "/underreplication/auditorelection"
AUDITOR_LEADER: Final = "/underreplication/auditorelection/leader"

READONLY_NAME: Final = "readonly"
"""The one child of ``/available`` that is not a bookie."""

SHORT_LEDGER_ID_MAX: Final = 2**31 - 2
"""The largest id of the short hierarchical form."""

NAME_SIZE_MAX: Final = 128
"""Characters of a bookie id, and of the name of a log or a data set."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*")
_SHORT_FORM = re.compile(r"/ledgers/(\d{2})/(\d{4})/L(\d{4})", re.ASCII)
_LONG_FORM = re.compile(r"/ledgers/(\d{3})/(\d{4})/(\d{4})/(\d{4})/L(\d{4})", re.ASCII)
_FLAT_FORM = re.compile(r"/ledgers/L(\d{10,19})", re.ASCII)
_LOCK_NAME = re.compile(r"L(\d{1,19})(?:\.([0-9a-f]+))?", re.ASCII)
_INNER_NAME = re.compile(r"\d{2,4}", re.ASCII)


def check_bookie_id(bookie_id: str) -> None:
    """Check that an id can be a node's name.

    Raises:
        InvalidOptionError: it cannot.
    """
    if bookie_id == READONLY_NAME or not _is_name(bookie_id):
        raise _bad_name("bookie id", bookie_id, f", and not {READONLY_NAME!r}")


def log_path(name: str) -> str:
    """Return the path of a log's head.

    Raises:
        InvalidOptionError: no log can have this name.
    """
    if not _is_name(name):
        raise _bad_name("log", name)
    return f"{LOGS}/{name}"


def log_list_path(name: str, log_id: str) -> str:
    """Return the path of a log's list."""
    return f"{log_path(name)}/{log_id}"


def data_set_path(name: str) -> str:
    """Return the path of a data set's head.

    Raises:
        InvalidOptionError: no data set can have this name.
    """
    if not _is_name(name):
        raise _bad_name("dataset", name)
    return f"{DATA_SETS}/{name}"


def data_set_list_path(name: str, data_set_id: str) -> str:
    """Return the path of a data set's versions."""
    return f"{data_set_path(name)}/{data_set_id}"


def load_path(name: str, data_set_id: str, load_id: str) -> str:
    """Return the path of a load."""
    return f"{data_set_list_path(name, data_set_id)}/{load_id}"


def cookie_path(bookie_id: str) -> str:
    """Return the path of a bookie's cookie."""
    check_bookie_id(bookie_id)
    return f"{COOKIES}/{bookie_id}"


def registration_path(bookie_id: str, *, is_readonly: bool) -> str:
    """Return the path of a bookie's registration."""
    check_bookie_id(bookie_id)
    return f"{READONLY if is_readonly else AVAILABLE}/{bookie_id}"


def ledger_path(ledger_id: int, layout: LedgerLayout) -> str:
    """Return the path of a ledger's metadata.

    >>> ledger_path(1, LedgerLayout.HIERARCHICAL), ledger_path(1, LedgerLayout.FLAT)
    ('/ledgers/00/0000/L0001', '/ledgers/L0000000001')

    Raises:
        InvalidOptionError: no ledger can have this id.
    """
    if not is_ledger_id(ledger_id):
        raise InvalidOptionError("ledger id", ledger_id, f"must be 0 to {LEDGER_ID_MAX}")
    if layout is LedgerLayout.FLAT:
        return f"{LEDGERS}/L{ledger_id:010d}"
    if ledger_id <= SHORT_LEDGER_ID_MAX:
        digits = f"{ledger_id:010d}"
        return f"{LEDGERS}/{digits[:2]}/{digits[2:6]}/L{digits[6:]}"
    digits = f"{ledger_id:019d}"
    folders = f"{digits[:3]}/{digits[3:7]}/{digits[7:11]}/{digits[11:15]}"
    return f"{LEDGERS}/{folders}/L{digits[15:]}"


def ledger_id_of(path: str, layout: LedgerLayout) -> int:
    """Return the id of the ledger whose metadata is at ``path``.

    >>> ledger_id_of("/ledgers/00/0000/L0001", LedgerLayout.HIERARCHICAL)
    1

    Raises:
        CorruptRecordError: no ledger's metadata can be there.
    """
    forms = (_FLAT_FORM,) if layout is LedgerLayout.FLAT else (_SHORT_FORM, _LONG_FORM)
    for form in forms:
        match = form.fullmatch(path)
        if match is not None:
            ledger_id = int("".join(match.groups()))
            if ledger_id <= LEDGER_ID_MAX and ledger_path(ledger_id, layout) == path:
                return ledger_id
    raise CorruptRecordError(path, 0, f"is not a ledger of the {layout} layout")


def task_path(folder: str, ledger_id: int) -> str:
    """Return the path of a ledger's task in ``folder``, which is laid out like ``/ledgers``.

    >>> task_path(UNDERREPLICATED_LEDGERS, 1)
    '/underreplication/ledgers/00/0000/L0001'
    """
    return folder + ledger_path(ledger_id, LedgerLayout.HIERARCHICAL).removeprefix(LEDGERS)


def task_ledger_id(folder: str, path: str) -> int:
    """Return the id of the ledger whose task is at ``path``.

    Raises:
        CorruptRecordError: no task can be there.
    """
    return ledger_id_of(LEDGERS + path.removeprefix(folder), LedgerLayout.HIERARCHICAL)


def task_lock_path(ledger_id: int, token: str = "") -> str:
    """Return the path of the lock of a ledger's task; with a token, of its owner's progress.

    >>> task_lock_path(7), task_lock_path(7, "t")
    ('/underreplication/locks/L7', '/underreplication/locks/L7.t')
    """
    name = f"L{ledger_id}.{token}" if token else f"L{ledger_id}"
    return f"{UNDERREPLICATION_LOCKS}/{name}"


def task_lock_of(name: str) -> tuple[int, str]:
    """Return ledger id and token of a node among the locks; the token is "" for the lock itself.

    Raises:
        CorruptRecordError: it is neither.
    """
    match = _LOCK_NAME.fullmatch(name)
    if match is None or not is_ledger_id(int(match[1])):
        raise CorruptRecordError(f"{UNDERREPLICATION_LOCKS}/{name}", 0, "is not the lock of a task")
    return int(match[1]), match[2] or ""


def is_ledger_id(number: int) -> bool:
    """Return whether a ledger can have this id."""
    return 0 <= number <= LEDGER_ID_MAX


def is_ledger_name(name: str) -> bool:
    """Distinguish a ledger's node from an inner one, which is named by digits alone.

    Raises:
        CorruptRecordError: it is neither.
    """
    if name.startswith("L"):
        return True
    if _INNER_NAME.fullmatch(name):
        return False
    raise CorruptRecordError(f"{LEDGERS}/.../{name}", 0, "is not a ledger or a part of the layout")


def in_id_order(names: Iterable[str]) -> list[str]:
    """Return the names under one node in the order of the ids below them.

    Shorter names first: a long form starts with three digits and holds larger ids than any short
    one, and flat names grow a digit with the id.

    >>> in_id_order(["000", "01", "00"])
    ['00', '01', '000']
    """
    return sorted(names, key=lambda name: (len(name), name))


def _is_name(name: str) -> bool:
    return len(name) <= NAME_SIZE_MAX and _NAME.fullmatch(name) is not None


def _bad_name(kind: str, name: str, more: str = "") -> InvalidOptionError:
    form = f"give up to {NAME_SIZE_MAX} letters, digits and . _ : -, a letter or digit first{more}"
    return InvalidOptionError(kind, name[: NAME_SIZE_MAX + 1], form)
