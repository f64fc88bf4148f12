"""The frame of the jobs in ``spark/jobs``: options, a session, a summary, and exit codes.

A job is a click command run by ``main``. It reports its steps on standard error; its summary goes
to standard output for people, or as one JSON object to ``--json``. (``spark-submit`` mixes the two
outputs: give ``--json`` a file there.)

Exit codes are in ``pyspark_zbk.job_errors``.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar, cast

import click
import msgspec

import zbk
from pyspark_zbk import session
from pyspark_zbk.inputs import FORMATS, Source
from pyspark_zbk.job_errors import is_expected, plain
from pyspark_zbk.options import Connection, Options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

EXIT_DIFFERENT: Final = 1
EXIT_INTERRUPTED: Final = 130


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """The options of every job."""

    metadata: str | None = None
    password_file: str | None = None
    password_env: str | None = None
    master: str | None = None
    settings: tuple[str, ...] = ()
    log_level: str = "OFF"
    json_file: str | None = None

    @property
    def zbk_options(self) -> dict[str, str]:
        """The options of format ``zbk`` for the place of a data set."""
        given = {
            "metadata": self.metadata,
            "passwordFile": self.password_file,
            "passwordEnv": self.password_env,
        }
        return {name: value for name, value in given.items() if value}

    @property
    def connection(self) -> Connection:
        """The connection to the cluster."""
        return Options(self.zbk_options).connection

    @property
    def is_local(self) -> bool:
        """True if Spark starts on this machine, and reads its files."""
        from pyspark.sql import SparkSession

        has_store = any(one.startswith("spark.hadoop.fs.defaultFS") for one in self.settings)
        is_there = SparkSession.getActiveSession() is not None  # of whatever kind
        return session.is_local(self.master) and not has_store and not is_there

    @contextmanager
    def spark(self, name: str) -> Iterator["SparkSession"]:
        """Yield a session, with a progress bar if standard error is a terminal.

        An existing session (of a notebook) is used, and not changed.
        """
        from pyspark.sql import SparkSession

        import pyspark_zbk

        there = SparkSession.getActiveSession()
        if there is not None:
            pyspark_zbk.register(there)
            yield there
            return
        chosen = {"spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower()}
        chosen |= pairs(self.settings)
        start = partial(
            session.start, name, master=self.master, settings=chosen, log_level=self.log_level
        )
        with session.interruptible(start) as spark:
            yield spark

    @contextmanager
    def data_sets(self) -> Iterator[zbk.DataSets]:
        """Yield the data sets of the cluster."""
        with zbk.connect(self.metadata) as client:
            yield zbk.DataSets(client, self.connection.password())

    def check_report(self) -> None:
        """Refuse a place for the summary before any work: the work would seem to have failed.

        Raises:
            InvalidOptionError: no file can be written there.
        """
        if self.json_file in (None, "-"):
            return
        path = Path(self.json_file)
        changed = path if path.exists() else path.parent
        if path.is_dir() or not path.parent.is_dir() or not os.access(changed, os.W_OK):
            raise zbk.InvalidOptionError("json", self.json_file, "no file can be written there")

    def tell(self, summary: Mapping[str, Any]) -> None:
        """Print the summary, or write it to ``--json``."""
        if self.json_file is None:
            width = max(map(len, summary))
            for name, value in summary.items():
                if value not in (None, "", ()):
                    click.echo(f"{name.replace('_', ' '):<{width}}  {_text(value)}")
            return
        line = json.dumps(summary, ensure_ascii=False, default=str)
        if self.json_file == "-":
            click.echo(line)
        else:
            Path(self.json_file).write_text(f"{line}\n", "utf-8")


def job_options(command: FunctionT) -> FunctionT:
    """Add the options of every job to a command, as ``job: Job``, after its own options."""

    @wraps(command)
    def with_job(**given: Any) -> object:  # noqa: ANN401 - click's own
        job = Job(**{name: given.pop(name) for name in Job.__struct_fields__})
        job.check_report()
        return command(job=job, **given)

    options = [
        click.option(
            "--metadata",
            metavar="URI",
            envvar="ZBK_METADATA",
            show_envvar=True,
            help="The cluster's metadata store. [default: the running `zbk up`]",
        ),
        click.option("--password-file", metavar="FILE", help="Holds the ledgers' password."),
        click.option("--password-env", metavar="NAME", help="The variable that holds it."),
        click.option(
            "--master",
            metavar="URL",
            help="Spark's master. [default: spark-submit's, else all cores of this machine]",
        ),
        click.option(
            "--conf",
            "settings",
            metavar="KEY=VALUE",
            multiple=True,
            help="A setting of Spark; may be given several times.",
        ),
        click.option(
            "--log-level",
            type=click.Choice(["OFF", "ERROR", "WARN", "INFO"], case_sensitive=False),
            default="OFF",
            show_default=True,
            help="Log level of Spark on standard error.",
        ),
        click.option(
            "--json", "json_file", metavar="FILE", help="Write a JSON summary there; - is stdout."
        ),
    ]
    decorated = click.help_option("-h", "--help")(cast("FunctionT", with_job))
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


def source_options(command: FunctionT) -> FunctionT:
    """Add options for reading files to a command, as ``source: Source`` without a path."""

    @wraps(command)
    def with_source(
        file_format: str | None, schema: str, read_options: tuple[str, ...], **given: object
    ) -> object:
        source = Source(format=file_format or "", schema=schema, options=pairs(read_options))
        return command(source=source, **given)

    options = [
        click.option(
            "--format", "file_format", type=click.Choice(FORMATS), help="[default: by its name]"
        ),
        click.option("--schema", metavar="DDL", default="", help="Columns and types of INPUT."),
        click.option(
            "--read-option",
            "read_options",
            metavar="KEY=VALUE",
            multiple=True,
            help="An option of Spark's reader, such as header=false; may be given several times.",
        ),
    ]
    decorated = cast("FunctionT", with_source)
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


def main(command: click.Command, arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a job and end the process; an error is one line and an exit code."""
    try:
        command.main(arguments, standalone_mode=False)
    except click.exceptions.Exit as end:
        sys.exit(end.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        note(f"{command.name}: interrupted")
        sys.exit(EXIT_INTERRUPTED)
    except Exception as error:
        if os.environ.get("ZBK_DEBUG") == "1" or not is_expected(error):
            raise
        text, code = plain(error)
        note(f"{command.name}: {text}")
        sys.exit(code)
    sys.exit(0)


def pairs(texts: tuple[str, ...]) -> dict[str, str]:
    """Turn ``KEY=VALUE`` texts into a dictionary."""
    found = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise click.UsageError(f"{text!r} is not KEY=VALUE")
        found[key] = value
    return found


def note(text: str) -> None:
    """Print a line that is not data, on standard error."""
    click.echo(text, err=True)


def _text(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.2f}"
        case list() | tuple():
            return "\n  ".join(["", *map(str, value)])
        case _:
            return str(value)
