"""AWS's own protocols, as a server speaks them: what was asked of which service, and how it is answered."""

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from moto.core.parse import EC2QueryParser, QueryParser
from moto.core.serialize import get_serializer_class
from moto.core.utils import get_service_model

# The scope that every request is signed for tells service and region.
_SCOPE = re.compile(r"Credential=[^/]+/\d{8}/([^/]+)/([^/]+)/aws4_request")
# Signed with one name, two services of two generations: told apart by the version.
_BY_VERSION = {("elasticloadbalancing", "2012-06-01"): "elb", ("elasticloadbalancing", "2015-12-01"): "elbv2"}
_BY_SIGNING = {"servicequotas": "service-quotas"}

Reply = tuple[int, dict[str, str], bytes]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """`service` and `operation` as botocore names them."""

    service: str
    operation: str
    region: str
    parameters: Mapping[str, Any]


def read(method: str, path: str, headers: Mapping[str, str], body: bytes) -> Asked:
    """Raises ValueError for what is no signed request of an operation that botocore knows."""
    scope = _SCOPE.search(headers.get("Authorization", ""))
    if scope is None:
        raise ValueError(f"{method} {path} is not signed")
    region, signed = scope.groups()
    form = {name: values[-1] for name, values in parse_qs(body.decode(errors="replace"), True).items()}
    service = _BY_VERSION.get((signed, form.get("Version", "")), _BY_SIGNING.get(signed, signed))
    protocol = model(service).resolved_protocol
    if protocol in ("query", "ec2"):
        operation = form["Action"]
        parser = EC2QueryParser if protocol == "ec2" else QueryParser
        request = {"values": form, "body": body, "headers": headers, "method": method, "url_params": {}, "url_path": ""}
        parameters = parser(model(service).operation_model(operation)).parse(request)
    elif protocol == "json":
        operation = headers["X-Amz-Target"].rpartition(".")[2]
        parameters = json.loads(body or b"{}")
    else:
        operation, parameters = _by_path(service, method, path, body if protocol == "rest-json" else b"")
    return Asked(service=service, operation=operation, region=region, parameters=parameters)


def answer(asked: Asked, result: Mapping[str, Any]) -> Reply:
    of_service = model(asked.service)
    serializer = get_serializer_class(asked.service, of_service.resolved_protocol)
    told = serializer(of_service.operation_model(asked.operation)).serialize(dict(result))
    body = told["body"]
    return int(told["status_code"]), dict(told["headers"]), body.encode() if isinstance(body, str) else bytes(body)


def refusal(asked: Asked, code: str, message: str, status: int = 400) -> Reply:
    """As the service's protocol has it."""
    protocol = model(asked.service).resolved_protocol
    if protocol in ("json", "rest-json"):
        body = json.dumps({"__type": code, "message": message})
        return status, {"Content-Type": "application/json", "x-amzn-errortype": code}, body.encode()
    error = f"<Error><Code>{escape(code)}</Code><Message>{escape(message)}</Message></Error>"
    whole = {
        "ec2": f"<Response><Errors>{error}</Errors><RequestID>1</RequestID></Response>",
        "query": f"<ErrorResponse>{error}<RequestId>1</RequestId></ErrorResponse>",
    }.get(protocol, error)
    return status, {"Content-Type": "text/xml"}, f'<?xml version="1.0"?>{whole}'.encode()


@functools.cache
def model(service: str) -> Any:
    """botocore's model of a service, as moto's serializers need it."""
    return get_service_model(service)


@functools.cache
def _paths(service: str, method: str) -> list[tuple["re.Pattern[str]", frozenset[str], str]]:
    """Each operation's path with its fixed queries, the longest foremost."""
    found = []
    for name in model(service).operation_names:
        http = model(service).operation_model(name).http
        if http["method"] == method:
            path, _, query = http["requestUri"].partition("?")
            pattern = re.sub(
                r"\\{(\w+)(\\\+)?\\}", lambda part: f"(?P<{part[1]}>{'.+' if part[2] else '[^/]+'})", re.escape(path)
            )
            fixed = frozenset(part.partition("=")[0] for part in query.split("&") if part)
            found.append((re.compile(pattern + "/?"), fixed, name))
    return sorted(found, key=lambda one: (-len(one[1]), -one[0].pattern.count("/"), one[2]))


def _by_member(service: str, operation: str, given: Mapping[str, str]) -> dict[str, str]:
    """A path calls a member as it likes: EKS's {name} is a node group's clusterName."""
    shape = model(service).operation_model(operation).input_shape
    members = shape.members if shape else {}
    named = {member.serialization.get("name", name): name for name, member in members.items()}
    return {named.get(key, key): value for key, value in given.items()}


def _group(part: "re.Match[str]") -> str:
    """Of a label in a path: {name} is one segment, {Key+} the rest."""
    return f"(?P<{part[1]}>{'.+' if part[2] else '[^/]+'})"


def _by_path(service: str, method: str, path: str, body: bytes) -> tuple[str, dict[str, Any]]:
    split = urlsplit(path)
    query = {name: values[-1] for name, values in parse_qs(split.query, True).items()}
    for pattern, fixed, name in _paths(service, method):
        match = pattern.fullmatch(split.path)
        if match and fixed <= set(query):
            given = {key: unquote(value) for key, value in match.groupdict().items()}
            return name, {**_by_member(service, name, {**query, **given}), **json.loads(body or b"{}")}
    raise ValueError(f"{service} has no {method} {path}")
