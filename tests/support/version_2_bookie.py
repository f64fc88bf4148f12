"""A bookie that speaks version 2 of the protocol at most: ``python -m`` this, in place of ``zbk``.

It negotiates as the last release before version 3, so that it neither gets nor sends a bundle.
"""

from zbk.cli.main import main
from zbk.transport import greeting
from zbk.wire.messages import VERSION_MIN

if __name__ == "__main__":
    vars(greeting)["VERSION_MAX"] = VERSION_MIN  # what its HELLO agrees to
    main()
