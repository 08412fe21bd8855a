"""PURE: the IAM actions that the real AWS provider's calls need, by resource type and operation.

Written down from knowledge of the provider and of AWS's Service Authorization Reference; no account was asked, so a
first real run can turn up one more. Next to a call's own action stand those that AWS checks against the same caller:
iam:PassRole, the launch of a node group's template, grants on the key of Secrets.
"""

from collections.abc import Mapping

from tools.standin.ec2_actions import EC2, Operations, of

_EKS_TAGS = ("eks:TagResource", "eks:UntagResource")


def _eks(*, tags: bool = True, also: Operations | None = None, **operations: str) -> dict[str, tuple[str, ...]]:
    found = of("eks", **operations)
    if tags:
        found |= {"create": (*found["create"], "eks:TagResource"), "update": (*found["update"], *_EKS_TAGS)}
    return {name: (*actions, *(also or {}).get(name, ())) for name, actions in found.items()}


# EKS looks at the template's interfaces and tries its launch as the caller.
_LAUNCH = ("ec2:RunInstances", "ec2:CreateTags", "ec2:DescribeLaunchTemplateVersions", "ec2:DescribeSubnets")
_PASS = ("iam:GetRole", "iam:PassRole")
_GRANT = ("kms:DescribeKey", "kms:CreateGrant")
_SERVICE_ROLE = ("iam:CreateServiceLinkedRole",)

ACTIONS: Mapping[str, Operations] = {
    **EC2,
    "aws:iam/role:Role": of(
        "iam",
        create="CreateRole TagRole",
        read="GetRole ListRolePolicies ListAttachedRolePolicies GetRolePolicy",
        update="UpdateAssumeRolePolicy UpdateRole UpdateRoleDescription TagRole UntagRole",
        delete="DeleteRole ListInstanceProfilesForRole DetachRolePolicy DeleteRolePolicy",
    ),
    "aws:iam/rolePolicy:RolePolicy": of(
        "iam", create="PutRolePolicy", read="GetRolePolicy", update="PutRolePolicy", delete="DeleteRolePolicy"
    ),
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": of(
        "iam", create="AttachRolePolicy", read="ListAttachedRolePolicies", delete="DetachRolePolicy"
    ),
    "aws:iam/policy:Policy": of(
        "iam",
        create="CreatePolicy TagPolicy",
        read="GetPolicy GetPolicyVersion ListPolicyVersions",
        update="CreatePolicyVersion DeletePolicyVersion TagPolicy UntagPolicy",
        delete="DeletePolicyVersion DeletePolicy",
    ),
    "aws:iam/openIdConnectProvider:OpenIdConnectProvider": of(
        "iam",
        create="CreateOpenIDConnectProvider TagOpenIDConnectProvider",
        read="GetOpenIDConnectProvider",
        update="UpdateOpenIDConnectProviderThumbprint AddClientIDToOpenIDConnectProvider "
        "RemoveClientIDFromOpenIDConnectProvider TagOpenIDConnectProvider UntagOpenIDConnectProvider",
        delete="DeleteOpenIDConnectProvider",
    ),
    "aws:eks/cluster:Cluster": _eks(
        create="CreateCluster",
        read="DescribeCluster",
        update="UpdateClusterConfig UpdateClusterVersion AssociateEncryptionConfig DescribeUpdate",
        delete="DeleteCluster",
        also={
            "create": (*_PASS, *_GRANT, *_SERVICE_ROLE, "ec2:DescribeSubnets", "ec2:DescribeSecurityGroups"),
            "update": (*_GRANT, "ec2:DescribeSubnets"),
        },
    ),
    "aws:eks/addon:Addon": _eks(
        create="CreateAddon",
        read="DescribeAddon",
        update="UpdateAddon DescribeUpdate",
        delete="DeleteAddon",
        also={"create": _PASS, "update": _PASS},
    ),
    "aws:eks/nodeGroup:NodeGroup": _eks(
        create="CreateNodegroup",
        read="DescribeNodegroup",
        update="UpdateNodegroupConfig UpdateNodegroupVersion DescribeUpdate",
        delete="DeleteNodegroup",
        also={
            "create": (*_PASS, "iam:ListAttachedRolePolicies", *_SERVICE_ROLE, *_LAUNCH),
            "update": _LAUNCH,
        },
    ),
    "aws:eks/accessEntry:AccessEntry": _eks(
        create="CreateAccessEntry", read="DescribeAccessEntry", update="UpdateAccessEntry", delete="DeleteAccessEntry"
    ),
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": _eks(
        tags=False,
        create="AssociateAccessPolicy",
        read="ListAssociatedAccessPolicies",
        delete="DisassociateAccessPolicy",
    ),
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": _eks(
        create="CreatePodIdentityAssociation",
        read="DescribePodIdentityAssociation",
        update="UpdatePodIdentityAssociation",
        delete="DeletePodIdentityAssociation",
        also={"create": _PASS, "update": _PASS},
    ),
    "aws:kms/key:Key": of(
        "kms",
        create="CreateKey TagResource EnableKeyRotation PutKeyPolicy",
        read="DescribeKey GetKeyPolicy GetKeyRotationStatus ListResourceTags",
        update="UpdateKeyDescription EnableKeyRotation DisableKeyRotation PutKeyPolicy TagResource UntagResource",
        delete="ScheduleKeyDeletion",
    ),
    "aws:kms/alias:Alias": of(
        "kms", create="CreateAlias", read="ListAliases", update="UpdateAlias", delete="DeleteAlias"
    ),
    # A read looks at every side of a bucket, set or not.
    "aws:s3/bucket:Bucket": of(
        "s3",
        create="CreateBucket TagResource PutBucketTagging",
        read="ListBucket GetBucketLocation GetBucketAcl GetBucketCORS GetBucketLogging GetBucketPolicy "
        "GetBucketTagging GetBucketObjectLockConfiguration GetBucketRequestPayment GetBucketVersioning "
        "GetBucketWebsite GetAccelerateConfiguration GetEncryptionConfiguration GetLifecycleConfiguration "
        "GetReplicationConfiguration ListTagsForResource",
        update="PutBucketTagging TagResource UntagResource",
        delete="DeleteBucket ListBucketVersions DeleteObject DeleteObjectVersion",
    ),
    "aws:s3/bucketVersioning:BucketVersioning": of(
        "s3",
        create="PutBucketVersioning",
        read="GetBucketVersioning",
        update="PutBucketVersioning",
        delete="PutBucketVersioning",
    ),
    "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration": of(
        "s3",
        create="PutEncryptionConfiguration",
        read="GetEncryptionConfiguration",
        update="PutEncryptionConfiguration",
        delete="PutEncryptionConfiguration",
    ),
    "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock": of(
        "s3",
        create="PutBucketPublicAccessBlock",
        read="GetBucketPublicAccessBlock",
        update="PutBucketPublicAccessBlock",
        delete="PutBucketPublicAccessBlock",
    ),
    "aws:s3/bucketOwnershipControls:BucketOwnershipControls": of(
        "s3",
        create="PutBucketOwnershipControls",
        read="GetBucketOwnershipControls",
        update="PutBucketOwnershipControls",
        delete="PutBucketOwnershipControls",
    ),
    "aws:s3/bucketPolicy:BucketPolicy": of(
        "s3", create="PutBucketPolicy", read="GetBucketPolicy", update="PutBucketPolicy", delete="DeleteBucketPolicy"
    ),
    "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration": of(
        "s3",
        create="PutLifecycleConfiguration",
        read="GetLifecycleConfiguration",
        update="PutLifecycleConfiguration",
        delete="PutLifecycleConfiguration",
    ),
    "aws:cloudwatch/logGroup:LogGroup": of(
        "logs",
        create="CreateLogGroup PutRetentionPolicy TagResource",
        read="DescribeLogGroups ListTagsForResource",
        update="PutRetentionPolicy DeleteRetentionPolicy TagResource UntagResource",
        delete="DeleteLogGroup",
    ),
    "aws:scheduler/schedule:Schedule": {
        **of("scheduler", read="GetSchedule", delete="DeleteSchedule"),
        "create": ("scheduler:CreateSchedule", *_PASS),
        "update": ("scheduler:UpdateSchedule", *_PASS),
    },
    "aws:fsx/lustreFileSystem:LustreFileSystem": {
        **of(
            "fsx",
            read="DescribeFileSystems ListTagsForResource",
            update="UpdateFileSystem TagResource UntagResource",
            delete="DeleteFileSystem",
        ),
        "create": ("fsx:CreateFileSystem", "fsx:TagResource", *_SERVICE_ROLE, "ec2:DescribeSubnets"),
    },
}

INVOKES: Mapping[str, tuple[str, ...]] = {
    # Every caller may ask who it is.
    "aws:index/getCallerIdentity:getCallerIdentity": (),
    "aws:index/getPartition:getPartition": (),
    "aws:index/getRegion:getRegion": (),
    "aws:iam/getPolicyDocument:getPolicyDocument": (),
    "aws:index/getAvailabilityZones:getAvailabilityZones": ("ec2:DescribeAvailabilityZones",),
    "aws:index/getAvailabilityZone:getAvailabilityZone": ("ec2:DescribeAvailabilityZones",),
    "aws:ec2/getInstanceType:getInstanceType": ("ec2:DescribeInstanceTypes",),
    "aws:ec2/getInstanceTypes:getInstanceTypes": ("ec2:DescribeInstanceTypes",),
    "aws:ec2/getInstanceTypeOffering:getInstanceTypeOffering": ("ec2:DescribeInstanceTypeOfferings",),
    "aws:ec2/getInstanceTypeOfferings:getInstanceTypeOfferings": ("ec2:DescribeInstanceTypeOfferings",),
    "aws:ec2/getInstances:getInstances": ("ec2:DescribeInstances",),
    "aws:ec2/getVpc:getVpc": ("ec2:DescribeVpcs", "ec2:DescribeVpcAttribute", "ec2:DescribeRouteTables"),
    "aws:ec2/getSubnet:getSubnet": ("ec2:DescribeSubnets",),
    "aws:ec2/getSubnets:getSubnets": ("ec2:DescribeSubnets",),
    "aws:ec2/getRouteTable:getRouteTable": ("ec2:DescribeRouteTables",),
    "aws:ec2/getRouteTables:getRouteTables": ("ec2:DescribeRouteTables",),
    "aws:ec2/getSecurityGroup:getSecurityGroup": ("ec2:DescribeSecurityGroups",),
    "aws:ec2/getLaunchTemplate:getLaunchTemplate": (
        "ec2:DescribeLaunchTemplates",
        "ec2:DescribeLaunchTemplateVersions",
    ),
    "aws:ec2/getAmi:getAmi": ("ec2:DescribeImages",),
    "aws:eks/getCluster:getCluster": ("eks:DescribeCluster",),
    "aws:eks/getClusters:getClusters": ("eks:ListClusters",),
    # Signed here, not asked for.
    "aws:eks/getClusterAuth:getClusterAuth": (),
    "aws:eks/getClusterVersions:getClusterVersions": ("eks:DescribeClusterVersions",),
    "aws:eks/getNodeGroup:getNodeGroup": ("eks:DescribeNodegroup",),
    "aws:eks/getNodeGroups:getNodeGroups": ("eks:ListNodegroups",),
    "aws:eks/getAddonVersion:getAddonVersion": ("eks:DescribeAddonVersions",),
    "aws:kms/getKey:getKey": ("kms:DescribeKey",),
    "aws:iam/getRole:getRole": ("iam:GetRole",),
    "aws:ssm/getParameter:getParameter": ("ssm:GetParameter",),
    "aws:servicequotas/getServiceQuota:getServiceQuota": (
        "servicequotas:GetServiceQuota",
        "servicequotas:GetAWSDefaultServiceQuota",
        "servicequotas:ListServiceQuotas",
    ),
    "aws:pricing/getProduct:getProduct": ("pricing:GetProducts",),
}

# What is asked beside Pulumi: by `efactl` before the first resource, and where a node group is slow to come.
BESIDE: tuple[str, ...] = (
    "servicequotas:GetServiceQuota",
    "servicequotas:ListServiceQuotas",
    "pricing:GetProducts",
    "ec2:DescribeInstances",
    "ec2:DescribeInstanceTypeOfferings",
    "ec2:DescribeCapacityReservations",
    "ec2:GetSpotPlacementScores",
    "autoscaling:DescribeScalingActivities",
    "eks:ListNodegroups",
)


def needed(token: str, operation: str) -> tuple[str, ...]:
    """What one operation on a resource type needs, the reads with which the provider follows it included; or, with the
    operation invoke, what a question needs.

    Raises KeyError for a token or an operation that the tables lack.
    """
    if operation == "invoke":
        return INVOKES[token]
    operations = ACTIONS[token]
    return tuple(dict.fromkeys((*operations[operation], *operations["read"])))
