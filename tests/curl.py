"""A stand-in for the few options of curl that the printed shell examples use, for machines without it."""

from __future__ import annotations

import argparse
import sys
import urllib.error
import urllib.request


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="curl", allow_abbrev=False)
    parser.add_argument("url")
    parser.add_argument("-X", dest="method")
    parser.add_argument("-H", dest="headers", action="append", default=[])
    parser.add_argument("-d", dest="body")
    parser.add_argument("-s", dest="is_silent", action="store_true")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Print the answer's body whatever its status, as curl does; 7 when nobody answers."""
    options = parse(arguments)
    body = None if options.body is None else options.body.encode()
    request = urllib.request.Request(options.url, data=body, method=options.method)
    for header in options.headers:
        name, _, value = header.partition(":")
        request.add_header(name, value.strip())
    try:
        with urllib.request.urlopen(request) as answer:
            sys.stdout.buffer.write(answer.read())
    except urllib.error.HTTPError as error:
        sys.stdout.buffer.write(error.read())
    except urllib.error.URLError as error:
        print(f"curl: {error.reason}", file=sys.stderr)
        return 7
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
