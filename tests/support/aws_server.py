"""AWS on loopback: moto, with what it lacks (reservations, placement groups) and with faults by operation.

A fault answers in place of AWS, before or after the thing was done, or says nothing at all.
"""

import itertools
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from botocore.config import Config  # type: ignore[import-untyped]

from capacity import aws
from tests.training.s3_server import ENVIRONMENT
from tools.standin import aws_wire
from tools.standin.aws_wire import Asked, Reply

PAGE = 2


@dataclass
class Fault:
    """Meets `times` calls of an operation in a region ("" for any). `done`: AWS has done it all the same.

    Without a code the connection is closed unanswered.
    """

    operation: str
    code: str = ""
    message: str = ""
    status: int = 400
    region: str = ""
    times: int = 1
    done: bool = False

    def meets(self, asked: Asked) -> bool:
        if self.operation not in ("*", asked.operation) or self.region not in ("", asked.region) or self.times <= 0:
            return False
        self.times -= 1
        return True


@dataclass
class Reservations:
    """What EC2 keeps of capacity reservations. `room` is by zone; without an entry there is room for all.

    `hidden` is how many descriptions do not show a new one yet, `born` the state it is made in.
    """

    there: dict[str, dict[str, Any]] = field(default_factory=dict)
    by_token: dict[str, str] = field(default_factory=dict)
    room: dict[str, int] = field(default_factory=dict)
    hidden: int = 0
    born: str = "active"
    made: int = 0
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def billing(self) -> list[str]:
        return [id for id, one in self.there.items() if one["State"] in ("active", "pending")]


class AwsServer:
    """`url` for AWS_ENDPOINT_URL. `calls` are (service, operation, region) in the order they came."""

    def __init__(self, moto_port: int) -> None:
        self.faults: list[Fault] = []
        self.calls: list[tuple[str, str, str]] = []
        self.reservations = Reservations()
        self.placement_groups: dict[tuple[str, str], dict[str, Any]] = {}
        # Called before an operation is answered: a test's chance to do something in that moment.
        self.on_call: Callable[[Asked], None] = lambda _asked: None
        self._turn = threading.Lock()
        self._moto = f"http://127.0.0.1:{moto_port}"
        handler = type("Handler", (_Handler,), {"aws": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def client(self, service: str, region: str = "us-west-2") -> Any:
        import boto3  # type: ignore[import-untyped]

        return boto3.client(service, region_name=region, endpoint_url=self._moto)

    def asked_for(self, operation: str) -> list[str]:
        """The regions of each call of an operation."""
        return [region for _, name, region in self.calls if name == operation]

    def reply(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Reply | None:
        asked = aws_wire.read(method, path, headers, body)
        with self._turn:
            self.calls.append((asked.service, asked.operation, asked.region))
            fault = next((one for one in self.faults if one.meets(asked)), None)
        self.on_call(asked)
        reply = None
        if fault is None or fault.done:
            with self._turn:
                reply = self._own(asked)
            reply = reply or self._of_moto(method, path, headers, body)
        if fault is None:
            return reply
        return aws_wire.refusal(asked, fault.code, fault.message, fault.status) if fault.code else None

    def _of_moto(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
        passed = {name: value for name, value in headers.items() if name.lower() not in ("host", "content-length")}
        request = Request(self._moto + path, data=body or None, headers=passed, method=method)
        try:
            with urlopen(request, timeout=30) as answer:
                return answer.status, {"Content-Type": answer.headers.get("Content-Type", "")}, answer.read()
        except HTTPError as error:
            kept = {
                name: value for name, value in error.headers.items() if name.lower().startswith(("content-t", "x-a"))
            }
            return error.code, kept, error.read()

    def _own(self, asked: Asked) -> Reply | None:
        operations: dict[str, Callable[[Asked], dict[str, Any]]] = {
            "CreateCapacityReservation": self._create,
            "CancelCapacityReservation": self._cancel,
            "DescribeCapacityReservations": self._describe,
            "DescribePlacementGroups": self._groups,
        }
        if asked.operation not in operations:
            return None
        try:
            return aws_wire.answer(asked, operations[asked.operation](asked))
        except _Refused as error:
            code, message, status = error.args
            return aws_wire.refusal(asked, code, message, status)

    def _create(self, asked: Asked) -> dict[str, Any]:
        given, kept = asked.parameters, self.reservations
        if (known := kept.by_token.get(given["ClientToken"])) is not None:
            return {"CapacityReservation": kept.there[known]}
        zone, count = given["AvailabilityZone"], int(given["InstanceCount"])
        if kept.room.get(zone, count) < count:
            raise _Refused("InsufficientInstanceCapacity", "Insufficient capacity.", 500)
        id = f"cr-{next(kept.numbers):017x}"
        tags = [tag for spec in given.get("TagSpecifications", []) for tag in spec["Tags"]]
        kept.there[id] = {
            "CapacityReservationId": id,
            "AvailabilityZone": zone,
            "InstanceType": given["InstanceType"],
            "InstancePlatform": given["InstancePlatform"],
            "InstanceMatchCriteria": given["InstanceMatchCriteria"],
            "TotalInstanceCount": count,
            "AvailableInstanceCount": count,
            "EndDateType": given["EndDateType"],
            "EndDate": given["EndDate"].replace(tzinfo=UTC),
            "State": kept.born,
            "CreateDate": datetime.now(UTC),
            "Tags": tags,
            "region": asked.region,
        }
        kept.by_token[given["ClientToken"]] = id
        kept.made += 1
        return {"CapacityReservation": kept.there[id]}

    def _cancel(self, asked: Asked) -> dict[str, Any]:
        one = self._known(asked, asked.parameters["CapacityReservationId"])
        if one["State"] in ("cancelled", "expired"):
            raise _Refused("InvalidCapacityReservationState", f"It is {one['State']}.", 400)
        one["State"] = "cancelled"
        return {"Return": True}

    def _describe(self, asked: Asked) -> dict[str, Any]:
        kept, given = self.reservations, asked.parameters
        if ids := given.get("CapacityReservationIds"):
            return {"CapacityReservations": [self._known(asked, id) for id in ids]}
        if kept.hidden > 0:
            kept.hidden -= 1
            return {"CapacityReservations": []}
        found = [one for one in kept.there.values() if one["region"] == asked.region and _fits(one, given["Filters"])]
        start = int(given.get("NextToken") or 0)
        more = {"NextToken": str(start + PAGE)} if start + PAGE < len(found) else {}
        return {"CapacityReservations": found[start : start + PAGE], **more}

    def _known(self, asked: Asked, id: str) -> dict[str, Any]:
        one = self.reservations.there.get(id)
        if one is None or one["region"] != asked.region:
            raise _Refused(
                "InvalidCapacityReservationId.NotFound", f"The capacity reservation {id} does not exist.", 400
            )
        return one

    def _groups(self, asked: Asked) -> dict[str, Any]:
        there = [one for (region, _), one in self.placement_groups.items() if region == asked.region]
        return {"PlacementGroups": [one for one in there if _fits(one, asked.parameters.get("Filters", []))]}


class _Refused(Exception):
    """Code, message and status."""


class _Handler(BaseHTTPRequestHandler):
    aws: AwsServer
    protocol_version = "HTTP/1.1"

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        reply = self.aws.reply(self.command, self.path, self.headers, body)  # type: ignore[arg-type]
        if reply is None:
            self.close_connection = True
            self.connection.close()
            return
        status, headers, content = reply
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _serve

    def log_message(self, *_: object) -> None:
        pass


def _fits(one: Mapping[str, Any], filters: list[Mapping[str, Any]]) -> bool:
    tags = {tag["Key"]: tag["Value"] for tag in one.get("Tags", [])}
    for each in filters:
        name, values = each["Name"], each["Values"]
        if name == "tag-key":
            fits = any(key in values for key in tags)
        elif name.startswith("tag:"):
            fits = tags.get(name.removeprefix("tag:")) in values
        elif name == "state":
            fits = one["State"] in values
        else:
            raise AssertionError(f"a filter that the server does not know: {name}")
        if not fits:
            return False
    return True


@contextmanager
def serving() -> Iterator[AwsServer]:
    """An empty account, and this process's environment led to it."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    server = AwsServer(int(moto.get_host_and_port()[1]))
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": server.url}.items():
                if value is None:
                    patch.delenv(name, raising=False)
                else:
                    patch.setenv(name, value)
            # A test's answer does not get better by being asked for again.
            once = aws._PATIENCE.merge(Config(retries={"mode": "standard", "total_max_attempts": 1}))
            patch.setattr(aws, "_PATIENCE", once)
            aws.forget()
            yield server
    finally:
        server.close()
        moto.stop()
        aws.forget()


def reset(server: AwsServer) -> None:
    """The account is empty again."""
    urlopen(Request(f"{server._moto}/moto-api/reset", method="POST"), timeout=30).close()
    server.faults, server.calls, server.on_call = [], [], lambda _asked: None
    server.reservations, server.placement_groups = Reservations(), {}
