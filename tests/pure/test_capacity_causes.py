"""Every refusal that AWS and what stands between are known to give, and what each means for the next step."""

import botocore.exceptions  # type: ignore[import-untyped]
import botocore.session  # type: ignore[import-untyped]
import pytest

from capacity.cause_tables import CODES
from capacity.causes import Cause, cause_of, in_text

ICE = (
    "We currently do not have sufficient g6.12xlarge capacity in the Availability Zone you requested (us-west-2b). Our "
    "system will be working on provisioning additional capacity. You can currently get g6.12xlarge capacity by not "
    "specifying an Availability Zone in your request or choosing us-west-2a, us-west-2c."
)
FLEETS = "You've reached your quota for maximum Fleet Requests for this account. Launching EC2 instance failed."
VCPU = (
    "You have requested more vCPU capacity than your current vCPU limit of 64 allows for the instance bucket that the "
    "specified instance type belongs to."
)
SCP = (
    "User: arn:aws:iam::123456789012:user/me is not authorized to perform: ec2:CreateCapacityReservation on resource: "
    "arn:aws:ec2:us-west-2:123456789012:capacity-reservation/* with an explicit deny in a service control policy"
)


@pytest.mark.parametrize(
    "code",
    [
        "InsufficientInstanceCapacity",
        "InsufficientReservedInstanceCapacity",
        "ReservationCapacityExceeded",
        "Unsupported",
        "MaxSpotInstanceCountExceeded",
        "SpotMaxPriceTooLow",
    ],
)
def test_another_zone_may_have_it(code: str) -> None:
    sorted_as = cause_of(code, "")
    assert (sorted_as.cause, sorted_as.retry) == (Cause.CAPACITY, "next-zone")


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("VcpuLimitExceeded", Cause.QUOTA),
        ("MaxFleetCountExceeded", Cause.QUOTA),
        ("UnauthorizedOperation", Cause.PERMISSION),
        ("OptInRequired", Cause.SETTING),
    ],
)
def test_no_other_zone_of_the_region_helps(code: str, cause: Cause) -> None:
    sorted_as = cause_of(code, "")
    assert sorted_as.cause == cause
    assert sorted_as.retry in ("stop", "next-region")


@pytest.mark.parametrize(
    ("code", "message", "cause", "retry", "says"),
    [
        ("UnauthorizedOperation", SCP, Cause.PERMISSION, "stop", "service control policy"),
        ("AccessDenied", SCP, Cause.PERMISSION, "stop", "administers the organisation"),
        (
            "AccessDenied",
            "with an explicit deny in an identity-based policy",
            Cause.PERMISSION,
            "stop",
            "so many words",
        ),
        (
            "AuthFailure",
            "AWS was not able to validate the provided access credentials",
            Cause.CREDENTIALS,
            "stop",
            "not enabled",
        ),
        ("ExpiredToken", "The security token included in the request is expired", Cause.CREDENTIALS, "stop", "expired"),
        ("RequestExpired", "Request has expired.", Cause.CREDENTIALS, "stop", "clock"),
        (
            "SignatureDoesNotMatch",
            "Signature expired: 20261130T050000Z is now earlier than 20261130T054500Z",
            Cause.CREDENTIALS,
            "stop",
            "clock",
        ),
        (
            "SignatureDoesNotMatch",
            "The request signature we calculated differs",
            Cause.CREDENTIALS,
            "stop",
            "does not know",
        ),
        ("OptInRequired", "You are not subscribed to this service.", Cause.SETTING, "next-region", "enable it"),
        ("NoCredentialsError", "Unable to locate credentials", Cause.CREDENTIALS, "stop", "aws configure"),
        ("ProfileNotFound", "The config profile (x) could not be found", Cause.CREDENTIALS, "stop", "list-profiles"),
        ("UnauthorizedSSOTokenError", "", Cause.CREDENTIALS, "stop", "aws sso login"),
        ("TokenRetrievalError", "Token has expired and refresh failed", Cause.CREDENTIALS, "stop", "aws sso login"),
        ("InvalidParameterValue", "Invalid value for instanceCount", Cause.SETTING, "stop", "correct the setting"),
        ("InvalidInstanceType", "", Cause.SETTING, "stop", "gpuInstanceType"),
        ("InvalidCapacityReservationId.NotFound", "", Cause.SETTING, "stop", "reservation"),
        ("InsufficientFreeAddressesInSubnet", "", Cause.SETTING, "stop", "subnet"),
        ("RequestLimitExceeded", "", Cause.THROTTLED, "wait", "fewer"),
        ("Throttling", "Rate exceeded", Cause.THROTTLED, "wait", "fewer"),
        ("InternalError", "", Cause.UNAVAILABLE, "next-region", "does not answer"),
        ("EndpointConnectionError", "Could not connect", Cause.UNAVAILABLE, "next-region", "does not answer"),
        ("503", "", Cause.UNAVAILABLE, "next-region", "does not answer"),
        # By their shape alone.
        ("NatGatewayLimitExceeded", "", Cause.QUOTA, "stop", "Service Quotas"),
        ("InvalidSubnetID.NotFound", "", Cause.SETTING, "stop", "correct the setting"),
        ("SomethingNew", "who knows", Cause.UNKNOWN, "stop", "not known here"),
        ("", "", Cause.UNKNOWN, "stop", "not known here"),
        # The same wrapper around different things: only one of them is worth another zone.
        ("AsgInstanceLaunchFailures", ICE, Cause.CAPACITY, "next-zone", "another zone"),
        ("AsgInstanceLaunchFailures", FLEETS, Cause.QUOTA, "stop", "no zone"),
        ("AsgInstanceLaunchFailures", VCPU, Cause.QUOTA, "stop", "L-DB2E81BA"),
        ("AsgInstanceLaunchFailures", "VcpuLimitExceeded - no more", Cause.QUOTA, "stop", "L-DB2E81BA"),
        ("AsgInstanceLaunchFailures", "something new", Cause.UNKNOWN, "stop", "not known here"),
        ("Client.InternalError", "Client error on launch", Cause.PERMISSION, "stop", "AWSServiceRoleForAutoScaling"),
        (
            "Unsupported",
            "The type is not supported for Capacity Reservations.",
            Cause.SETTING,
            "stop",
            "capacity: none",
        ),
    ],
)
def test_each_refusal_has_its_cause_what_follows_and_what_to_do(
    code: str, message: str, cause: Cause, retry: str, says: str
) -> None:
    sorted_as = cause_of(code, message)
    assert (sorted_as.cause, sorted_as.retry) == (cause, retry)
    assert says in sorted_as.what_to_do


def test_every_health_code_of_eks_is_known_but_those_that_say_nothing() -> None:
    shape = botocore.session.get_session().get_service_model("eks").shape_for("NodegroupIssueCode")
    unknown = {code for code in shape.enum if cause_of(code, "").cause == Cause.UNKNOWN}
    assert unknown == {"AsgInstanceLaunchFailures", "Unknown"}


def test_every_error_of_botocore_in_the_table_exists() -> None:
    ours = {name for name in CODES if name.endswith("Error")}
    from_aws = {"InternalError", "ValidationError", "AuthorizationError", "InternalServerError", "ResponseParserError"}
    missing = {name for name in ours - from_aws if not hasattr(botocore.exceptions, name)}
    assert missing == set()


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "  aws:ec2:CapacityReservation (gpu): error: creating EC2 Capacity Reservation: operation error EC2: "
            "CreateCapacityReservation, https response error StatusCode: 500, RequestID: 1, api error "
            "InsufficientInstanceCapacity: Insufficient capacity.",
            Cause.CAPACITY,
        ),
        (
            "waiting for EC2 Capacity Reservation (cr-1) create: unexpected state 'failed', wanted target 'active'",
            Cause.CAPACITY,
        ),
        (
            "waiting for EKS Node Group (ray:gpu) create: unexpected state 'CREATE_FAILED', wanted target 'ACTIVE'. "
            f"last error: i-1: AsgInstanceLaunchFailures: Could not launch On-Demand Instances. {ICE}",
            Cause.CAPACITY,
        ),
        (f"ray-gpu: AsgInstanceLaunchFailures: {FLEETS}", Cause.QUOTA),
        (f"Launching a new EC2 instance. Status Reason: {VCPU} Launching EC2 instance failed.", Cause.QUOTA),
        ("Could not launch Spot Instances. UnfulfillableCapacity - Unable to fulfill capacity", Cause.CAPACITY),
        ("There is no Spot capacity available that matches your request.", Cause.CAPACITY),
        (
            "Your Spot request price of 0.1 is lower than the minimum required Spot request fulfillment price",
            Cause.CAPACITY,
        ),
        ("Your requested instance type (p5) is not supported in your requested Availability Zone (a)", Cause.CAPACITY),
        ("NodeCreationFailure: Instances failed to join the kubernetes cluster", Cause.SETTING),
        ("error: No valid credential sources found", Cause.CREDENTIALS),
        ("the SSO session has expired or is invalid", Cause.CREDENTIALS),
        ("AWS account ID not allowed: 123456789012", Cause.SETTING),
        ("An error occurred (Throttling) when calling the DescribeScalingActivities operation", Cause.THROTTLED),
        ("creating EC2 VPC: operation error EC2: CreateVpc, api error VpcLimitExceeded: The maximum", Cause.QUOTA),
        ("operation error EC2: AllocateAddress, api error AddressLimitExceeded: The maximum number", Cause.QUOTA),
        ("operation error EC2: CreateNatGateway, api error NatGatewayLimitExceeded: Performing", Cause.QUOTA),
        ("operation error EKS: CreateCluster, api error ResourceLimitExceededException: Cluster limit", Cause.QUOTA),
        ("operation error EC2: CreateSubnet, api error InvalidSubnet.Range: The CIDR", Cause.SETTING),
        ("    settings that cannot be used:\n      ray-train-efa:gpuNodes: 99 is more than 32", Cause.SETTING),
        ("AWS (us-west-2) cannot take the stack:\n  gpuZone us-west-2x: there is no such zone", Cause.SETTING),
        ("this stack would cost $19.01 an hour, and maxHourlyUsd is 12: nothing was made.", Cause.SETTING),
    ],
)
def test_an_engines_text_tells_its_cause(text: str, cause: Cause) -> None:
    found = in_text(f"Updating (dev)\n{text}\nResources: 3 created\nDuration: 12s")
    assert found is not None
    assert found.cause == cause


@pytest.mark.parametrize(
    "text",
    [
        "Resources:\n    + 12 created\nDuration: 14m",
        "Unsupported in this release; Unavailable until tomorrow",
        "pydantic.ValidationError: 1 error for Settings",
        "ConnectionError: the head does not answer",
        "api error SomethingNew: nobody knows",
        "VpcSomethingLimitExceeded, a word beside others",
        "",
    ],
)
def test_what_no_service_of_aws_said_has_no_cause(text: str) -> None:
    assert in_text(text) is None


def test_of_several_causes_the_one_counts_that_another_zone_would_meet_again() -> None:
    both = f"zone a: {ICE}\nUnauthorizedOperation: You are not authorized to perform this operation."
    for lines in (both.splitlines(), both.splitlines()[::-1]):
        found = in_text("\n".join(lines))
        assert found is not None
        assert found.cause == Cause.PERMISSION
