"""The table of the operations of the admin API.

Paths, parameters and the keys of answers are BookKeeper's where it has the operation. There are
four differences: an answer that BookKeeper gives as a sentence is a JSON object here, so work that
goes on in the background answers with its job; an empty list is a list and not an error; an error
has a status of its kind, and not 404 in all cases; sizes are numbers in all answers. What zbk adds
is below ``/api/v1/zbk``, or has names in snake case.

Source: BookKeeper's ``HttpRouter`` and its ``http.service`` classes.
"""

from typing import Any, Final

from zbk.admin import (
    bookies,
    datasets,
    ledgers,
    logs,
    moves,
    own_bookie,
    process,
    recovery,
)
from zbk.admin.operation import Operation, Parameter
from zbk.protocol.entry.words import DigestType, LedgerState, LedgerType

_LEDGER_ID = Parameter("ledger_id", "integer", "Id of the ledger.")
_BOOKIE_ID = Parameter("bookie_id", "bookie", "Id of the bookie; that of this process.", "")

_LOG: Final = Parameter("log", "string", "Name of the log.")
_DATA_SET: Final = Parameter("dataset", "string", "Name of the data set.")
_ENCODING: Final = Parameter(
    "encoding", "string", "Of payloads. In texts, bytes that are no UTF-8 are replaced.", "text",
    choices=("text", "base64"),
)  # fmt: skip
_LEDGER_TYPES: Final = tuple(LedgerType)
_DIGEST_TYPES: Final = tuple(DigestType)
_PASSWORD: Final = Parameter("password", "secret", "Password of the ledger.", b"")
_MOVE_PASSWORD: Final = Parameter(
    "password", "secret", "Password of ledgers that have it: to close those without a writer.", b""
)
_GRACE: Final = Parameter(
    "grace_ms", "integer", "Time that a writer has to replace the bookie before it is fenced.",
    moves.GRACE_MS, high=86_400_000,
)  # fmt: skip

_NUMBER: Final = {"type": "integer"}
_TEXT: Final = {"type": "string"}
_FLAG: Final = {"type": "boolean"}
_MAYBE_TEXT: Final = {"type": ["string", "null"]}
_MAYBE_NUMBER: Final = {"type": ["number", "null"]}
_ANY_OBJECT: Final = {"type": "object"}


def _fields(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON schemas
    return {"type": "object", "properties": fields, "required": list(fields)}


def _map(values: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": values}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


_JOB: Final = _fields(
    job_id=_NUMBER, name=_TEXT, options=_ANY_OBJECT, state=_TEXT, created_ms=_NUMBER,
    ended_ms=_MAYBE_NUMBER, error=_TEXT,
    progress=_fields(
        ledger_count=_NUMBER, entry_count=_NUMBER, size=_NUMBER, left_count=_NUMBER,
        left=_list(_ANY_OBJECT),
    ),
)  # fmt: skip
_SPACE: Final = _fields(freeSpace=_NUMBER, totalSpace=_MAYBE_NUMBER)
_LEDGER: Final = _fields(
    metadataFormatVersion=_NUMBER, ensembleSize=_NUMBER, writeQuorumSize=_NUMBER,
    ackQuorumSize=_NUMBER, state=_TEXT, length=_NUMBER, lastEntryId=_NUMBER, ctime=_NUMBER,
    digestType=_TEXT, ledgerType=_TEXT, customMetadata=_map(_TEXT),
    allEnsembles=_map(_list(_TEXT)), closed=_FLAG,
)  # fmt: skip

OPERATIONS: Final[tuple[Operation, ...]] = (
    Operation(
        "GET", "/api/v1/ledger/list", "List the ledgers by id, with their metadata if wanted.",
        ledgers.list_ledgers, _map({"anyOf": [_LEDGER, {"type": "null"}]}),
        (
            Parameter(
                "print_metadata", "boolean", "Add metadata: of one page; null if unreadable.",
                default=False,
            ),
            Parameter(
                "page", "integer", "Number of a page of 100 ledgers, from 1; else all ids.",
                None, low=1, high=10_000_000,
            ),
        ),
        commands=("zbk ledger ls",),
    ),
    Operation(
        "GET", "/api/v1/zbk/ledger/find",
        "Search 1,000 ledgers for up to 100 that pass all filters; says where to continue.",
        ledgers.find_ledgers,
        _fields(ledgers=_map(_LEDGER), damaged=_map(_TEXT), next_ledger_id=_MAYBE_NUMBER),
        (
            Parameter("from_ledger_id", "integer", "First ledger to look at.", 0),
            Parameter("state", "string", "Its state.", "", choices=("", *LedgerState)),
            Parameter("ledger_type", "string", "Its type.", "", choices=("", *_LEDGER_TYPES)),
            Parameter("created_before_ms", "integer", "Created before, from 1970 on.", None),
            Parameter("created_after_ms", "integer", "Created after, likewise.", None),
            Parameter("length_above", "integer", "Closed, with more bytes of payload.", None),
            Parameter("length_below", "integer", "Closed, with fewer bytes of payload.", None),
            Parameter("custom_metadata", "list", "Has all these KEY=VALUE.", ()),
            Parameter("bookie_id", "bookie", "Has a fragment on this bookie.", ""),
        ),
        commands=("zbk ledger ls",),
    ),
    Operation(
        "GET", "/api/v1/ledger/metadata", "Show the metadata of a ledger.",
        ledgers.ledger_metadata, _map(_LEDGER), (_LEDGER_ID,),
        commands=("zbk ledger show",),
    ),
    Operation(
        "GET", "/api/v1/zbk/ledger/copies",
        "Show what each bookie of a ledger's last fragment holds, and up to where it has synced. "
        "Syncs nothing.",
        ledgers.ledger_copies,
        _fields(
            ledger_id=_NUMBER,
            copies=_list(
                _fields(
                    bookie_id=_TEXT, last_entry_id=_MAYBE_NUMBER, last_add_synced=_MAYBE_NUMBER,
                    unsynced_count=_MAYBE_NUMBER, holes=_list(_list(_NUMBER)),
                    unknown_from=_MAYBE_NUMBER, own_log=_MAYBE_NUMBER, why=_TEXT,
                )
            ),
        ),
        (_LEDGER_ID,),
        commands=("zbk ledger show",),
    ),
    Operation(
        "GET", "/api/v1/ledger/read",
        "Read entries of a ledger, at most 1,000 and 16 MiB.",
        ledgers.read_ledger, _map(_TEXT),
        (
            _LEDGER_ID,
            Parameter("start_entry_id", "integer", "First entry.", 0),
            Parameter("end_entry_id", "integer", "Last entry; the LAC.", None),
            Parameter("bookie_id", "bookie", "Only the replicas of this bookie.", ""),
            _ENCODING,
            _PASSWORD,
        ),
        commands=("zbk ledger read", "zbk ledger cat"),
    ),
    Operation(
        "DELETE", "/api/v1/ledger/delete", "Delete a ledger for good.",
        ledgers.delete_ledger, _fields(deleted=_NUMBER), (_LEDGER_ID,),
        commands=("zbk ledger delete",),
    ),
    Operation(
        "PUT", "/api/v1/zbk/ledger/recover", "Close a ledger in place of its writer.",
        ledgers.recover_ledger, _fields(ledger_id=_NUMBER, last_entry_id=_NUMBER),
        (_LEDGER_ID, _PASSWORD),
        commands=("zbk ledger recover",),
    ),
    Operation(
        "PUT", "/api/v1/zbk/ledger/create",
        "Reserve a ledger, which a client's writer fills later.",
        ledgers.create_ledger, _fields(ledger_id=_NUMBER),
        (
            Parameter("ensemble_size", "integer", "Bookies it is spread over.", 3, low=1, high=999),
            Parameter("write_quorum_size", "integer", "Bookies of an entry.", 3, low=1, high=999),
            Parameter("ack_quorum_size", "integer", "Answers for an add.", 2, low=1, high=999),
            Parameter("ledger_type", "string", "Its type.", "PD_JOURNAL", choices=_LEDGER_TYPES),
            Parameter("digest_type", "string", "Its digest.", "XXH3", choices=_DIGEST_TYPES),
            Parameter("custom_metadata", "list", "Texts of the form KEY=VALUE.", ()),
            _PASSWORD,
        ),
        commands=("zbk ledger create",),
    ),
    Operation(
        "PUT", "/api/v1/zbk/ledger/close", "Close a reserved ledger, empty.",
        ledgers.close_ledger, _fields(ledger_id=_NUMBER, last_entry_id=_NUMBER),
        (_LEDGER_ID, _PASSWORD),
        commands=("zbk ledger close",),
    ),
    Operation(
        "PUT", "/api/v1/zbk/ledger/sync", "Make the entries of an open ledger durable.",
        ledgers.sync_ledger, _fields(ledger_id=_NUMBER, last_durable_id=_NUMBER),
        (_LEDGER_ID, _PASSWORD),
        commands=("zbk ledger sync",),
    ),
    Operation(
        "GET", "/api/v1/zbk/ledger/check",
        "Compare what bookies hold of a ledger with its metadata; reads few entries.",
        ledgers.check_ledger,
        _fields(
            ledger_id=_NUMBER, state=_TEXT, is_whole=_FLAG, missing=_map(_TEXT),
            missing_entries=_map(_list(_list(_NUMBER))), undecided=_list(_TEXT),
        ),
        (_LEDGER_ID,),
        commands=("zbk ledger check",),
    ),
    Operation(
        "PUT", "/api/v1/zbk/ledger/check", "Begin such a check as a job.",
        ledgers.begin_check, _JOB,
        (
            _LEDGER_ID,
            Parameter("full", "boolean", "Read every entry of every replica.", default=False),
            Parameter("report", "boolean", "Report missing replicas for repair.", default=False),
        ),
        commands=("zbk ledger check",),
    ),
    Operation(
        "GET", "/api/v1/zbk/log/list", "List the names of the logs.", logs.list_logs, _list(_TEXT),
        commands=("zbk log ls",),
    ),
    Operation(
        "GET", "/api/v1/zbk/log/show", "Show the ledgers of a log.",
        logs.show_log,
        _fields(
            name=_TEXT, created_ms=_NUMBER, ledger_ids=_list(_NUMBER), first_index=_NUMBER,
            begin=_MAYBE_TEXT,
        ),
        (_LOG,),
        commands=("zbk log show",),
    ),
    Operation(
        "GET", "/api/v1/zbk/log/read", "Read entries of a log, at most 1,000 and 16 MiB.",
        logs.read_log, _list(_fields(position=_TEXT, payload=_TEXT)),
        (
            _LOG,
            Parameter("position", "string", "First entry, as LEDGER:ENTRY; the oldest.", ""),
            _ENCODING,
            _PASSWORD,
        ),
        commands=("zbk log cat",),
    ),
    Operation(
        "PUT", "/api/v1/zbk/log/truncate", "Delete the ledgers of a log before a position.",
        logs.truncate_log, _fields(deleted_ledger_count=_NUMBER),
        (_LOG, Parameter("position", "string", "First entry that stays, as LEDGER:ENTRY.")),
        commands=("zbk log truncate",),
    ),
    Operation(
        "DELETE", "/api/v1/zbk/log/delete", "Delete a log and its ledgers for good.",
        logs.delete_log, _fields(deleted_ledger_count=_NUMBER), (_LOG,),
        commands=("zbk log delete",),
    ),
    Operation(
        "GET", "/api/v1/zbk/dataset/list", "List the names of the data sets.",
        datasets.list_data_sets, _list(_TEXT),
        commands=("zbk dataset ls",),
    ),
    Operation(
        "GET", "/api/v1/zbk/dataset/show", "Show the versions and the loads of a data set.",
        datasets.show_data_set,
        _fields(
            dataset=_TEXT, created_ms=_NUMBER, versions=_list(_ANY_OBJECT), loads=_list(_ANY_OBJECT)
        ),
        (_DATA_SET,),
        commands=("zbk dataset history", "zbk dataset loads"),
    ),
    Operation(
        "GET", "/api/v1/zbk/dataset/version",
        "Show a version of a data set: schema, and up to 10,000 ledgers.",
        datasets.show_version,
        _fields(dataset=_TEXT, version=_NUMBER, schema=_TEXT, ledgers=_list(_ANY_OBJECT)),
        (_DATA_SET, Parameter("version", "integer", "Its number; the last.", None), _PASSWORD),
        commands=("zbk dataset show",),
    ),
    Operation(
        "PUT", "/api/v1/zbk/dataset/abort", "Abort a load whose driver is gone.",
        datasets.abort_load, _fields(state=_MAYBE_TEXT, deleted_ledger_count=_NUMBER),
        (_DATA_SET, Parameter("load_id", "string", "Id of the load."), _PASSWORD),
        commands=("zbk dataset abort",),
    ),
    Operation(
        "DELETE", "/api/v1/zbk/dataset/drop", "Drop a data set, or one of its older versions.",
        datasets.drop_data_set, _fields(deleted_ledger_count=_NUMBER),
        (_DATA_SET, Parameter("version", "integer", "This version only.", None, low=1)),
        commands=("zbk dataset drop",),
    ),
    Operation(
        "PUT", "/api/v1/zbk/dataset/gc",
        "Begin to delete the ledgers that no version of a data set needs: a job.",
        datasets.collect_data_sets, _JOB,
        (
            Parameter("dataset", "string", "Name; all data sets, also dropped ones.", ""),
            Parameter("dry_run", "boolean", "Only count the ledgers.", default=False),
            _PASSWORD,
        ),
        commands=("zbk dataset gc",),
    ),
    Operation(
        "GET", "/api/v1/zbk/bookie/list", "List the registrations of the running bookies.",
        bookies.list_registrations, _list(_fields(bookie_id=_TEXT, address=_TEXT)),
        commands=("zbk bookie ls",),
    ),
    Operation(
        "GET", "/api/v1/zbk/bookie/cookie", "List the cookies of all bookies of the cluster.",
        bookies.list_cookies, _list(_fields(bookie_id=_TEXT, instance_id=_TEXT)),
        commands=("zbk bookie cookie show",),
    ),
    Operation(
        "DELETE", "/api/v1/zbk/bookie/cookie",
        "Remove a stopped bookie for good, without copying its entries.",
        bookies.delete_cookie, _fields(bookie_id=_TEXT),
        (Parameter("bookie_id", "bookie", "Id of the bookie."),),
        commands=("zbk bookie cookie delete",),
    ),
    Operation(
        "GET", "/api/v1/bookie/list_bookies", "List the bookies, with their hosts if wanted.",
        bookies.list_bookies, _map(_MAYBE_TEXT),
        (
            Parameter("type", "string", "Writable or read-only.", "rw", choices=("rw", "ro")),
            Parameter("print_hostnames", "boolean", "Add their hosts.", default=False),
        ),
        commands=("zbk bookie ls",),
    ),
    Operation(
        "GET", "/api/v1/bookie/list_bookie_info", "List the space of the bookies, in bytes.",
        bookies.list_bookie_info, _map({"anyOf": [_SPACE, {"type": "null"}]}),
        commands=("zbk bookie show",),
    ),
    Operation(
        "GET", "/api/v1/bookie/cluster_info",
        "Count the bookies by state, name the auditor, and show whether ledgers lack copies.",
        bookies.cluster_info,
        _fields(
            auditorElected=_FLAG, auditorId=_TEXT, clusterUnderReplicated=_FLAG,
            ledgerReplicationEnabled=_FLAG, totalBookiesCount=_NUMBER,
            writableBookiesCount=_NUMBER, readonlyBookiesCount=_NUMBER,
            unavailableBookiesCount=_NUMBER,
        ),
        commands=("zbk status",),
    ),
    Operation(
        "GET", "/api/v1/config/server_config",
        "Show the options of the bookie of this process, without secrets.",
        own_bookie.server_config, _map(_TEXT),
        commands=("zbk config show",),
    ),
    Operation(
        "PUT", "/api/v1/config/server_config",
        "Change options of this process that need no restart, until it restarts or SIGHUP "
        "re-reads the configuration. Those of autorecovery: of a bookie with --autorecovery.",
        process.set_server_config, _map(_TEXT),
        (
            Parameter("log_level", "string", "Level of the log.", None, choices=process.LEVELS),
            *(
                Parameter(name, "option", one.help, None)
                for name, one in process.LIVE_OPTIONS.items()
            ),
        ),
        refused=process.FIXED_OPTIONS,
    ),
    Operation(
        "PUT", "/api/v1/bookie/expand_storage",
        "Add new, empty directories to the bookie of this process, which restarts. They come after "
        "the old ones in its configuration, which is read again.",
        own_bookie.expand_storage, _fields(bookie_id=_TEXT, added=_list(_TEXT)),
        commands=("zbk bookie expand-storage",),
    ),
    Operation(
        "GET", "/api/v1/zbk/config/sources",
        "Show these options with the source of each: command line, a variable, a file, default.",
        own_bookie.option_sources, _map(_fields(value=_TEXT, source=_TEXT)),
        commands=("zbk config show",),
    ),
    Operation(
        "GET", "/api/v1/bookie/list_disk_file",
        "List the files of the bookie of this process, by type, with tabs between the names.",
        own_bookie.list_disk_files, _map(_TEXT),
        (
            Parameter(
                "file_type", "string", "Only files of this type.", "",
                choices=("", *own_bookie.FILE_TYPES),
            ),
        ),
    ),
    Operation(
        "GET", "/api/v1/zbk/bookie/unsynced",
        "List the ledgers with the most entries that are acknowledged and not synced at the bookie "
        "of this process. Syncs nothing.",
        own_bookie.unsynced_ledgers,
        _fields(
            bookie_id=_TEXT, ledger_count=_NUMBER, unsynced_size=_NUMBER,
            ledgers=_list(
                _fields(
                    ledger_id=_NUMBER, unsynced_size=_NUMBER, entry_count=_NUMBER, age_ms=_NUMBER
                )
            ),
        ),
        (
            Parameter(
                "order", "string", "What is largest in the first.", "size", choices=("size", "age")
            ),
            Parameter("limit", "integer", "Ledgers in the answer.", 20, low=1, high=100),
        ),
        commands=("zbk bookie unsynced",),
    ),
    Operation(
        "GET", "/api/v1/bookie/info", "Show what a bookie reports about itself.",
        bookies.bookie_info,
        _fields(freeSpace=_NUMBER, totalSpace=_MAYBE_NUMBER, bookie_id=_TEXT), (_BOOKIE_ID,),
        commands=("zbk bookie show",),
    ),
    Operation(
        "GET", "/api/v1/bookie/state", "Show the state of a bookie.",
        bookies.bookie_state,
        _fields(
            running=_FLAG, readOnly=_FLAG, shuttingDown=_FLAG, availableForHighPriorityWrites=_FLAG
        ),
        (_BOOKIE_ID,),
        commands=("zbk bookie show",),
    ),
    Operation(
        "GET", "/api/v1/bookie/state/readonly", "Show whether a bookie is read-only.",
        bookies.readonly_switch, _fields(readOnly=_FLAG, switched=_FLAG), (_BOOKIE_ID,),
        commands=("zbk bookie readonly",),
    ),
    Operation(
        "PUT", "/api/v1/bookie/state/readonly", "Switch a bookie to read-only, or back.",
        bookies.switch_readonly, _fields(switched=_FLAG),
        (_BOOKIE_ID, Parameter("readOnly", "boolean", "Whether it is read-only.")),
        commands=("zbk bookie readonly",),
    ),
    Operation(
        "GET", "/api/v1/bookie/is_ready", "Check that a bookie responds.",
        bookies.bookie_is_ready, _fields(bookie_id=_TEXT), (_BOOKIE_ID,),
    ),
    Operation(
        "GET", "/api/v1/bookie/last_log_mark", "Show how far a bookie's journal is checkpointed.",
        bookies.last_log_mark, _fields(LastLogMark=_TEXT, JournalPosition=_TEXT), (_BOOKIE_ID,),
        commands=("zbk bookie show",),
    ),
    Operation(
        "GET", "/api/v1/bookie/gc_details", "Show what garbage collection did since the start.",
        bookies.gc_details, _map(_NUMBER), (_BOOKIE_ID,),
        commands=("zbk bookie show",),
    ),
    Operation(
        "GET", "/api/v1/bookie/gc", "Show whether a bookie collects garbage now.",
        bookies.gc_running, _fields(is_in_force_gc=_TEXT), (_BOOKIE_ID,),
    ),
    Operation(
        "PUT", "/api/v1/bookie/gc", "Make a bookie drop deleted ledgers, and compact if wanted.",
        bookies.collect_garbage, _ANY_OBJECT,
        (
            _BOOKIE_ID,
            Parameter(
                "compaction", "string", "Kind of compaction.", "", choices=("", "minor", "major")
            ),
            Parameter("forceMajor", "boolean", "As compaction=major.", default=False),
            Parameter("forceMinor", "boolean", "As compaction=minor.", default=False),
        ),
        commands=("zbk bookie gc",),
    ),
    Operation(
        "GET", "/api/v1/bookie/gc/suspend_compaction",
        "Show which kinds of compaction a bookie has suspended.",
        bookies.suspended_compaction,
        _fields(isMajorGcSuspended=_TEXT, isMinorGcSuspended=_TEXT), (_BOOKIE_ID,),
        commands=("zbk bookie compaction",),
    ),
    Operation(
        "PUT", "/api/v1/bookie/gc/suspend_compaction",
        "Suspend compaction at a bookie until it is resumed, or the bookie restarts.",
        bookies.suspend_compaction,
        _fields(isMajorGcSuspended=_TEXT, isMinorGcSuspended=_TEXT),
        (
            _BOOKIE_ID,
            Parameter("suspendMajor", "boolean", "Suspend major compaction.", None),
            Parameter("suspendMinor", "boolean", "Suspend minor compaction.", None),
        ),
        commands=("zbk bookie compaction",),
    ),
    Operation(
        "PUT", "/api/v1/bookie/gc/resume_compaction", "Resume compaction at a bookie.",
        bookies.resume_compaction,
        _fields(isMajorGcSuspended=_TEXT, isMinorGcSuspended=_TEXT),
        (
            _BOOKIE_ID,
            Parameter("resumeMajor", "boolean", "Resume major compaction.", None),
            Parameter("resumeMinor", "boolean", "Resume minor compaction.", None),
        ),
        commands=("zbk bookie compaction",),
    ),
    Operation(
        "GET", "/api/v1/bookie/sanity",
        "Write a few entries to a bookie, read them and delete them.",
        bookies.test_bookie, _fields(passed=_FLAG, readOnly=_FLAG), (_BOOKIE_ID,),
        commands=("zbk bookie test",), is_writing=True,
    ),
    Operation(
        "GET", "/api/v1/zbk/bookie/scrub", "Show the progress of a bookie's scrubber.",
        bookies.scrub_status, _ANY_OBJECT, (_BOOKIE_ID,),
        commands=("zbk bookie scrub",),
    ),
    Operation(
        "PUT", "/api/v1/zbk/bookie/scrub", "Make a bookie begin to read its files for damage.",
        bookies.scrub_bookie, _ANY_OBJECT, (_BOOKIE_ID,),
        commands=("zbk bookie scrub",),
    ),
    Operation(
        "GET", "/api/v1/autorecovery/status", "Show whether autorecovery is enabled.",
        recovery.autorecovery_status, _fields(enabled=_FLAG),
        commands=("zbk autorecovery status",),
    ),
    Operation(
        "PUT", "/api/v1/autorecovery/status", "Enable or disable autorecovery in the cluster.",
        recovery.switch_autorecovery, _fields(enabled=_FLAG),
        (Parameter("enabled", "boolean", "Whether it is enabled."),),
        commands=("zbk autorecovery enable", "zbk autorecovery disable"),
    ),
    Operation(
        "GET", "/api/v1/autorecovery/who_is_auditor", "Name the process that audits now.",
        recovery.who_is_auditor, _fields(Auditor=_MAYBE_TEXT),
        commands=("zbk autorecovery whoisauditor",),
    ),
    Operation(
        "GET", "/api/v1/autorecovery/list_under_replicated_ledger",
        "List the ledgers that wait for repair.",
        recovery.list_under_replicated_ledgers,
        {"anyOf": [_list(_NUMBER), _map(_list(_TEXT))]},
        (
            Parameter("missingreplica", "bookie", "Only if this bookie lacks entries.", ""),
            Parameter("excludingmissingreplica", "bookie", "Not if this bookie lacks them.", ""),
            Parameter(
                "printmissingreplica", "boolean",
                "Show the bookies that lack entries: an object, by ledger id.", default=False,
            ),
        ),
        commands=("zbk ledger underreplicated",),
    ),
    Operation(
        "GET", "/api/v1/zbk/autorecovery/task",
        "List up to 1,000 repair tasks, unrepairable ones too: state, progress, reasons.",
        recovery.list_tasks,
        _list(_fields(ledger_id=_NUMBER, state=_TEXT, why=_TEXT, missing=_map(_list(_TEXT)))),
        (Parameter("ledger_id", "integer", "Of this ledger only.", None),),
        commands=("zbk ledger underreplicated",),
    ),
    Operation(
        "GET", "/api/v1/zbk/autorecovery/auditor", "Show what the last auditor said of itself.",
        recovery.auditor_status, _fields(status={"type": ["object", "null"]}),
        commands=("zbk autorecovery status",),
    ),
    Operation(
        "PUT", "/api/v1/autorecovery/trigger_audit", "Look for lost bookies now.",
        recovery.trigger_audit, _fields(triggered=_FLAG),
        commands=("zbk autorecovery trigger",),
    ),
    Operation(
        "GET", "/api/v1/autorecovery/lost_bookie_recovery_delay",
        "Show how long one lost bookie has to return; null: as the auditors are configured.",
        recovery.lost_bookie_delay, _fields(delay_seconds=_MAYBE_NUMBER),
        commands=("zbk autorecovery delay",),
    ),
    Operation(
        "PUT", "/api/v1/autorecovery/lost_bookie_recovery_delay",
        "Set how long one lost bookie has to return.",
        recovery.set_lost_bookie_delay, _fields(delay_seconds=_MAYBE_NUMBER),
        (Parameter("delay_seconds", "integer", "Seconds.", high=7 * 86_400),),
        commands=("zbk autorecovery delay",),
    ),
    Operation(
        "DELETE", "/api/v1/autorecovery/lost_bookie_recovery_delay",
        "Return to the delay that each auditor is configured with.",
        recovery.reset_lost_bookie_delay, _fields(delay_seconds=_MAYBE_NUMBER),
        commands=("zbk autorecovery delay",),
    ),
    Operation(
        "PUT", "/api/v1/autorecovery/bookie",
        "Begin to copy bookies' entries to other bookies: a job for each.",
        moves.recover_bookies, _fields(jobs=_list(_JOB)),
        (
            Parameter("bookie_src", "list", "Ids of the bookies."),
            Parameter("bookie_dest", "list", "Id of a bookie to copy to; placement.", ()),
            Parameter(
                "delete_cookie", "boolean", "Also remove them from service, as decommission does.",
                default=False,
            ),
            Parameter("ledger_id", "integer", "This ledger only.", None),
            _GRACE,
            _MOVE_PASSWORD,
        ),
        commands=("zbk bookie recover",),
    ),
    Operation(
        "PUT", "/api/v1/autorecovery/decommission",
        "Begin to remove a stopped bookie from service, for good: a job.",
        moves.decommission_bookie, _JOB,
        (
            Parameter("bookie_src", "bookie", "Id of the bookie."),
            Parameter(
                "delete_cookie", "boolean", "Delete its cookie after its entries are copied.",
                default=True,
            ),
            Parameter(
                "give_up_count", "integer",
                "Entries to give up for good, as a job with 0 states their number.", None,
            ),
            _GRACE,
            _MOVE_PASSWORD,
        ),
        commands=("zbk bookie decommission",),
    ),
    Operation(
        "GET", "/api/v1/zbk/job/list", "List the jobs of this process with their progress.",
        moves.list_jobs, _list(_JOB),
    ),
    Operation(
        "PUT", "/api/v1/zbk/job/stop", "Stop a job of this process; what it has done stays.",
        moves.stop_job, _JOB, (Parameter("job_id", "integer", "Id of the job."),),
    ),
    Operation(
        "GET", "/api/v1/zbk/status", "Show whether the cluster is healthy, and if not, why.",
        process.cluster_status,
        _fields(is_healthy=_FLAG, version=_TEXT, findings=_list(_ANY_OBJECT)),
        commands=("zbk status",),
    ),
    Operation(
        "PUT", "/api/v1/zbk/metadata/check", "Begin to check all records of the metadata: a job.",
        process.check_metadata, _JOB,
        commands=("zbk metadata check",),
    ),
    Operation(
        "GET", "/api/v1/zbk/log_level", "Show the log level of this process.",
        process.log_level, _fields(level=_TEXT),
    ),
    Operation(
        "PUT", "/api/v1/zbk/log_level", "Set the log level of this process until it restarts.",
        process.set_log_level, _fields(level=_TEXT),
        (Parameter("level", "string", "The level.", choices=process.LEVELS),),
    ),
)  # fmt: skip
