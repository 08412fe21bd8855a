"""PURE: AWS's error codes, and the words it uses where no code is told, each with what follows from it.

Codes: docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html, EKS's NodegroupIssueCode, botocore's own
exceptions by class name. Words: docs.aws.amazon.com/autoscaling/ec2/userguide/ts-as-instancelaunchfailure.html and
ts-as-capacity.html, and what public issue trackers quote of scaling activities and of the Pulumi provider.
"""

import re
from dataclasses import dataclass

from capacity.cause import Cause, Retry


@dataclass(frozen=True, kw_only=True)
class Rule:
    cause: Cause
    retry: Retry
    what_to_do: str


def _rule(cause: Cause, retry: Retry, what_to_do: str) -> Rule:
    return Rule(cause=cause, retry=retry, what_to_do=what_to_do)


CAPACITY = _rule(Cause.CAPACITY, "next-zone", "AWS has none free here now: another zone or region may, or try later")
_FULL = _rule(Cause.CAPACITY, "next-zone", "the reservation has no room left: free some of it, enlarge it, or go on")
_NOT_HERE = _rule(Cause.CAPACITY, "next-zone", "this zone does not have the type: another zone or region may")
_SPOT_PRICE = _rule(Cause.CAPACITY, "next-zone", "the spot price is above the maximum: another zone may be cheaper")
# Counted a region, but AWS frees spot places by zone: where there is another zone it is worth a try.
_SPOT_COUNT = _rule(
    Cause.CAPACITY, "next-zone", "the account's spot places are taken here: another zone, or a higher spot quota"
)
_ADDRESSES = _rule(Cause.CAPACITY, "next-region", "AWS has no public addresses free in this region: another may")

QUOTA = _rule(
    Cause.QUOTA,
    "stop",
    "a quota of the account, and no other zone helps: have it raised in Service Quotas for this region",
)
_VCPU = _rule(
    Cause.QUOTA,
    "stop",
    "the account's vCPU quota of this instance family, and no other zone helps: have it raised in Service Quotas "
    '(on demand: "Running On-Demand G and VT instances" L-DB2E81BA, P types L-417A185B; spot: G L-3819A6DF)',
)
_NETWORKS = _rule(
    Cause.QUOTA,
    "stop",
    'the account\'s quota of VPCs in this region: end one, or have "VPCs per Region" (L-F678F1CE) raised in Service '
    "Quotas for it; vpcId puts the stack into a VPC that is there",
)
_ELASTIC = _rule(
    Cause.QUOTA,
    "stop",
    'the account\'s quota of public addresses in this region: release one, or have "EC2-VPC Elastic IPs" '
    "(L-0263D0A3) raised in Service Quotas for it",
)
_FLEETS = _rule(
    Cause.QUOTA, "stop", "the account's quota of fleet requests, which no zone changes: AWS support raises it"
)

PERMISSION = _rule(Cause.PERMISSION, "stop", "these credentials may not do it: allow it to them (docs/iam)")
SCP = _rule(
    Cause.PERMISSION,
    "stop",
    "a service control policy of the organisation forbids it, and no policy of this account can allow it: ask whoever "
    "administers the organisation, or take a region that it allows",
)
_DENIED = _rule(
    Cause.PERMISSION, "stop", "a policy denies it in so many words: ask whoever wrote the policy that the message names"
)
_BLOCKED = _rule(Cause.PERMISSION, "stop", "AWS holds this account back: its support centre says why")
_KEY = _rule(
    Cause.PERMISSION,
    "stop",
    "the KMS key of the disks is not for Auto Scaling: grant it to the role AWSServiceRoleForAutoScaling",
)

NO_CREDENTIALS = _rule(
    Cause.CREDENTIALS,
    "stop",
    "there are no credentials: set AWS_PROFILE, run `aws configure` or `aws sso login`, or give the machine a role",
)
_PROFILE = _rule(
    Cause.CREDENTIALS,
    "stop",
    "`aws configure list-profiles` shows the profiles there are: set aws:profile or AWS_PROFILE",
)
_SSO = _rule(Cause.CREDENTIALS, "stop", "the sign-on has run out: `aws sso login`, with --profile where one is used")
_EXPIRED = _rule(
    Cause.CREDENTIALS,
    "stop",
    "the credentials have expired: sign in again (`aws sso login`, or a new session) and repeat",
)
_REFUSED = _rule(
    Cause.CREDENTIALS,
    "stop",
    "AWS does not know these credentials here: `aws sts get-caller-identity` shows whether they work at all; if it "
    "does, the region is not enabled in this account",
)
CLOCK = _rule(
    Cause.CREDENTIALS, "stop", "this machine's clock and AWS's are more than some minutes apart: set the clock (NTP)"
)
_FETCHED_EXPIRED = _rule(
    Cause.CREDENTIALS,
    "stop",
    "the credentials are expired as soon as they are fetched: set this machine's clock (NTP), or mend what the profile "
    "gets them from (credential_process, a saved session)",
)

SETTING = _rule(Cause.SETTING, "stop", "what is asked for cannot be: correct the setting that the message names")
_TYPE = _rule(Cause.SETTING, "stop", "there is no such instance type in this region: correct gpuInstanceType")
_REGION = _rule(
    Cause.SETTING,
    "next-region",
    "the region is not enabled in this account: enable it (Account, AWS Regions), or go on",
)
_NO_REGION = _rule(Cause.SETTING, "stop", "no region is named: set aws:region, AWS_REGION, or --regions")
_ACCOUNT = _rule(Cause.SETTING, "stop", "these credentials are of another account than aws:allowedAccountIds names")
_HELD = _rule(
    Cause.SETTING,
    "stop",
    "the reservation is not there, has ended, or is not shared with this account: correct capacity",
)
_CAPACITY_OFFER = _rule(Cause.SETTING, "stop", "AWS does not reserve this type: set capacity: none, or another type")
_SUBNET = _rule(Cause.SETTING, "stop", "the subnet has no addresses left: a larger one, or fewer nodes")
_JOIN = _rule(
    Cause.SETTING,
    "stop",
    "the nodes run but did not join the cluster: they need a way to its endpoint and to ECR, and a role it knows "
    "(docs.aws.amazon.com/eks/latest/userguide/troubleshooting.html)",
)
_GONE = _rule(
    Cause.SETTING,
    "stop",
    "what the node group stands on was changed or deleted by hand: `pulumi up --refresh` tells what",
)

THROTTLED = _rule(Cause.THROTTLED, "wait", "AWS wants fewer calls: try again in a minute")
UNAVAILABLE = _rule(
    Cause.UNAVAILABLE, "next-region", "the region's service does not answer or fails: another region, or later"
)
_BUSY = _rule(Cause.UNAVAILABLE, "wait", "something else is changing it: try again in some minutes")
UNKNOWN = _rule(Cause.UNKNOWN, "stop", "AWS gave a reason that is not known here: read it before going on")

_BY_RULE: tuple[tuple[Rule, str], ...] = (
    (
        CAPACITY,
        "InsufficientInstanceCapacity InsufficientCapacity InsufficientCapacityException InsufficientHostCapacity "
        "InsufficientCapacityOnHost InsufficientVolumeCapacity UnfulfillableCapacity",
    ),
    (_FULL, "InsufficientReservedInstanceCapacity ReservationCapacityExceeded"),
    (_NOT_HERE, "Unsupported UnsupportedAvailabilityZoneException"),
    (_SPOT_PRICE, "SpotMaxPriceTooLow"),
    (_SPOT_COUNT, "MaxSpotInstanceCountExceeded"),
    (_ADDRESSES, "InsufficientAddressCapacity"),
    (_VCPU, "VcpuLimitExceeded InstanceLimitExceeded"),
    (_NETWORKS, "VpcLimitExceeded"),
    (_ELASTIC, "AddressLimitExceeded"),
    (_FLEETS, "MaxFleetCountExceeded MaxSpotFleetRequestCountExceeded"),
    (
        QUOTA,
        "ResourceLimitExceeded LimitExceeded LimitExceededException ServiceQuotaExceededException "
        "QuotaExceededException IamLimitExceeded Ec2LaunchTemplateMaxLimitExceeded "
        "Ec2LaunchTemplateVersionMaxLimitExceeded",
    ),
    (
        PERMISSION,
        "UnauthorizedOperation AccessDenied AccessDeniedException UnauthorizedException AuthorizationError "
        "AuthorizationErrorException Forbidden ForbiddenException AccessDeniedForDependency",
    ),
    (_BLOCKED, "Blocked PendingVerification AccountProblem"),
    (_KEY, "InvalidKMSKey.InvalidState KMSInvalidStateException"),
    (NO_CREDENTIALS, "NoCredentialsError PartialCredentialsError MissingAuthenticationToken CredentialRetrievalError"),
    (_PROFILE, "ProfileNotFound ConfigNotFound ConfigParseError InvalidConfigError InfiniteLoopConfigError"),
    (
        _SSO,
        "UnauthorizedSSOTokenError SSOTokenLoadError SSOError TokenRetrievalError "
        "NoAuthTokenError LoginError LoginTokenLoadError",
    ),
    (_EXPIRED, "ExpiredToken ExpiredTokenException TokenRefreshRequired"),
    (
        _REFUSED,
        "AuthFailure InvalidClientTokenId UnrecognizedClientException SignatureDoesNotMatch InvalidSignatureException "
        "InvalidAccessKeyId IncompleteSignature IncompleteSignatureException InvalidToken NotSignedUp",
    ),
    (CLOCK, "RequestExpired RequestTimeTooSkewed RequestInTheFuture"),
    (
        SETTING,
        "InvalidParameterValue InvalidParameter InvalidParameterCombination InvalidParameterException "
        "InvalidParameterValueException InvalidRequest InvalidRequestException MissingParameter ValidationError "
        "ValidationException UnknownParameter InvalidAvailabilityZone InvalidInstanceAttributeValue InvalidInput "
        "InvalidEndpointException ResourceNotFoundException ResourceInUseException InvalidPlacementGroup.Unknown "
        "InvalidPlacementGroup.Duplicate Ec2InstanceTypeDoesNotExist Ec2LaunchTemplateInvalidConfiguration "
        "AutoScalingGroupInvalidConfiguration Ec2SubnetInvalidConfiguration Ec2SubnetMissingIpv6Assignment "
        "UnsupportedOperation Ec2SubnetListTooLong KubernetesLabelInvalid AmiIdNotFound ParamValidationError "
        "UnknownServiceError InvalidRegionError UnknownRegionError UnknownEndpointError EndpointProviderError",
    ),
    (_TYPE, "InvalidInstanceType"),
    (_REGION, "OptInRequired AutoScalingGroupOptInRequired RegionDisabledException"),
    (_NO_REGION, "NoRegionError"),
    (
        _HELD,
        "InvalidCapacityReservationId.NotFound InvalidCapacityReservationId.Malformed InvalidCapacityReservationState",
    ),
    (_SUBNET, "InsufficientFreeAddressesInSubnet InsufficientFreeAddresses"),
    (_JOIN, "NodeCreationFailure ClusterUnreachable"),
    (
        _GONE,
        "AutoScalingGroupNotFound Ec2SecurityGroupNotFound Ec2SecurityGroupDeletionFailure Ec2LaunchTemplateNotFound "
        "Ec2LaunchTemplateVersionMismatch Ec2LaunchTemplateDeletionFailure SourceEc2LaunchTemplateNotFound "
        "Ec2SubnetNotFound IamInstanceProfileNotFound IamNodeRoleNotFound NodeTerminationFailure PodEvictionFailure",
    ),
    (
        THROTTLED,
        "RequestLimitExceeded Throttling ThrottlingException ThrottledException RequestThrottled SlowDown "
        "RequestThrottledException TooManyRequestsException PriorRequestNotComplete BandwidthLimitExceeded "
        "EC2ThrottledException AutoScalingGroupRateLimitExceeded IamThrottling",
    ),
    (
        UNAVAILABLE,
        "Unavailable ServiceUnavailable ServiceUnavailableException InternalError InternalFailure InternalServerError "
        "ServerException RequestTimeout RequestTimeoutException EndpointConnectionError "
        "ConnectTimeoutError ReadTimeoutError ConnectionClosedError ConnectionError HTTPClientError "
        "ProxyConnectionError SSLError ResponseParserError",
    ),
    (_BUSY, "AutoScalingGroupInstanceRefreshActive IncorrectState ConcurrentModification DependencyViolation"),
)
CODES: dict[str, Rule] = {code: rule for rule, codes in _BY_RULE for code in codes.split()}

# In lower case, * for anything. A sentence tells more than the code beside it: looked for first, the sharpest foremost.
_BY_WORDS: tuple[tuple[str, Rule], ...] = (
    ("resource control policy", SCP),
    ("service control policy", SCP),
    ("with an explicit deny", _DENIED),
    ("signature expired", CLOCK),
    ("signature not yet current", CLOCK),
    ("difference between the request time and the current time", CLOCK),
    ("refreshed credentials are still expired", _FETCHED_EXPIRED),
    ("sso session has expired", _SSO),
    ("sso session associated with this profile has expired", _SSO),
    ("the config profile", _PROFILE),
    ("failed to get shared config profile", _PROFILE),
    ("no valid credential sources found", NO_CREDENTIALS),
    ("unable to locate credentials", NO_CREDENTIALS),
    ("the security token included in the request is expired", _EXPIRED),
    ("not able to validate the provided access credentials", _REFUSED),
    ("account id not allowed", _ACCOUNT),
    ("quota for maximum fleet requests", _FLEETS),
    ("more vcpu capacity than your current vcpu limit", _VCPU),
    ("you are not subscribed to this service", _REGION),
    ("account is currently blocked", _BLOCKED),
    ("account is currently being verified", _BLOCKED),
    ("do not have sufficient * capacity", CAPACITY),
    ("insufficient capacity", CAPACITY),
    ("insufficient instance capacity", CAPACITY),
    ("unable to fulfill capacity", CAPACITY),
    ("no spot capacity available", CAPACITY),
    ("no capacity available that matches your request", CAPACITY),
    ("does not have sufficient compatible and available capacity", _FULL),
    ("lower than the minimum required spot request fulfillment price", _SPOT_PRICE),
    ("not supported in your requested availability zone", _NOT_HERE),
    ("requested configuration is currently not supported", _NOT_HERE),
    ("client error on launch", _KEY),
    ("no longer available for capacity reservation", _CAPACITY_OFFER),
    ("not supported for capacity reservation", _CAPACITY_OFFER),
    ("failed to join the kubernetes cluster", _JOIN),
    # This program's own refusals, before it makes anything.
    ("settings that cannot be used", SETTING),
    ("cannot take the stack", SETTING),
    ("and maxhourlyusd is", SETTING),
    ("maxhourlyusd * cannot be held", SETTING),
    ("not authorized to perform", PERMISSION),
)
PHRASES = tuple((re.compile(".*".join(map(re.escape, words.split("*")))), rule) for words, rule in _BY_WORDS)
