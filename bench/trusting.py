"""Sonde's command line, trusting one certificate in place of the public ones.

    BENCH_CA=FILE python -m bench.trusting up --role web

The product has no setting for another authority, and the impersonating client is for TLS.
"""

from __future__ import annotations

import os

import certifi

import manage

if __name__ == "__main__":
    certifi.where = lambda: os.environ["BENCH_CA"]
    manage.main()
