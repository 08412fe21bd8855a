"""What the plugin says to the engine: failures, differences, errors."""

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import grpc  # type: ignore[import-untyped]
from google.protobuf import any_pb2  # type: ignore[import-untyped]
from pulumi.runtime.proto import provider_pb2, status_pb2

from tools.standin import planning, tokens
from tools.standin.catalogue import KINDS
from tools.standin.clock import CancelledError
from tools.standin.errors import AwsError, PartialError
from tools.standin.schema import Problem
from tools.standin.wire import to_struct
from workload.errors import ReportedError

_DIFFERENCES = {
    ("add", False): provider_pb2.PropertyDiff.ADD,
    ("add", True): provider_pb2.PropertyDiff.ADD_REPLACE,
    ("delete", False): provider_pb2.PropertyDiff.DELETE,
    ("delete", True): provider_pb2.PropertyDiff.DELETE_REPLACE,
    ("update", False): provider_pb2.PropertyDiff.UPDATE,
    ("update", True): provider_pb2.PropertyDiff.UPDATE_REPLACE,
}


def failures(problems: Sequence[Problem]) -> list[Any]:
    return [provider_pb2.CheckFailure(property=problem.path, reason=problem.reason) for problem in problems]


def diff_response(found: Mapping[str, tuple[str, bool]], *, first: bool = False) -> Any:
    """`found` is what changed by path and whether it replaces; `first`: the old one goes before its replacement."""
    replaces = sorted({planning.top(path) for path, (_, replace) in found.items() if replace})
    detailed = {
        path: provider_pb2.PropertyDiff(kind=_DIFFERENCES[change], inputDiff=True) for path, change in found.items()
    }
    some = provider_pb2.DiffResponse.DIFF_SOME if found else provider_pb2.DiffResponse.DIFF_NONE
    return provider_pb2.DiffResponse(
        changes=some,
        replaces=replaces,
        diffs=sorted({planning.top(path) for path in found}),
        deleteBeforeReplace=bool(replaces) and first,
        detailedDiff=detailed,
        hasDetailedDiff=True,
    )


def decoded(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A provider's settings: what is no text arrives as JSON."""
    return {name: _decoded(value) for name, value in settings.items() if name != "version"}


def _decoded(value: Any) -> Any:
    if not isinstance(value, str) or (value[:1] not in ("{", "[") and value not in ("true", "false")):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


@contextmanager
def telling(context: Any, verb: str, token: str) -> Iterator[None]:
    """Turns what goes wrong within into the answer that the engine shows, worded as the real provider does."""
    try:
        yield
    except PartialError as partial:
        detail = provider_pb2.ErrorResourceInitFailed(
            id=partial.entry.id,
            properties=to_struct(partial.entry.outputs),
            reasons=[_worded(verb, token, partial.code, partial.message)],
            inputs=to_struct(partial.entry.inputs),
        )
        packed = any_pb2.Any()
        packed.Pack(detail)
        code: int = grpc.StatusCode.UNKNOWN.value[0]
        status = status_pb2.Status(code=code, message="resource partially created", details=[packed])
        context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
        context.abort(grpc.StatusCode.UNKNOWN, status.message)
    except AwsError as error:
        words = _asked(token, error) if verb == "invoking" else _worded(verb, token, error.code, error.message)
        context.abort(grpc.StatusCode.UNKNOWN, words)
    except CancelledError:
        context.abort(grpc.StatusCode.CANCELLED, f"{verb} {tokens.kind_of(token)}: context canceled")
    except ReportedError as error:
        context.abort(grpc.StatusCode.UNKNOWN, str(error))


def _asked(token: str, error: AwsError) -> str:
    """As the bridge tells of a question that failed."""
    service, operation = token.split(":")[1].partition("/")[0].upper(), tokens.kind_of(token).removeprefix("get")
    words = error.message if error.own else _sent(service, f"Describe{operation}", error.code, error.message)
    return f"invoking {token}: 1 error occurred:\n\t* {words}\n\n"


def _worded(verb: str, token: str, code: str, message: str) -> str:
    kind, what = KINDS[token], tokens.kind_of(token)
    call = {"creating": "Create", "updating": "Update", "deleting": "Delete", "reading": "Describe"}[verb] + what
    return f"{verb} {kind.service} {what}: {_sent(kind.service, call, code, message)}"


def _sent(service: str, call: str, code: str, message: str) -> str:
    request = f"operation error {service}: {call}, https response error StatusCode: 400, RequestID: {uuid.uuid4()}"
    return f"{request}, api error {code}: {message}"
