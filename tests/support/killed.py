"""A server's request in a process that is killed at a chosen statement. Run as a program: ``killed.py URL``.

Reads one JSON object a line: ``{"operation", "path", "params", "headers", "body", "kill_at"}``, carries the request
out in a fork of itself with the server's own dispatch, and prints ``{"points", "status", "body"}``, with a null status
where the fork was killed. ``kill_at`` counts the statements from 1, then comes the commit, then the moment after it; 0
kills nowhere, and without it there is no fork. One program serves many requests: importing the server and compiling its
statements takes longer than all of them.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

from sqlalchemy import Connection, event

from expb_tui.server.config import PasswordCost, ServerSettings
from expb_tui.server.context import Services
from expb_tui.server.identity.passwords import Passwords
from expb_tui.server.problems import Problem
from expb_tui.server.store.database import Database
from expb_tui.server.transaction import Incoming, perform_write
from expb_tui.server.work import routes


class Server:
    """What a server process has open."""

    def __init__(self, url: str) -> None:
        settings = ServerSettings(database=url, password_cost=PasswordCost(time=1, memory=64, lanes=1))
        self.database = Database(url, workers=2)
        self.services = Services(settings, self.database, Passwords(settings.password_cost))

    def carry_out(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run one request and say how it ended, if it lives that long."""
        points = 0

        def point(*_: Any) -> None:
            nonlocal points
            points += 1
            if points == request.get("kill_at"):
                os.kill(os.getpid(), signal.SIGKILL)

        def commit(_conn: Connection) -> None:
            point()

        event.listen(self.database.engine, "before_cursor_execute", point)
        event.listen(self.database.engine, "commit", commit)
        self.database.bell.listen(point)
        operation = next(op for op in routes.operations.all if op.id == request["operation"])
        body = json.dumps(request["body"]).encode()
        incoming = Incoming(operation, request["path"], request["params"], {}, request["headers"], body, "0f5d3c1e")
        try:
            outgoing = perform_write(self.services, incoming)
            status, text = outgoing.status, outgoing.body.decode()
        except Problem as problem:
            status, text = problem.status, json.dumps({"code": problem.code})
        finally:
            event.remove(self.database.engine, "before_cursor_execute", point)
            event.remove(self.database.engine, "commit", commit)
        return {"points": points, "status": status, "body": json.loads(text or "null")}

    def in_a_fork(self, request: dict[str, Any]) -> dict[str, Any]:
        """As ``carry_out``, in a process of its own."""
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            self.database.engine.dispose(close=False)
            os.write(writing, json.dumps(self.carry_out(request)).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            answered = pipe.read()
        os.waitpid(child, 0)
        return json.loads(answered) if answered else {"points": 0, "status": None, "body": None}


def main() -> None:
    server = Server(sys.argv[1])
    print("ready", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        answer = server.carry_out(request) if request.get("kill_at") is None else server.in_a_fork(request)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
