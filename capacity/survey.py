"""What every region says about a request: all regions at once, and inside a region all questions at once."""

import functools
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import boto3  # type: ignore[import-untyped]
from botocore.exceptions import BotoCoreError  # type: ignore[import-untyped]

from capacity import price_list, questions, reading
from capacity.answers import ENABLED, NOT_ASKED, Missing, RegionAnswers
from capacity.at_once import PATIENCE_S, AtOnce
from capacity.aws import AS_ENVIRONMENT, Access, AwsRefusedError, client, who
from capacity.cause import Cause
from capacity.quotas import quota_of
from capacity.request import Request, unknown_regions

_STILL_WAITING_S = 5.0
# What is asked of no region in particular.
_ACCOUNT = ""
_EC2_PARTS = ("zones", "offered", "type", "running", "held", "scores")
# Without working credentials nothing else is worth asking.
_HOPELESS = (Cause.CREDENTIALS, Cause.PERMISSION, Cause.SETTING)

Say = Callable[[str], None]


def survey(
    request: Request, say: Say, *, access: Access = AS_ENVIRONMENT, patience: float = PATIENCE_S
) -> tuple[RegionAnswers, ...]:
    """One for each region asked for, by name, whatever happened to it; `say` gets a line as each is done.

    Raises AwsRefusedError for credentials that do not work, BadInputError for regions that AWS does not have.
    """
    return _Survey(request=request, say=say, access=access, at_once=AtOnce(patience)).run()


@dataclass(kw_only=True)
class _Survey:
    request: Request
    say: Say
    access: Access
    at_once: AtOnce

    def run(self) -> tuple[RegionAnswers, ...]:
        self._ask_account()
        known = set(_built_in_regions(self.access))
        if self.request.regions is not None and known.issuperset(self.request.regions):
            names: Iterable[str] = self.request.regions
        else:
            self._until(lambda: (_ACCOUNT, "regions") in self.at_once.answers)
            names = self._names(known)
        asked = sorted(set(names))
        total = sum(self._ask(region) for region in asked)
        self._until(lambda: not self.at_once.waiting(), total=total)
        return tuple(self._answers(region) for region in asked)

    def _ask_account(self) -> None:
        asked: dict[str, Callable[[], Any]] = {
            "identity": functools.partial(_identity, self.access),
            "regions": functools.partial(questions.regions, self.access),
            "prices": functools.partial(questions.prices, self.request, self.access),
        }
        self.at_once.expect(_ACCOUNT, asked)
        for part, question in asked.items():
            self.at_once.run(functools.partial(self.at_once.ask, _ACCOUNT, part, question))

    def _names(self, built_in: set[str]) -> Iterable[str]:
        """Raises BadInputError for a region that is none; one that is not enabled has a row, and is not asked."""
        told = self.at_once.answers[_ACCOUNT, "regions"]
        if isinstance(told, Missing):
            self.say(f"which regions there are was not told ({told}): those that this version knows are asked")
            return self.request.regions or sorted(built_in)
        if self.request.regions is None:
            return sorted(told)
        if error := unknown_regions(self.request.regions, {*told, *built_in}):
            raise error
        return self.request.regions

    def _ask(self, region: str) -> bool:
        """Whether it is asked at all."""
        told = self.at_once.answers.get((_ACCOUNT, "regions"))
        if isinstance(told, Mapping) and told.get(region, ENABLED[0]) not in ENABLED:
            return False
        extra = ("quota", "spot_prices") if self.request.spot else ("quota",)
        self.at_once.expect(region, (*_EC2_PARTS, *extra))
        self.at_once.run(functools.partial(self._ask_in_thread, region))
        return True

    def _ask_in_thread(self, region: str) -> None:
        at_once, request = self.at_once, self.request
        family = quota_of(request.instance_type, spot=request.spot)
        try:
            ec2 = client("ec2", region, access=self.access)
        except Exception as error:
            failed = error
            for part in (*_EC2_PARTS, "quota", "spot_prices"):
                at_once.ask(region, part, lambda: _raise(failed))
            return
        asked = questions.Ec2Questions(
            request=request,
            region=region,
            family=family,
            ec2=ec2,
            page=functools.partial(at_once.page, region),
        )
        for part, question in asked.all().items():
            at_once.run(functools.partial(at_once.ask, region, part, question))
        at_once.ask(region, "quota", functools.partial(questions.quota, request, region, family, self.access))

    def _until(self, done: Callable[[], bool], *, total: int = 0) -> None:
        """Raises AwsRefusedError as soon as it is known that the credentials do not work."""
        finished, said = 0, time.monotonic()
        while not done():
            group = self.at_once.wait(seconds=0.2)
            identity = self.at_once.answers.get((_ACCOUNT, "identity"))
            if isinstance(identity, AwsRefusedError):
                raise identity
            if group:
                finished, said = finished + 1, time.monotonic()
                self.say(f"{self._line(group)} ({finished} of {total})")
            elif time.monotonic() - said > _STILL_WAITING_S:
                said = time.monotonic()
                names = [group or "prices and account" for group in self.at_once.waiting()]
                self.say(f"still waiting for {', '.join(names)}")

    def _line(self, region: str) -> str:
        answers = self._answers(region)
        if answers.trouble is not None:
            return f"{region}: {answers.trouble}"
        if isinstance(answers.zones, Missing) or isinstance(answers.offered, Missing):
            return f"{region}: answered in part"
        offers = f"{len(answers.offered)} of {len(answers.zones)} zones offer {self.request.instance_type}"
        return f"{region}: {offers}"

    def _answers(self, region: str) -> RegionAnswers:
        of_account = self.at_once.of(_ACCOUNT)
        told, account = of_account.get("regions"), of_account.get("identity")
        return reading.assembled(
            region,
            self.at_once.of(region),
            account=account if isinstance(account, str) else "",
            opt_in=told.get(region, "") if isinstance(told, Mapping) else "",
            price=price_list.price_in(region, self.request.instance_type, of_account.get("prices", NOT_ASKED)),
        )


def _identity(access: Access) -> Any:
    """The account's number; the error itself where its cause makes everything else hopeless."""
    try:
        return who(access=access).account
    except AwsRefusedError as error:
        if error.sorted.cause in _HOPELESS:
            return error
        raise


def _built_in_regions(access: Access) -> list[str]:
    """Those that botocore knows of the partition that the session is for; no call is made."""
    try:
        session = boto3.session.Session(profile_name=access.profile or None)
        partition = session.get_partition_for_region(session.region_name) if session.region_name else "aws"
        names: list[str] = session.get_available_regions("ec2", partition_name=partition)
    except BotoCoreError:
        # Of a profile that cannot be used: the question who it belongs to says so.
        return []
    return names


def _raise(error: Exception) -> Any:
    raise error
