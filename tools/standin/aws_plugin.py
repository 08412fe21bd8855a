"""The stand-in `aws` resource plugin: `python -m tools.standin.aws_plugin ENGINE_ADDRESS` prints its port and serves.

RAY_TRAIN_EFA_STANDIN names the folder of the account: its state, scenario.json and bed.json where there are any, and
calls.jsonl, where every operation is written.
"""

import os
import sys
import threading
from concurrent import futures
from importlib import metadata
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
from google.protobuf import empty_pb2  # type: ignore[import-untyped]
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from tools.standin import invokes, planning, schema, tokens
from tools.standin.account import Entry
from tools.standin.aws_cli import VARIABLE
from tools.standin.catalogue import KINDS
from tools.standin.cloud import Cloud, Configuration
from tools.standin.errors import AwsError, PartialError
from tools.standin.replies import decoded, diff_response, failures, telling
from tools.standin.wire import UNKNOWN, to_python, to_struct

# Types of the provider's newer framework, whose bridge keeps the old state where an update failed.
_PLAIN_FAILURES = (
    tokens.INGRESS_RULE,
    tokens.EGRESS_RULE,
    tokens.POD_IDENTITY_ASSOCIATION,
    tokens.BUCKET_LIFECYCLE,
)


class AwsPlugin(provider_pb2_grpc.ResourceProviderServicer):
    """One provider. Everything that it answers comes from the account in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cancelled = threading.Event()
        self._cloud = Cloud(folder, Configuration(), self._cancelled)

    def Handshake(self, request: Any, context: Any) -> Any:  # noqa: N802
        return provider_pb2.ProviderHandshakeResponse()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:  # noqa: N802
        return plugin_pb2.PluginInfo(version=metadata.version("pulumi-aws"))

    def CheckConfig(self, request: Any, context: Any) -> Any:  # noqa: N802
        inputs = to_python(request.news)
        problems = schema.problems(schema.PROVIDER, decoded(inputs))
        return provider_pb2.CheckResponse(inputs=request.news, failures=failures(problems))

    def DiffConfig(self, request: Any, context: Any) -> Any:  # noqa: N802
        found = planning.changes(to_python(request.old_inputs), to_python(request.news), ("region",))
        return diff_response({path: (what, replaces) for path, (what, replaces) in found.items() if path != "version"})

    def Configure(self, request: Any, context: Any) -> Any:  # noqa: N802
        given = decoded(to_python(request.args))
        tags = given.get("defaultTags", {})
        configuration = Configuration(
            region="" if given.get("region") == UNKNOWN else given.get("region") or os.environ.get("AWS_REGION", ""),
            default_tags={} if tags == UNKNOWN else tags.get("tags", {}),
        )
        self._cloud = Cloud(self._folder, configuration, self._cancelled)
        allowed, account = given.get("allowedAccountIds", []), self._cloud.scenario.account
        if allowed and allowed != UNKNOWN and account not in allowed:
            context.abort(grpc.StatusCode.UNKNOWN, f"AWS account ID not allowed: {account}")
        return provider_pb2.ConfigureResponse(supportsPreview=True)

    def Check(self, request: Any, context: Any) -> Any:  # noqa: N802
        token, inputs = _type(request.urn), to_python(request.news)
        problems = schema.problems(token, inputs)
        if token not in KINDS and not problems:
            known = f"the stand-in account has no {token}: add it to a table of tools/standin"
            problems = [schema.Problem(path="", reason=known)]
        if not self._cloud.configuration.region and token in KINDS and KINDS[token].regional:
            problems.append(schema.Problem(path="region", reason="Missing region configuration: set aws:region"))
        if problems:
            return provider_pb2.CheckResponse(failures=failures(problems))
        name = request.urn.rpartition("::")[2]
        checked = planning.with_names(KINDS[token], inputs, to_python(request.olds), name, request.randomSeed)
        return provider_pb2.CheckResponse(inputs=to_struct(checked))

    def Diff(self, request: Any, context: Any) -> Any:  # noqa: N802
        token = _type(request.urn)
        kind = KINDS[token]
        news, olds = to_python(request.news), to_python(request.olds)
        found = planning.changes_of(kind, olds, to_python(request.old_inputs), news)
        after = self._cloud.said(token, news)
        found |= planning.changes({name: olds[name] for name in after if name in olds}, after, ("region",))
        found = {path: change for path, change in found.items() if planning.top(path) not in request.ignoreChanges}
        return diff_response(found, first=planning.deletes_first(kind, news))

    def Create(self, request: Any, context: Any) -> Any:  # noqa: N802
        token, inputs = _type(request.urn), to_python(request.properties)
        if request.preview:
            shape = schema.resource(token)
            assert shape is not None, "checked"
            outputs = {**planning.previewed(KINDS[token], shape, inputs), **self._cloud.said(token, inputs)}
            return provider_pb2.CreateResponse(properties=to_struct(outputs))
        with telling(context, "creating", token):
            entry = self._cloud.create(token, request.urn, inputs, request.timeout)
        return provider_pb2.CreateResponse(id=entry.id, properties=to_struct(entry.outputs))

    def Update(self, request: Any, context: Any) -> Any:  # noqa: N802
        token, inputs, olds = _type(request.urn), to_python(request.news), to_python(request.olds)
        old_inputs = to_python(request.old_inputs)
        if request.preview:
            outputs = planning.preview_update(KINDS[token], olds, old_inputs, inputs)
            outputs |= self._cloud.said(token, inputs)
            return provider_pb2.UpdateResponse(properties=to_struct(outputs))
        after = self._cloud.said(token, inputs)
        if not planning.changes_of(KINDS[token], olds, old_inputs, inputs) and all(
            olds.get(name) == after[name] for name in after
        ):
            # The engine updates what has failed before. The bridge finds nothing to do, and the provider, which is
            # called all the same, only reads: what was not done is a change again for the update after this one.
            with telling(context, "reading", token):
                there = self._cloud.read(token, request.urn, request.id)
                if there is None:
                    raise AwsError("ResourceNotFoundException", f"{request.id} did not exist while it was updated")
                return provider_pb2.UpdateResponse(properties=to_struct(there.outputs))
        with telling(context, "updating", token):
            try:
                entry = self._cloud.update(token, request.urn, request.id, inputs)
            except AwsError as refused:
                if token in _PLAIN_FAILURES:
                    raise
                # The bridge takes what was planned for what there is now: the next update finds nothing to do.
                planned = {**planning.kept(KINDS[token], olds, old_inputs, inputs), **planning.plain(inputs), **after}
                entry = Entry(token=token, id=request.id, region="", inputs=planning.plain(inputs), outputs=planned)
                raise PartialError(entry, refused.code, refused.message) from None
        return provider_pb2.UpdateResponse(properties=to_struct(entry.outputs))

    def Delete(self, request: Any, context: Any) -> Any:  # noqa: N802
        token = _type(request.urn)
        with telling(context, "deleting", token):
            self._cloud.delete(token, request.urn, request.id)
        return empty_pb2.Empty()

    def Read(self, request: Any, context: Any) -> Any:  # noqa: N802
        token, known = _type(request.urn), to_python(request.inputs)
        with telling(context, "reading", token):
            entry = self._cloud.read(token, request.urn, request.id)
        if entry is None:
            return provider_pb2.ReadResponse()
        # What the program never said stays unsaid, unless nothing is known of it: an import, or a get.
        inputs = {name: entry.inputs[name] for name in entry.inputs if name in known or not known}
        inputs[planning.DEFAULTS] = known.get(planning.DEFAULTS, [])
        return provider_pb2.ReadResponse(id=entry.id, properties=to_struct(entry.outputs), inputs=to_struct(inputs))

    def Invoke(self, request: Any, context: Any) -> Any:  # noqa: N802
        with telling(context, "invoking", request.tok):
            result = invokes.answer(self._cloud, request.tok, to_python(request.args))
        return provider_pb2.InvokeResponse(**{"return": to_struct(result)})

    def Cancel(self, request: Any, context: Any) -> Any:  # noqa: N802
        self._cancelled.set()
        return empty_pb2.Empty()


def _type(urn: str) -> str:
    """The type token of a URN, its parents' types left out."""
    return urn.split("::")[2].rpartition("$")[2]


def main() -> None:
    folder = os.environ.get(VARIABLE)
    if not folder:
        sys.exit(f"{VARIABLE} must name the folder of the stand-in account")
    # The engine makes many calls at once, and those that wait each hold a thread.
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=256))
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(AwsPlugin(Path(folder)), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
