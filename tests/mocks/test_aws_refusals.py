"""What becomes of what AWS refuses to say before anything is declared."""

from collections.abc import Iterator, Mapping
from typing import Any

import grpc  # type: ignore[import-untyped]
import pulumi
import pytest

from infra.aws_facts import AwsError
from tests.mocks.recording import Answer
from tests.mocks.test_aws_facts import CALLER, CLUSTER, CLUSTERS, GROUP, HERE, INSTANCE, OFFERINGS, SUBNET, ZONES, asked


@pytest.fixture(autouse=True)
def empty_config() -> Iterator[None]:
    yield
    pulumi.runtime.set_all_config({}, [])


class Refused(grpc.RpcError):  # type: ignore[misc]
    """As a provider's refusal comes through the engine."""

    def code(self) -> Any:
        return grpc.StatusCode.UNKNOWN

    def details(self) -> str:
        return str(self)


def refusing(token: str, words: str) -> dict[str, Answer]:
    def refuse(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        raise Refused(f"invocation of {token} returned an error: {words}")

    return {token: refuse}


def refused(token: str, words: str, **changes: Any) -> str:
    with pytest.raises(AwsError) as caught:
        asked(answers=refusing(token, words), **changes)
    return str(caught.value)


def test_a_type_that_no_zone_offers_is_said_before_ec2_is_asked_about_it() -> None:
    only = {"instanceTypes": ["m7i.xlarge"], "locations": ["us-west-2a"], "locationTypes": ["availability-zone"]}
    with pytest.raises(AwsError, match=r"g6\.12xlarge is offered in no zone of us-west-2: take another type"):
        asked(answers={OFFERINGS: only, **refusing(INSTANCE, "not to be asked")})


_API = "operation error X: Y, https response error StatusCode: 400, RequestID: 1, api error"


@pytest.mark.parametrize(
    ("token", "words", "question", "advice"),
    [
        (
            CALLER,
            f"{_API} ExpiredToken: The security token included in the request is expired",
            "who these credentials belong to",
            "renew the environment's credentials",
        ),
        (
            CALLER,
            "No valid credential sources found. Please see the documentation for how to provide credentials.",
            "who these credentials belong to",
            "renew the environment's credentials",
        ),
        (
            ZONES,
            f"{_API} AuthFailure: AWS was not able to validate the provided access credentials",
            "which zones there are",
            "renew the environment's credentials",
        ),
        (
            OFFERINGS,
            f"{_API} UnauthorizedOperation: You are not authorized to perform this operation.",
            "which zones there are",
            "allow it to the environment's credentials (docs/iam/deployer.json)",
        ),
        (
            INSTANCE,
            f"{_API} InvalidInstanceType: The following supplied instance types do not exist: [g6.12xlarge]",
            "what the GPU instance type has",
            "correct the setting, or aws:region",
        ),
        (
            CLUSTER,
            "reading EKS Cluster (prod): couldn't find resource",
            "what cluster prod is (eksExistingCluster)",
            "correct the setting, or aws:region",
        ),
        (
            CLUSTERS,
            f"{_API} AccessDeniedException: User: x is not authorized to perform: eks:ListClusters",
            "which clusters and node groups there are",
            "allow it to",
        ),
    ],
)
def test_a_refusal_says_what_was_asked_what_aws_said_and_what_to_do(
    token: str, words: str, question: str, advice: str
) -> None:
    said = refused(token, words, **HERE)
    assert said.startswith(f"AWS did not say {question} in us-west-2: ")
    assert words in said
    assert advice in said.partition(words)[2]


def test_a_group_that_is_not_there_is_named_with_its_setting() -> None:
    words = "reading EKS Node Group (prod:workers): couldn't find resource"
    said = refused(GROUP, words, gpuExistingGroup="workers", capacity="none", **HERE)
    assert "what node group workers is (gpuExistingGroup)" in said
    assert said.endswith("correct the setting, or aws:region")


def test_a_subnet_that_is_not_there_is_named() -> None:
    words = f"{_API} InvalidSubnetID.NotFound: The subnet ID 'subnet-00000004' does not exist"
    said = refused(SUBNET, words, vpcId="vpc-00000001", vpcPrivateSubnets=["subnet-00000004", "subnet-00000005"])
    assert "what subnet subnet-00000004 is" in said
    assert said.endswith("correct the setting, or aws:region")


def test_advice_about_credentials_names_the_profile_that_they_come_from() -> None:
    said = refused(
        CALLER, f"{_API} ExpiredToken: The security token included in the request is expired", aws_profile="ml"
    )
    assert "renew aws:profile ml (aws sts get-caller-identity shows whether they work)" in said


def test_what_nobody_foresaw_is_passed_on_without_wrong_advice() -> None:
    said = refused(CALLER, "dial tcp: lookup sts.us-west-2.amazonaws.com: no such host")
    assert said.endswith("no such host")
