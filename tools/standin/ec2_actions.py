"""PURE: the IAM actions behind the EC2 resource types, by operation. See actions.py."""

from collections.abc import Mapping

Operations = Mapping[str, tuple[str, ...]]

OPERATIONS = ("create", "read", "update", "delete")


def of(service: str, **operations: str) -> dict[str, tuple[str, ...]]:
    """Actions of one service, by operation, written apart by blanks."""
    return {name: tuple(f"{service}:{action}" for action in operations.get(name, "").split()) for name in OPERATIONS}


def _ec2(*, tags: bool = True, **operations: str) -> dict[str, tuple[str, ...]]:
    found = of("ec2", **operations)
    if tags:
        found |= {
            "create": (*found["create"], "ec2:CreateTags"),
            "update": (*found["update"], "ec2:CreateTags", "ec2:DeleteTags"),
        }
    return found


_RULES = {
    direction: _ec2(
        create=f"AuthorizeSecurityGroup{direction}",
        read="DescribeSecurityGroupRules DescribeSecurityGroups",
        update="ModifySecurityGroupRules",
        delete=f"RevokeSecurityGroup{direction}",
    )
    for direction in ("Ingress", "Egress")
}

EC2: Mapping[str, Operations] = {
    "aws:ec2/vpc:Vpc": _ec2(
        create="CreateVpc ModifyVpcAttribute",
        read="DescribeVpcs DescribeVpcAttribute DescribeNetworkAcls DescribeRouteTables DescribeSecurityGroups",
        update="ModifyVpcAttribute",
        delete="DeleteVpc",
    ),
    "aws:ec2/subnet:Subnet": _ec2(
        create="CreateSubnet ModifySubnetAttribute",
        read="DescribeSubnets",
        update="ModifySubnetAttribute",
        delete="DeleteSubnet DescribeNetworkInterfaces",
    ),
    "aws:ec2/internetGateway:InternetGateway": _ec2(
        create="CreateInternetGateway AttachInternetGateway",
        read="DescribeInternetGateways",
        update="AttachInternetGateway DetachInternetGateway",
        delete="DetachInternetGateway DeleteInternetGateway",
    ),
    "aws:ec2/eip:Eip": _ec2(
        create="AllocateAddress",
        read="DescribeAddresses DescribeAddressesAttribute",
        update="AssociateAddress DisassociateAddress",
        delete="DisassociateAddress ReleaseAddress",
    ),
    "aws:ec2/natGateway:NatGateway": _ec2(
        create="CreateNatGateway", read="DescribeNatGateways", delete="DeleteNatGateway"
    ),
    "aws:ec2/routeTable:RouteTable": _ec2(
        create="CreateRouteTable CreateRoute",
        read="DescribeRouteTables",
        update="CreateRoute ReplaceRoute DeleteRoute",
        delete="DeleteRouteTable DisassociateRouteTable",
    ),
    "aws:ec2/route:Route": _ec2(
        tags=False, create="CreateRoute", read="DescribeRouteTables", update="ReplaceRoute", delete="DeleteRoute"
    ),
    "aws:ec2/routeTableAssociation:RouteTableAssociation": _ec2(
        tags=False,
        create="AssociateRouteTable",
        read="DescribeRouteTables",
        update="ReplaceRouteTableAssociation",
        delete="DisassociateRouteTable",
    ),
    "aws:ec2/vpcEndpoint:VpcEndpoint": _ec2(
        create="CreateVpcEndpoint",
        read="DescribeVpcEndpoints DescribePrefixLists",
        update="ModifyVpcEndpoint",
        delete="DeleteVpcEndpoints",
    ),
    "aws:ec2/vpcEndpointRouteTableAssociation:VpcEndpointRouteTableAssociation": _ec2(
        tags=False, create="ModifyVpcEndpoint", read="DescribeVpcEndpoints", delete="ModifyVpcEndpoint"
    ),
    # A new group is born with an egress rule to everywhere, which the provider takes away.
    "aws:ec2/securityGroup:SecurityGroup": _ec2(
        create="CreateSecurityGroup RevokeSecurityGroupEgress "
        "AuthorizeSecurityGroupIngress AuthorizeSecurityGroupEgress",
        read="DescribeSecurityGroups",
        update="AuthorizeSecurityGroupIngress AuthorizeSecurityGroupEgress "
        "RevokeSecurityGroupIngress RevokeSecurityGroupEgress",
        delete="DeleteSecurityGroup DescribeNetworkInterfaces",
    ),
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": _RULES["Ingress"],
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": _RULES["Egress"],
    "aws:ec2/securityGroupRule:SecurityGroupRule": _ec2(
        tags=False,
        create="AuthorizeSecurityGroupIngress AuthorizeSecurityGroupEgress",
        read="DescribeSecurityGroupRules DescribeSecurityGroups",
        update="ModifySecurityGroupRules",
        delete="RevokeSecurityGroupIngress RevokeSecurityGroupEgress",
    ),
    "aws:ec2/capacityReservation:CapacityReservation": _ec2(
        create="CreateCapacityReservation",
        read="DescribeCapacityReservations",
        update="ModifyCapacityReservation",
        delete="CancelCapacityReservation",
    ),
    "aws:ec2/placementGroup:PlacementGroup": _ec2(
        create="CreatePlacementGroup", read="DescribePlacementGroups", delete="DeletePlacementGroup"
    ),
    "aws:ec2/launchTemplate:LaunchTemplate": _ec2(
        create="CreateLaunchTemplate",
        read="DescribeLaunchTemplates DescribeLaunchTemplateVersions",
        update="CreateLaunchTemplateVersion ModifyLaunchTemplate",
        delete="DeleteLaunchTemplate",
    ),
}
