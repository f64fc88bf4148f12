"""One operation of the admin API, and the check of its parameters.

An *option* is one of a configuration, a number or a text as there: ``10s``.

Parameters come in the query. An operation that changes something also takes them as a JSON object
in the body, as BookKeeper's do. A parameter is a number, a truth value, a short text or a list of
them, which a query separates by commas. No operation makes a path or a command of one: names are
looked up in the metadata store, which checks their form.

The id of a bookie is checked here, because some operations only compare it with others.

A secret comes in the header ``SECRET_HEADER`` or in the body, and never in the query. It is in no
log and in no error.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec

from zbk.admin.cluster import Cluster
from zbk.conversion import convert
from zbk.errors import InvalidOptionError
from zbk.metadata.paths import NAME_SIZE_MAX, check_bookie_id

TEXT_SIZE_MAX: Final = 256
LIST_COUNT_MAX: Final = 16
SECRET_HEADER: Final = "ZBK-Password"  # noqa: S105 - its name

_TYPES: Final = {"list": "array", "secret": "string", "bookie": "string"}
_Texts: TypeAlias = Annotated[
    list[Annotated[str, msgspec.Meta(min_length=1, max_length=TEXT_SIZE_MAX)]],
    msgspec.Meta(min_length=1, max_length=LIST_COUNT_MAX),
]

Arguments: TypeAlias = Mapping[str, Any]
Method: TypeAlias = Literal["GET", "PUT", "DELETE"]


class Parameter(msgspec.Struct, frozen=True):
    """A parameter. One without a default is required; ``None`` is a default, too."""

    name: str
    kind: Literal["integer", "boolean", "string", "bookie", "list", "secret", "option"]
    help: str
    default: Any = msgspec.UNSET
    low: int = 0
    high: int = 2**63 - 1
    choices: tuple[str, ...] = ()

    @property
    def is_required(self) -> bool:
        """Return whether a request must have it."""
        return self.default is msgspec.UNSET

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of its values."""
        made: dict[str, Any] = {"type": _TYPES.get(self.kind, self.kind)}
        match self.kind:
            case "integer":
                made |= {"minimum": self.low, "maximum": self.high}
            case "list":
                items = {"type": "string", "minLength": 1, "maxLength": TEXT_SIZE_MAX}
                made |= {"items": items, "minItems": 1, "maxItems": LIST_COUNT_MAX}
            case "string" if self.choices:
                made |= {"enum": list(self.choices)}
            case "bookie":
                made |= {"maxLength": NAME_SIZE_MAX}
            case "option":
                made = {"type": ["string", "number"], "maxLength": TEXT_SIZE_MAX}
            case "string" | "secret":
                made |= {"maxLength": TEXT_SIZE_MAX}
        has_default = self.default not in (None, msgspec.UNSET, (), b"")
        return made | {"default": self.default} if has_default else made

    def parse(self, value: object) -> object:  # noqa: PLR0911 - a case for each kind
        """Return the value of a text of a query, or of a JSON value.

        Raises:
            InvalidOptionError: it is not one of this parameter.
        """
        match self.kind:
            case "integer":
                return self._integer(value)
            case "boolean":
                if value in (True, False) and isinstance(value, bool):
                    return value
                if value in ("true", "false"):
                    return value == "true"
                raise self._wrong(value, "must be true or false")
            case "list":
                return self._list(value)
            case "secret":
                return self._secret(value)
            case "option" if isinstance(value, int | float) and not isinstance(value, bool):
                return value
        return self._text(value)

    def _integer(self, value: object) -> int:
        is_text = isinstance(value, str) and value.isascii() and value.isdigit()
        if is_text or (isinstance(value, int) and not isinstance(value, bool)):
            text = str(value)
            if len(text) <= len(str(self.high)) and self.low <= int(text) <= self.high:
                return int(text)
        raise self._wrong(value, f"must be a whole number from {self.low} to {self.high}")

    def _text(self, value: object) -> str:
        if not isinstance(value, str) or len(value) > TEXT_SIZE_MAX:
            raise self._wrong(value, f"must be a text of at most {TEXT_SIZE_MAX} characters")
        if self.kind == "bookie" and value != self.default:
            check_bookie_id(value)
        if self.choices and value not in self.choices:
            raise self._wrong(value, f"must be one of {', '.join(self.choices)}")
        return value

    def _list(self, value: object) -> list[str]:
        found = value.split(",") if isinstance(value, str) else value
        try:
            return list(dict.fromkeys(convert(found, _Texts)))
        except msgspec.ValidationError:
            reason = f"must be 1 to {LIST_COUNT_MAX} texts of 1 to {TEXT_SIZE_MAX} characters"
            raise self._wrong(value, reason) from None

    def _secret(self, value: object) -> bytes:
        given = value.encode("utf-8", "replace") if isinstance(value, str) else value
        if not isinstance(given, bytes) or len(given) > TEXT_SIZE_MAX:
            raise self._wrong("", f"must be a text of at most {TEXT_SIZE_MAX} bytes")
        return given

    def _wrong(self, value: object, reason: str) -> InvalidOptionError:
        return InvalidOptionError(self.name, str(value)[:TEXT_SIZE_MAX], reason)


class Operation(msgspec.Struct, frozen=True):
    """An operation. ``answer`` is the JSON schema of what ``run`` returns."""

    method: Method
    path: str
    summary: str
    run: Callable[[Cluster, Arguments], object]
    answer: Mapping[str, Any]
    parameters: tuple[Parameter, ...] = ()
    commands: tuple[str, ...] = ()
    """The commands that do the same, without their arguments."""

    is_writing: bool = False
    """A GET that changes something, because BookKeeper's does."""

    refused: Mapping[str, str] = {}
    """Names that a user may expect among the parameters, and why they are none."""

    @property
    def is_action(self) -> bool:
        """Return whether it changes something."""
        return self.is_writing or self.method != "GET"

    @property
    def reads_entries(self) -> bool:
        """Return whether it shows payloads, which the audit log records."""
        return self.path.endswith("/read")

    @property
    def has_body(self) -> bool:
        """Return whether a request may have the parameters in a body."""
        return self.method != "GET"

    @property
    def name(self) -> str:
        """Return the name of its function, which is unique."""
        return self.run.__name__

    @property
    def secret(self) -> str:
        """Return the name of its secret parameter; "" if it has none."""
        return next((one.name for one in self.parameters if one.kind == "secret"), "")

    def arguments(self, given: Mapping[str, object]) -> dict[str, Any]:
        """Return the checked parameters of a request, with defaults.

        Raises:
            InvalidOptionError: one is unknown, missing or wrong.
        """
        known = {one.name: one for one in self.parameters}
        refused = sorted(self.refused.keys() & given.keys())
        if refused:
            raise InvalidOptionError(", ".join(refused), "", self.refused[refused[0]])
        for name in given:
            if name not in known:
                names = ", ".join(known) or "none"
                raise InvalidOptionError(
                    name[:TEXT_SIZE_MAX], "", f"is no parameter; known: {names}"
                )
        found = {}
        for name, parameter in known.items():
            if name in given:
                found[name] = parameter.parse(given[name])
            elif parameter.is_required:
                raise InvalidOptionError(name, "", f"is required: {parameter.help}")
            else:
                found[name] = parameter.default
        return found
