"""Where boto3's sessions and clients are made: as whom, with which patience, and what is said when AWS refuses."""

import functools
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import boto3  # type: ignore[import-untyped]
import botocore.credentials  # type: ignore[import-untyped]
import botocore.session  # type: ignore[import-untyped]
from botocore.config import Config  # type: ignore[import-untyped]
from botocore.exceptions import (  # type: ignore[import-untyped]
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    NoCredentialsError,
    ProxyConnectionError,
)
from botocore.parsers import ResponseParserError  # type: ignore[import-untyped]

from capacity.causes import Cause, Sorted, cause_of
from capacity.structured import structured
from workload.errors import BadInputError, ReportedError

# For questions that name no region; the identity is the same in each of a partition.
_ANY_REGION = "us-east-1"
_STS_REGIONS = {"aws-cn": "cn-north-1", "aws-us-gov": "us-gov-west-1"}
_PATIENCE = Config(
    connect_timeout=5,
    read_timeout=30,
    retries={"mode": "standard", "total_max_attempts": 4},
    # Many regions and services are asked at once.
    max_pool_connections=20,
    user_agent_extra="ray-train-efa",
)
# What boto3 raises for what AWS, the network or the credentials refuse; the last for credentials that are expired when
# they are fetched, which a clock that is ahead makes of every role's.
AWS_ERRORS = (ClientError, BotoCoreError, ResponseParserError, RuntimeError)
_NEVER_SENT = (ConnectTimeoutError, EndpointConnectionError, ProxyConnectionError)


class AwsRefusedError(ReportedError):
    """AWS refused, or could not be asked; `sorted` says what that means."""

    def __init__(self, message: str, sorted_as: Sorted) -> None:
        super().__init__(message)
        self.sorted = sorted_as


@dataclass(frozen=True, kw_only=True)
class Access:
    """As whom AWS is asked: a profile of the user's, and a role taken on from there; empty: as the environment says."""

    profile: str = ""
    role_arn: str = ""

    @property
    def option(self) -> str:
        """What an `aws` command line needs to be the same caller, with a space before it."""
        return f" --profile {self.profile}" if self.profile else ""


AS_ENVIRONMENT = Access()


def access_of(setting: Callable[[str], Any]) -> Access:
    """As a stack's own settings have it; `setting` gives one by its full name, None where it is not set."""
    roles = structured(setting("aws:assumeRoles") or [])
    if not isinstance(roles, list):
        raise BadInputError(f"aws:assumeRoles: '{roles}' is no list of {{roleArn: arn:...}}")
    arns = [str(role.get("roleArn", "")) for role in roles if isinstance(role, dict)]
    return Access(profile=str(setting("aws:profile") or ""), role_arn=next(iter(arns), ""))


@dataclass(frozen=True, kw_only=True)
class Identity:
    account: str
    arn: str
    partition: str


def client(service: str, region: str = "", *, access: Access = AS_ENVIRONMENT) -> Any:
    """A client of boto3, which threads may share. AWS_ENDPOINT_URL leads it elsewhere, as it does every AWS tool.

    Raises AwsRefusedError where the profile, its credentials or the endpoint cannot be used.
    """
    try:
        # boto3 makes clients of one session from one thread at a time only.
        with _MAKING:
            return _client(service, region, access)
    except (*AWS_ERRORS, ValueError) as error:  # ValueError: an endpoint or a role that is none
        raise refused(error, f"a client for {service}", region=region) from None


def credentials(access: Access) -> dict[str, str]:
    """As the variables that every AWS tool reads, for one that knows no profiles or roles; they may run out.

    Raises AwsRefusedError where there are none.
    """
    try:
        with _MAKING:
            found = _session(access).get_credentials()
        if found is None:
            raise NoCredentialsError
        frozen = found.get_frozen_credentials()
    except (*AWS_ERRORS, ValueError) as error:
        raise refused(error, "credentials") from None
    token = {"AWS_SESSION_TOKEN": frozen.token} if frozen.token else {}
    return {"AWS_ACCESS_KEY_ID": frozen.access_key, "AWS_SECRET_ACCESS_KEY": frozen.secret_key, **token}


def who(*, region: str = "", access: Access = AS_ENVIRONMENT) -> Identity:
    """Whose credentials these are: no policy can forbid the question. Raises AwsRefusedError with what to do."""
    with asking("who these credentials belong to", region=region):
        answer = client("sts", region, access=access).get_caller_identity()
    arn = str(answer["Arn"])
    return Identity(account=str(answer["Account"]), arn=arn, partition=arn.split(":")[1])


@contextmanager
def asking(what: str, *, region: str = "") -> Iterator[None]:
    """Turns what boto3 raises within into an AwsRefusedError that says what was asked."""
    try:
        yield
    except AWS_ERRORS as error:
        raise refused(error, what, region=region) from None


def refused(error: Exception, what: str, *, region: str = "") -> AwsRefusedError:
    """The error to raise for one of AWS_ERRORS."""
    found = sorted_error(error)
    code, message = told_by(error)
    where = f" in {region}" if region else ""
    return AwsRefusedError(f"AWS did not give {what}{where}: {code}: {message}: {found.what_to_do}", found)


def sorted_error(error: Exception) -> Sorted:
    return error.sorted if isinstance(error, AwsRefusedError) else cause_of(*told_by(error))


def words_of(error: Exception) -> str:
    """What was refused with, on one line."""
    if isinstance(error, AwsRefusedError):
        return str(error)
    code, message = told_by(error)
    return f"{code}: {message}" if message else code


def may_have_happened(error: Exception) -> bool:
    """Whether what was asked for may have been done all the same: the answer was lost, or AWS failed on the way."""
    if isinstance(error, ClientError):
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        return status >= 500 and sorted_error(error).cause in (Cause.UNAVAILABLE, Cause.UNKNOWN)
    return isinstance(error, (HTTPClientError, ResponseParserError)) and not isinstance(error, _NEVER_SENT)


def told_by(error: Exception) -> tuple[str, str]:
    """The code and the message: AWS's own, or the exception's name and text; the message on one line."""
    if isinstance(error, ClientError):
        told = error.response.get("Error", {})
        code, message = str(told.get("Code", "")), str(told.get("Message", ""))
    else:
        code, message = type(error).__name__, str(error)
    return code, " ".join(message.split())[:400].rstrip(".")


def forget() -> None:
    """Credentials and endpoints are read anew: the environment has changed."""
    with _MAKING:
        _client.cache_clear()
        _session.cache_clear()


_MAKING = threading.Lock()


@functools.lru_cache(maxsize=512)
def _client(service: str, region: str, access: Access) -> Any:
    session = _session(access)
    return session.client(service, region_name=region or session.region_name or _ANY_REGION, config=_PATIENCE)


@functools.lru_cache(maxsize=8)
def _session(access: Access) -> Any:
    session = boto3.session.Session(profile_name=access.profile or None)
    if not access.role_arn:
        return session
    if not access.role_arn.startswith("arn:"):
        raise ValueError(f"'{access.role_arn}' of aws:assumeRoles is no role's ARN")
    source = session.get_credentials()
    if source is None:
        raise NoCredentialsError
    partition = access.role_arn.split(":")[1]
    region = session.region_name or _STS_REGIONS.get(partition, _ANY_REGION)
    # What it would say, with a traceback, is raised as well.
    logging.getLogger("botocore.credentials").setLevel(logging.ERROR)
    fetcher = botocore.credentials.AssumeRoleCredentialFetcher(
        client_creator=functools.partial(session._session.create_client, region_name=region, config=_PATIENCE),
        source_credentials=source,
        role_arn=access.role_arn,
        extra_args={"RoleSessionName": "ray-train-efa"},
    )
    # Renewed as it runs out: an `up` is longer than a role's hour may be.
    inner = botocore.session.Session(profile=access.profile or None)
    inner._credentials = botocore.credentials.DeferredRefreshableCredentials(
        method="assume-role", refresh_using=fetcher.fetch_credentials
    )
    return boto3.session.Session(botocore_session=inner, region_name=session.region_name)
