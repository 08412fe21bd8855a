"""Type tokens of the Pulumi AWS provider that the stand-in account knows by name."""

VPC = "aws:ec2/vpc:Vpc"
SUBNET = "aws:ec2/subnet:Subnet"
INTERNET_GATEWAY = "aws:ec2/internetGateway:InternetGateway"
ROUTE_TABLE = "aws:ec2/routeTable:RouteTable"
ROUTE = "aws:ec2/route:Route"
ROUTE_TABLE_ASSOCIATION = "aws:ec2/routeTableAssociation:RouteTableAssociation"
EIP = "aws:ec2/eip:Eip"
NAT_GATEWAY = "aws:ec2/natGateway:NatGateway"
VPC_ENDPOINT = "aws:ec2/vpcEndpoint:VpcEndpoint"
ENDPOINT_ROUTES = "aws:ec2/vpcEndpointRouteTableAssociation:VpcEndpointRouteTableAssociation"
SECURITY_GROUP = "aws:ec2/securityGroup:SecurityGroup"
SECURITY_GROUP_RULE = "aws:ec2/securityGroupRule:SecurityGroupRule"
INGRESS_RULE = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
EGRESS_RULE = "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule"
PLACEMENT_GROUP = "aws:ec2/placementGroup:PlacementGroup"
CAPACITY_RESERVATION = "aws:ec2/capacityReservation:CapacityReservation"
LAUNCH_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"

ROLE = "aws:iam/role:Role"
ROLE_POLICY = "aws:iam/rolePolicy:RolePolicy"
ROLE_POLICY_ATTACHMENT = "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
POLICY = "aws:iam/policy:Policy"
OIDC_PROVIDER = "aws:iam/openIdConnectProvider:OpenIdConnectProvider"

CLUSTER = "aws:eks/cluster:Cluster"
NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
ADDON = "aws:eks/addon:Addon"
ACCESS_ENTRY = "aws:eks/accessEntry:AccessEntry"
ACCESS_POLICY_ASSOCIATION = "aws:eks/accessPolicyAssociation:AccessPolicyAssociation"
POD_IDENTITY_ASSOCIATION = "aws:eks/podIdentityAssociation:PodIdentityAssociation"

BUCKET = "aws:s3/bucket:Bucket"
BUCKET_VERSIONING = "aws:s3/bucketVersioning:BucketVersioning"
BUCKET_ENCRYPTION = "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration"
BUCKET_PUBLIC_ACCESS_BLOCK = "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock"
BUCKET_POLICY = "aws:s3/bucketPolicy:BucketPolicy"
BUCKET_LIFECYCLE = "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration"
BUCKET_OWNERSHIP = "aws:s3/bucketOwnershipControls:BucketOwnershipControls"

KEY = "aws:kms/key:Key"
KEY_ALIAS = "aws:kms/alias:Alias"
LUSTRE = "aws:fsx/lustreFileSystem:LustreFileSystem"
SCHEDULE = "aws:scheduler/schedule:Schedule"
LOG_GROUP = "aws:cloudwatch/logGroup:LogGroup"

# Network interfaces that AWS makes in a subnet: of the control plane, nodes, NAT gateways, endpoints, file systems.
INTERFACE = "internal:interface"


def kind_of(token: str) -> str:
    """NodeGroup of aws:eks/nodeGroup:NodeGroup."""
    return token.rpartition(":")[2]
