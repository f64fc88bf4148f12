"""``zbk version``: the versions of zbk, its wire protocol and its formats."""

from zbk.cli.command import command
from zbk.cli.options import output_option
from zbk.cli.output import Format, print_object


@command("version", ("zbk version", "for people"), ("zbk version -o json", "for programs"))
@output_option
def version(output: Format) -> None:
    """Show the versions of zbk, its wire protocol and its formats."""
    import platform

    import zbk
    from zbk.protocol.ledger.formats import METADATA_FORMAT_VERSION
    from zbk.wire.messages import VERSION_MAX, VERSION_MIN

    print_object(
        {
            "zbk": zbk.__version__,
            "wire_protocol": f"{VERSION_MIN}..{VERSION_MAX}",
            "ledger_metadata_format": METADATA_FORMAT_VERSION,
            "python": platform.python_version(),
            "platform": platform.platform(),
        },
        output,
    )
