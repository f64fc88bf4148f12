"""The error tree: codes, pickling, and the way over the wire."""

import inspect
import pickle
from typing import Any

import pytest

from zbk import errors
from zbk.errors import ERROR_BY_CODE, BookieError, LedgerFencedError, NoSuchEntryError, from_wire

EVERY_TYPE = [
    found
    for _name, found in inspect.getmembers(errors, inspect.isclass)
    if issubclass(found, errors.ZbkError)
]
SAMPLES = {"int": 7, "float": 1.5, "str": "text", "object": "value", "int | None": 9}


def sample(error_type: type[errors.ZbkError]) -> errors.ZbkError:
    """Return an error with a value of the right type in each field."""
    if error_type.__init__ is Exception.__init__:
        return error_type()
    parameters = list(inspect.signature(error_type).parameters.values())
    named = [p for p in parameters if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    return error_type(*(SAMPLES[_annotation(p)] for p in named))


def _annotation(parameter: inspect.Parameter) -> str:
    annotation: Any = parameter.annotation
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


by_type = pytest.mark.parametrize("error_type", EVERY_TYPE, ids=lambda t: t.__name__)


def test_the_table_of_codes_has_every_error_once() -> None:
    assert sorted(error_type.code for error_type in EVERY_TYPE) == sorted(ERROR_BY_CODE)
    assert all(ERROR_BY_CODE[error_type.code] is error_type for error_type in EVERY_TYPE)


def test_codes_never_change() -> None:
    codes = {error_type.__name__: error_type.code for error_type in EVERY_TYPE}

    assert codes == {
        "ZbkError": 0,
        "CallerError": 100,
        "InvalidQuorumError": 101,
        "InvalidOptionError": 102,
        "EntryTooLargeError": 103,
        "UnauthorizedError": 104,
        "NoSuchLedgerError": 105,
        "NoSuchEntryError": 106,
        "LedgerExistsError": 107,
        "LedgerClosedError": 108,
        "ReadBeyondLacError": 109,
        "ClientClosedError": 110,
        "ForkedProcessError": 111,
        "UnsupportedLedgerError": 112,
        "MissingDependencyError": 113,
        "NoSuchLogError": 114,
        "LogClosedError": 115,
        "LogTruncatedError": 116,
        "ReaderClosedError": 117,
        "NoSuchDataSetError": 120,
        "NoSuchVersionError": 121,
        "LoadAbortedError": 122,
        "DataSetConflictError": 123,
        "KeyFileError": 140,
        "NoSuchPrincipalError": 141,
        "AccessDeniedError": 142,
        "RoleRequiredError": 143,
        "NoSuchNamespaceError": 144,
        "NamespaceDeniedError": 145,
        "PrincipalRequiredError": 146,
        "NamespaceFullError": 147,
        "ArgumentValueError": 130,
        "ArgumentTypeError": 131,
        "LedgerFencedError": 200,
        "AppendUnansweredError": 201,
        "LogFencedError": 202,
        "UnavailableError": 300,
        "MetadataUnavailableError": 301,
        "MetadataAccessError": 324,
        "BookieUnavailableError": 302,
        "NotEnoughBookiesError": 303,
        "RequestTimeoutError": 304,
        "BusyError": 305,
        "BookieReadOnlyError": 306,
        "CannotAdvanceError": 307,
        "LedgerRecoveryError": 308,
        "BookieInUseError": 309,
        "TooManyOpenFilesError": 321,
        "SecurityMismatchError": 322,
        "OldBookiesError": 325,
        "KeyRefusedError": 323,
        "MetadataConflictError": 400,
        "BadVersionError": 401,
        "NodeExistsError": 402,
        "NoNodeError": 403,
        "NotEmptyError": 404,
        "IllegalTransitionError": 405,
        "NotDurableError": 410,
        "DamageError": 500,
        "CorruptRecordError": 501,
        "ShortRecordError": 502,
        "DigestMismatchError": 503,
        "CorruptJournalError": 504,
        "EntryUnreadableError": 505,
        "WireError": 600,
        "MalformedMessageError": 601,
        "UnsupportedVersionError": 602,
        "UnknownOperationError": 603,
        "WrongBookieError": 604,
        "HelloRequiredError": 605,
        "BookieError": 700,
        "StorageFailedError": 701,
        "NoSpaceError": 709,
        "InsecureBookieError": 724,
        "CookieMismatchError": 702,
        "DirectoryInUseError": 703,
        "DuplicateEntryError": 704,
        "UnknownLedgerStateError": 705,
        "LostHistoryError": 710,
        "ScatteredLedgerError": 711,
        "TooFewDescriptorsError": 721,
        "OutOfDescriptorsError": 722,
        "MemoryExhaustedError": 723,
    }


@by_type
def test_every_error_survives_pickle(error_type: type[errors.ZbkError]) -> None:
    error = sample(error_type)

    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes

    assert type(copy) is error_type
    assert (copy.args, str(copy)) == (error.args, str(error))


@by_type
def test_every_error_survives_the_wire(error_type: type[errors.ZbkError]) -> None:
    error = sample(error_type)

    copy = from_wire(error.code, tuple(error.fields()))

    assert type(copy) is error_type
    assert (copy.args, str(copy)) == (error.args, str(error))


@by_type
def test_every_error_says_its_fields(error_type: type[errors.ZbkError]) -> None:
    error = sample(error_type)

    assert all(str(field) in str(error) for field in error.args if field != "")


@by_type
def test_the_tree_in_the_docstring_has_every_error(error_type: type[errors.ZbkError]) -> None:
    assert f"``{error_type.__name__}``" in str(errors.__doc__)


def test_an_unknown_code_becomes_a_plain_bookie_error() -> None:
    error = from_wire(9999, ("from the future",))

    assert type(error) is BookieError
    assert str(error) == "from the future"


@pytest.mark.parametrize("fields", [(), (1, 2, 3, 4), ("one",)])
def test_fields_that_do_not_fit_become_a_bookie_error(fields: tuple[Any, ...]) -> None:
    error = from_wire(NoSuchEntryError.code, fields)

    assert type(error) is BookieError
    assert str(NoSuchEntryError.code) in str(error)


def test_of_a_fenced_add_nobody_knows_the_outcome() -> None:
    assert LedgerFencedError(7).outcome == "unknown"
    assert not LedgerFencedError(7).is_retriable


def test_an_error_class_of_a_caller_takes_any_arguments() -> None:
    class OwnError(errors.ZbkError):
        """Has no code, fields or text of its own."""

    assert (str(OwnError("why")), OwnError.code) == ("why", errors.ZbkError.code)


def test_errors_that_carry_an_id_give_it_as_a_number() -> None:
    assert errors.NotDurableError(7, 4, 9).last_durable_id == 4
    assert errors.CannotAdvanceError(7, 4, 9, "why").last_durable_id == 4
    assert errors.CorruptRecordError("file", 12, "why").offset == 12
