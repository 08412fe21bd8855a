"""How long AWS takes, in modelled seconds, by type and operation. What is not listed takes two seconds.

Sources, read in 2026:
- EKS: "Create time: 10-15 minutes" (docs.aws.amazon.com/eks getting started); logs in public issues of
  terraform-aws-eks and eksctl: control plane 9 to 16 min, managed node groups 2 to 5, add-ons 1 to 3, deletions of
  clusters and groups 2 to 10.
- NAT gateways, interface endpoints, elastic addresses: example outputs in terraform-provider-aws issues: a NAT gateway
  1.5 to 2.5 min, its deletion about 1; an interface endpoint 1 to 2, its deletion about 1.
- A version update of a control plane: "several minutes", 8 to 10 in the same logs. A node group's rolling update: one
  node after another, 5 to 10 min in all for two.
- FSx for Lustre: "approximately 5 to 10 minutes" (its getting started page).
- CreateCapacityReservation answers in seconds; EC2's and IAM's other calls in one or two.
"""

from tools.standin import tokens

_OTHERS = 2.0
# (create, update, delete)
_SECONDS: dict[str, tuple[float, float, float]] = {
    tokens.VPC: (12, 2, 2),
    tokens.INTERNET_GATEWAY: (2, 2, 30),
    tokens.NAT_GATEWAY: (110, 2, 60),
    tokens.VPC_ENDPOINT: (75, 20, 60),
    tokens.CAPACITY_RESERVATION: (5, 5, 5),
    tokens.CLUSTER: (600, 540, 240),
    tokens.NODE_GROUP: (180, 420, 300),
    tokens.ADDON: (45, 60, 20),
    tokens.LUSTRE: (480, 300, 240),
    # The provider waits for IAM's and KMS's answers to be the same everywhere.
    tokens.ROLE: (3, 2, 3),
    tokens.KEY: (8, 5, 2),
}
_AT = {"create": 0, "update": 1, "delete": 2}
# A gateway endpoint is an entry in route tables.
_GATEWAY_ENDPOINT = 6.0
_RESIZE = 60.0


def seconds(token: str, operation: str, *, gateway: bool = False, resize: bool = False) -> float:
    """`gateway`: a VPC endpoint without interfaces. `resize`: a change that leaves nodes and control plane in place."""
    if gateway and token == tokens.VPC_ENDPOINT:
        return _GATEWAY_ENDPOINT
    if resize and operation == "update" and token in (tokens.NODE_GROUP, tokens.CLUSTER):
        return _RESIZE
    return _SECONDS.get(token, (_OTHERS, _OTHERS, _OTHERS))[_AT[operation]]


def timeout(token: str) -> float:
    """How long the provider waits for a creation where the program sets no limit (its documentation, "Timeouts")."""
    return {tokens.CLUSTER: 1800.0, tokens.NODE_GROUP: 3600.0, tokens.ADDON: 1200.0}.get(token, 3600.0)


# How long the provider goes on asking where AWS says DependencyViolation or that a thing is in use
# (terraform-provider-aws, the delete functions of each resource).
RETRIES = {
    tokens.VPC: 300.0,
    tokens.SUBNET: 1200.0,
    tokens.SECURITY_GROUP: 900.0,
    tokens.INTERNET_GATEWAY: 1200.0,
    tokens.EIP: 300.0,
    tokens.PLACEMENT_GROUP: 900.0,
    tokens.CLUSTER: 900.0,
}
# Another thing's creation not seen yet (IAM propagation): two minutes, ten seconds at a time.
PATIENCE = 12
PAUSE = 10.0
# aws.Provider's max_retries, with the backoff of the AWS SDK, at most 20 s a time.
THROTTLED = 25
