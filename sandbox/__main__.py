"""The sandbox by itself: `python -m sandbox --database FILE [--host H] [--port P] [--mode M]`, and more."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import threading
from pathlib import Path

import uvicorn

from sandbox.app import KEEP_SECONDS, build_app
from sandbox.world import MODES


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m sandbox", description="A simulated Perplexity.")
    parser.add_argument("--database", type=Path, required=True, help="SQLite file for jobs and counters")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--mode", choices=MODES, help="default: as the file remembers, else legacy-live")
    parser.add_argument(
        "--seconds", type=float, help="usual length of a run; default $SANDBOX_SECONDS, else 8"
    )
    parser.add_argument(
        "--chat-seconds", type=float, help="of a web chat answer; default $SANDBOX_CHAT_SECONDS, else 3"
    )
    parser.add_argument("--follow", action="store_true", help="end when standard input closes")
    return parser.parse_args()


def _end_with_standard_input() -> None:
    """A killed parent cannot end its children, but the pipe that it held closes."""
    while sys.stdin.buffer.read(1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """Serves until SIGTERM or Ctrl+C. Prints the URL once the socket listens, so that readers may connect."""
    chosen = _arguments()
    app = build_app(
        chosen.database, mode=chosen.mode, seconds=chosen.seconds, chat_seconds=chosen.chat_seconds
    )
    family = socket.AF_INET6 if ":" in chosen.host else socket.AF_INET
    try:
        listener = socket.create_server((chosen.host, chosen.port), family=family, backlog=2048)
    except OSError as refused:
        raise SystemExit(
            f"cannot listen on {chosen.host} port {chosen.port}: {refused.strerror}"
        ) from refused
    host = f"[{chosen.host}]" if ":" in chosen.host else chosen.host
    print(f"http://{host}:{listener.getsockname()[1]}", flush=True)
    if chosen.follow:
        threading.Thread(target=_end_with_standard_input, daemon=True).start()
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="on",
        timeout_graceful_shutdown=1,
        timeout_keep_alive=KEEP_SECONDS,
    )
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
