"""The options of format ``zbk``: names in connector style, checked before any data moves.

Spark ignores the case of option names and passes them on in lower case. Sizes are
bytes, or texts such as ``"1m"`` and ``"1 MiB"``. A password is given by reference only: the name of
a file, or of an environment variable, on each machine that needs it; so none is ever in a plan.

Options of the client (``zbk.connect``) have the prefix ``client.``, as in
``client.request_timeout_ms``.
"""

import difflib
import os
import re
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Final

import msgspec

from zbk import InvalidOptionError
from zbk.config import ENTRY_SIZE_MAX_DEFAULT
from zbk.config.units import parse_duration_ms, parse_size

ENTRY_SIZE_MIN: Final = 4 * 1024
ENTRY_SIZE_MAX: Final = ENTRY_SIZE_MAX_DEFAULT
"""The limit of bookies, and the default. A larger row is cut into parts."""

PARTITION_SIZE_MIN: Final = 64 * 1024

_CLIENT_PREFIX: Final = "client."
_NUMBER: Final = re.compile(r"-?[0-9]{1,19}")
_SHORT_UNIT: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmg])b?\s*", re.IGNORECASE)
_UNITS: Final = {"k": "KiB", "m": "MiB", "g": "GiB"}

_ANY: Final = ("metadata", "path", "passwordFile", "passwordEnv")
_WRITE: Final = (
    "dataset", "ensembleSize", "writeQuorumSize", "ackQuorumSize", "ledgerType", "digestType",
    "entryBytes", "loadTtl",
)  # fmt: skip


_OF_A_TABLE: Final = "provider"  # what Spark gives only to a source that it makes a table of
_NO_TABLES: Final = (
    "Tables made with CREATE TABLE ... USING zbk or saveAsTable lose their options in Spark and "
    "cannot be used; CREATE TEMPORARY VIEW ... USING zbk OPTIONS (...) keeps them"
)
_LOG: Final = ("log", "startingOffsets", "failOnDataLoss", "columns", "maxPartitionBytes")


class Use(Enum):
    """The uses of a source, and the options of each."""

    READ = ("dataset", "version", "columns", "pushFilters", "maxPartitionBytes", "view")
    WRITE = (*_WRITE, "who")
    READ_LOG = (*_LOG, "endingOffsets")
    READ_STREAM = (*_LOG, "maxEntriesPerTrigger", "maxBytesPerTrigger")
    WRITE_STREAM = (*_WRITE, "queryName", "checkpointLocation")


_NAMES: Final = tuple(dict.fromkeys((*_ANY, *(name for use in Use for name in use.value))))
_BY_LOWER: Final = {name.lower(): name for name in _NAMES}


_HOLDS_NONE: Final = "holds no password; for ledgers without one, leave the option out"


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """The connection to a cluster: plain values, sent to every task."""

    metadata: str  # empty: the planning process finds it, and fills it in
    client_options: dict[str, Any]  # texts, which zbk.connect checks
    password_file: str = ""
    password_env: str = ""

    def password(self) -> bytes:
        """Return the password on this machine; empty if none is configured.

        Raises:
            InvalidOptionError: there is no such file or variable, or it holds no password.
        """
        if self.password_file:
            try:
                text = Path(self.password_file).read_bytes()
            except OSError as error:
                raise InvalidOptionError("passwordFile", self.password_file, str(error)) from error
            password = text.removesuffix(b"\n").removesuffix(b"\r")
            if not password:
                raise InvalidOptionError("passwordFile", self.password_file, _HOLDS_NONE)
            return password
        if self.password_env:
            value = os.environb.get(self.password_env.encode())
            if value is None:
                raise InvalidOptionError(
                    "passwordEnv", self.password_env, "no such variable on this machine"
                )
            if not value:
                raise InvalidOptionError("passwordEnv", self.password_env, _HOLDS_NONE)
            return value
        return b""


class LedgerShape(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of new ledgers."""

    ensemble_size: int = 3
    write_quorum_size: int = 3
    ack_quorum_size: int = 2
    ledger_type: str = "VD_BYPASS_JOURNAL"
    digest_type: str = "XXH3"

    def keywords(self) -> dict[str, Any]:
        """Return the keywords of ``create_ledger``."""
        return msgspec.structs.asdict(self)


class Options:
    """The options of one source, by name in any case."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._client: dict[str, str] = {}
        self._given: dict[str, str] = {}
        for key, value in given.items():
            lower = key.lower()
            if lower.startswith(_CLIENT_PREFIX):
                self._client[lower.removeprefix(_CLIENT_PREFIX)] = value
            elif lower in _BY_LOWER:
                self._given[lower] = value
            elif lower == _OF_A_TABLE:
                raise InvalidOptionError("dataset", "", _NO_TABLES)
            else:
                raise InvalidOptionError(key, value, _unknown(lower))

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._given

    def check_use(self, use: Use) -> None:
        """Refuse options that would be ignored.

        Raises:
            InvalidOptionError: one is given that does not apply to this use.
        """
        for lower, value in self._given.items():
            name = _BY_LOWER[lower]
            if name not in _ANY and name not in use.value:
                what = use.name.lower().replace("_", " a ")
                known = ", ".join(sorted((*_ANY, *use.value)))
                raise InvalidOptionError(name, value, f"is not an option to {what}; those: {known}")

    @property
    def connection(self) -> Connection:
        """The connection to the cluster.

        Raises:
            InvalidOptionError: two ways to find the password.
        """
        if "passwordFile" in self and "passwordEnv" in self:
            raise InvalidOptionError("passwordEnv", self.text("passwordEnv"), "one way is enough")
        return Connection(
            metadata=self.text("metadata"),
            client_options=self._client,
            password_file=self.text("passwordFile"),
            password_env=self.text("passwordEnv"),
        )

    @property
    def data_set(self) -> str:
        """The name of the data set.

        Raises:
            InvalidOptionError: none is given, or two are.
        """
        path, name = self.text("path"), self.text("dataset")
        if path and name and path != name:
            raise InvalidOptionError("dataset", name, f"and path {path!r}: which one is it?")
        if not (path or name):
            raise InvalidOptionError(
                "dataset",
                "",
                "name the data set: save(NAME), load(NAME), or option dataset; or, to read a log, "
                f"option log. {_NO_TABLES}",
            )
        return path or name

    @property
    def shape(self) -> LedgerShape:
        """Return the options of new ledgers. The client checks their combinations.

        Missing sizes follow the given ones: ensemble and write quorum are equal, and more than half
        of them acknowledge.
        """
        write_size = self.number("writeQuorumSize", self.number("ensembleSize", 3))
        return LedgerShape(
            ensemble_size=self.number("ensembleSize", write_size),
            write_quorum_size=write_size,
            ack_quorum_size=self.number("ackQuorumSize", write_size // 2 + 1),
            ledger_type=self.text("ledgerType", "VD_BYPASS_JOURNAL").upper(),
            digest_type=self.text("digestType", "XXH3").upper(),
        )

    @property
    def entry_size_max(self) -> int:
        """Bytes at which record batches are cut."""
        return self.size("entryBytes", ENTRY_SIZE_MAX, ENTRY_SIZE_MIN, ENTRY_SIZE_MAX)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns wanted; none is all of them."""
        text = self.text("columns")
        return tuple(part.strip() for part in text.split(",") if part.strip())

    def text(self, name: str, default: str = "") -> str:
        """Return the text of an option."""
        return self._given.get(name.lower(), default)

    def flag(self, name: str, *, default: bool) -> bool:
        """Return an option that is true or false."""
        value = self.text(name, str(default)).lower()
        if value not in ("true", "false"):
            raise InvalidOptionError(name, value, "must be true or false")
        return value == "true"

    def number(self, name: str, default: int, low: int = 1, high: int = 2**62) -> int:
        """Return an option that is a number."""
        value = self.text(name, str(default))
        if not _NUMBER.fullmatch(value) or not low <= int(value) <= high:
            raise InvalidOptionError(name, value, f"must be a number between {low} and {high}")
        return int(value)

    def size(self, name: str, default: int, low: int, high: int = 2**40) -> int:
        """Return an option that is a number of bytes."""
        return size_of(name, self.text(name, str(default)), low, high)

    def duration_ms(self, name: str, default_ms: int) -> int:
        """Return an option that is a duration."""
        return parse_duration_ms(self.text(name, str(default_ms)), name)


def size_of(name: str, text: str, low: int, high: int = 2**40) -> int:
    """Return the bytes of an option: ``"4096"``, ``"4k"``, ``"4 KiB"``.

    Raises:
        InvalidOptionError: not a size, or one outside of these bounds.
    """
    short = _SHORT_UNIT.fullmatch(text)
    size = parse_size(f"{short[1]} {_UNITS[short[2].lower()]}" if short else text, name)
    if not low <= size <= high:
        raise InvalidOptionError(name, text, f"must be between {low} and {high} bytes")
    return size


def _unknown(lower: str) -> str:
    close = difflib.get_close_matches(lower, _BY_LOWER, n=1)
    if close:
        return f"unknown option of format zbk; did you mean {_BY_LOWER[close[0]]!r}?"
    return f"unknown option of format zbk; known: {', '.join(sorted(_NAMES))}"
