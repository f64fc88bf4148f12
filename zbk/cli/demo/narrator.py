"""How the demos are told: lines for people as each step happens, or one JSON object at the end.

A *story* is an iterator of steps, each a tagged struct. The commands turn a step into lines and
into JSON; everything else is here: the folder, the options, the verdict.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from zbk.cli.options import option_group
from zbk.cli.output import Format, note, print_json, rate_text

StepT = TypeVar("StepT")

demo_options = option_group(
    click.option("--zookeeper", is_flag=True, help="Start a real ZooKeeper for the metadata."),
    click.option(
        "--metadata",
        metavar="URI",
        envvar="ZBK_METADATA",
        show_envvar=True,
        help="Use this ZooKeeper instead of starting a store. The demo keeps to its own node.",
    ),
)


@contextmanager
def demo_folder(prefix: str) -> Iterator[Path]:
    """Yield a temporary folder; after a failure of the cluster it stays, with data and logs."""
    from zbk.errors import CallerError

    folder = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield folder
    except (KeyboardInterrupt, CallerError):
        shutil.rmtree(folder, ignore_errors=True)
        raise
    except BaseException:
        note(f"zbk: data and logs are kept in {folder}")
        raise
    shutil.rmtree(folder, ignore_errors=True)


def narrate(
    steps: Iterable[StepT],
    output: Format,
    *,
    lines_of: Callable[[StepT], Iterable[str]],
    json_of: Callable[[StepT], dict[str, Any]],
    is_same: Callable[[list[StepT]], bool],
    end_lines: Callable[[list[StepT], float], Iterable[str]],
) -> bool:
    """Run and show a story; return whether everything that was read back is what was written.

    ``is_same`` decides that from all steps; ``end_lines`` gets these and the seconds of the story,
    and is used if all is well.
    """
    from zbk.system.clock import monotonic_s

    def say(lines: Iterable[str]) -> None:
        if output == "table":
            for line in lines:
                click.echo(line)

    started_s = monotonic_s()
    told: list[StepT] = []
    for step in steps:
        told.append(step)
        say(lines_of(step))
    seconds = monotonic_s() - started_s
    is_well = is_same(told)
    if output == "json":
        shown = [json_of(step) for step in told]
        print_json({"is_same": is_well, "seconds": round(seconds, 3), "steps": shown})
    if is_well:
        say(end_lines(told, seconds))
    else:
        note("zbk: what was read back is NOT what was written")
    return is_well


def json_fields(step: object) -> dict[str, Any]:
    """Return the fields of a step, with its kind as ``step``."""
    import msgspec

    value: dict[str, Any] = msgspec.to_builtins(step, enc_hook=str)
    return value | {"step": value.pop("type")}


def verdict_text(difference: str) -> str:
    """Return the result of a comparison; ``difference`` is empty if there is none."""
    return f"DIFFERENT: {difference}" if difference else "the same"


def rate_of(count: int, seconds: float) -> str:
    """Return a rate for people; "-" if no time has passed."""
    return rate_text(count / seconds) if seconds else "-"
