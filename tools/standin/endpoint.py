"""AWS's own API over a stand-in account, on loopback: what AWS_ENDPOINT_URL leads to where AWS is a stand-in.

What is not answered is refused by name; nothing is passed on to AWS.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tools.standin import aws_wire, endpoint_answers, endpoint_capacity, endpoint_launches, scenario, tokens
from tools.standin.account import Account
from tools.standin.aws_wire import Asked, Reply
from tools.standin.cloud import Cloud, Configuration
from tools.standin.endpoint_answers import There
from tools.standin.errors import AwsError

ANSWERS = {**endpoint_answers.ANSWERS, **endpoint_capacity.ANSWERS, **endpoint_launches.ANSWERS}

_URN = "urn:pulumi:beside::beside-pulumi::{token}::asked"


@contextmanager
def serving(folder: Path) -> Iterator[dict[str, str]]:
    """Yields the environment in which every AWS SDK asks the account in `folder`, and nobody else."""
    server = start(folder)
    try:
        yield environment(server)
    finally:
        server.shutdown()
        server.server_close()


def start(folder: Path) -> ThreadingHTTPServer:
    """Serves until it is shut down, or this process ends."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"folder": folder}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def environment(server: ThreadingHTTPServer) -> dict[str, str]:
    url = f"http://127.0.0.1:{server.server_address[1]}"
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "standin",
        "AWS_SECRET_ACCESS_KEY": "standin",
        "AWS_EC2_METADATA_DISABLED": "true",
        # No profile of the user's, and no endpoint that one of them names.
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    }


def reply(folder: Path, asked: Asked) -> Reply:
    try:
        return aws_wire.answer(asked, _answered(folder, asked))
    except AwsError as error:
        return aws_wire.refusal(asked, error.code, error.message)


def _answered(folder: Path, asked: Asked) -> dict[str, Any]:
    account, planned = Account(folder), scenario.read(folder)
    for fault in planned.faults:
        # A fault of an operation by its own name, as `invoke`: asked beside Pulumi, not through its provider.
        if fault.meets(token=asked.operation, operation="invoke", urn=asked.region):
            raise AwsError(fault.code, fault.message)
    if asked.operation in _CHANGES:
        return _CHANGES[asked.operation](Cloud(folder, Configuration(region=asked.region), threading.Event()), asked)
    answer = ANSWERS.get((asked.service, asked.operation))
    if answer is None:
        message = f"the stand-in account answers no {asked.operation} of {asked.service}"
        raise AwsError("UnsupportedOperation", message)
    with account.open() as records:
        return answer(There(records=records, scenario=planned, asked=asked))


def _reserve(cloud: Cloud, asked: Asked) -> dict[str, Any]:
    given = asked.parameters
    end: datetime | None = given.get("EndDate")
    tags = {tag["Key"]: tag["Value"] for spec in given.get("TagSpecifications", []) for tag in spec["Tags"]}
    inputs = {
        "instanceType": given["InstanceType"],
        "instancePlatform": given["InstancePlatform"],
        "availabilityZone": given["AvailabilityZone"],
        "instanceCount": int(given["InstanceCount"]),
        "instanceMatchCriteria": given.get("InstanceMatchCriteria", "open"),
        "endDateType": given.get("EndDateType", "unlimited"),
        **({"endDate": f"{end:%Y-%m-%dT%H:%M:%SZ}"} if end else {}),
        "tags": tags,
    }
    token = tokens.CAPACITY_RESERVATION
    made = cloud.create(token, _URN.format(token=token), inputs)
    return {"CapacityReservation": {"CapacityReservationId": made.id, "State": "active"}}


def _cancel(cloud: Cloud, asked: Asked) -> dict[str, Any]:
    token = tokens.CAPACITY_RESERVATION
    cloud.delete(token, _URN.format(token=token), asked.parameters["CapacityReservationId"])
    return {"Return": True}


def _delete_logs(cloud: Cloud, asked: Asked) -> dict[str, Any]:
    token = tokens.LOG_GROUP
    cloud.delete(token, _URN.format(token=token), asked.parameters["logGroupName"])
    return {}


_CHANGES = {
    "CreateCapacityReservation": _reserve,
    "CancelCapacityReservation": _cancel,
    "DeleteLogGroup": _delete_logs,
}


class _Handler(BaseHTTPRequestHandler):
    folder: Path
    protocol_version = "HTTP/1.1"

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        asked = aws_wire.read(self.command, self.path, self.headers, body)  # type: ignore[arg-type]
        status, headers, content = reply(self.folder, asked)
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _serve  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass
