#!/usr/bin/env python3
"""Django's command line, with Sonde's settings."""

import gc
import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    # What is loaded stays. Looking through it again and again while it grows takes a tenth of a start, and
    # looking through all of it now and then stops everybody for a moment.
    gc.disable()
    try:
        import django  # noqa: PLC0415 -- may be missing
        from django.core.management import execute_from_command_line  # noqa: PLC0415
    except ImportError:
        sys.exit(
            "sonde: Django is missing in this Python; run bin/up first, then use .venv/bin/python manage.py"
        )
    django.setup()
    gc.freeze()
    gc.enable()
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:  # while it starts; whatever runs long looks after it itself
        sys.exit(130)
    except BrokenPipeError:  # whoever read along (head, less) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
