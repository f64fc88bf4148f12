"""``python -m zbk`` is ``zbk``."""

from zbk.cli.main import main

if __name__ == "__main__":
    main()
