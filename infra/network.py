"""The VPC: a private subnet for nodes in each zone, public ones for NAT gateways alone, endpoints by setting."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.subnets import SubnetPlan, plan_subnets
from infra.vpc_endpoints import plan_endpoints
from infra.zones import ZonePlan

_EVERYWHERE = "0.0.0.0/0"


@dataclass(frozen=True, kw_only=True)
class NetworkArgs:
    """`name` begins the Name tags. `nat` is one (in the GPU zone), per-zone or none; `endpoints` are of s3 and ecr.

    What bills by the hour waits for `billed_after`.
    """

    name: str
    cidr: str
    zones: ZonePlan
    nat: str
    endpoints: Sequence[str]
    billed_after: Sequence[pulumi.Resource]

    @property
    def spread(self) -> tuple[str, ...]:
        """The zones that get their own NAT gateway and interface endpoints."""
        return self.zones.all if self.nat == "per-zone" else (self.zones.gpu,)

    @property
    def nat_zones(self) -> tuple[str, ...]:
        return () if self.nat == "none" else self.spread


class Network(pulumi.ComponentResource):
    """`private_subnets` are by zone. `egress` is what nodes need before they can pull an image; the control plane
    needs none of it."""

    vpc_id: pulumi.Output[str]
    private_subnets: Mapping[str, pulumi.Output[str]]
    control_plane_subnets: list[pulumi.Output[str]]
    gpu_subnet: pulumi.Output[str]
    egress: list[pulumi.Resource]

    def __init__(self, name: str, args: NetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ray-train-efa:infra:Network", name, None, opts)
        plan = plan_subnets(args.cidr, args.zones.all)
        self._prefix, self._args = name, args
        self._own = pulumi.ResourceOptions(parent=self)
        # No value of theirs is used: they are what must have been had before anything costs.
        self._billed = pulumi.ResourceOptions(parent=self, depends_on=[*args.billed_after])
        self.egress = []
        # Names within: the private endpoint of EKS and interface endpoints are found by them.
        vpc = aws.ec2.Vpc(
            f"{name}-vpc",
            cidr_block=args.cidr,
            enable_dns_support=True,
            enable_dns_hostnames=True,
            tags={"Name": args.name},
            opts=self._own,
        )
        self.vpc_id = vpc.id
        self.private_subnets = {
            zone: self._subnet("private", zone, cidr, {"kubernetes.io/role/internal-elb": "1"})
            for zone, cidr in plan.private.items()
        }
        self.control_plane_subnets = [self.private_subnets[zone] for zone in args.zones.control_plane]
        self.gpu_subnet = self.private_subnets[args.zones.gpu]
        tables = {zone: self._table(f"private-{zone}") for zone in self.private_subnets}
        for zone, subnet in self.private_subnets.items():
            self._associate(f"private-{zone}", tables[zone], subnet)
        if args.nat_zones:
            gateways = self._nat_gateways(plan)
            for zone, table in tables.items():
                nearest = gateways.get(zone, gateways[args.zones.gpu])
                self._route(f"private-{zone}", table, nat=nearest.id)
        self._endpoints(tables)
        self.register_outputs({"vpcId": self.vpc_id, "privateSubnets": dict(self.private_subnets)})

    def _subnet(self, kind: str, zone: str, cidr: str, tags: Mapping[str, str]) -> pulumi.Output[str]:
        return aws.ec2.Subnet(
            f"{self._prefix}-{kind}-{zone}",
            vpc_id=self.vpc_id,
            availability_zone=zone,
            cidr_block=cidr,
            map_public_ip_on_launch=False,
            tags={"Name": f"{self._args.name}-{kind}-{zone}", **tags},
            opts=self._own,
        ).id

    def _table(self, what: str) -> pulumi.Output[str]:
        tags = {"Name": f"{self._args.name}-{what}"}
        return aws.ec2.RouteTable(f"{self._prefix}-{what}", vpc_id=self.vpc_id, tags=tags, opts=self._own).id

    def _associate(self, what: str, table: pulumi.Output[str], subnet: pulumi.Output[str]) -> None:
        association = aws.ec2.RouteTableAssociation(
            f"{self._prefix}-{what}", route_table_id=table, subnet_id=subnet, opts=self._own
        )
        self.egress.append(association)

    def _route(
        self,
        what: str,
        table: pulumi.Output[str],
        *,
        internet: pulumi.Output[str] | None = None,
        nat: pulumi.Output[str] | None = None,
    ) -> None:
        route = aws.ec2.Route(
            f"{self._prefix}-{what}",
            route_table_id=table,
            destination_cidr_block=_EVERYWHERE,
            gateway_id=internet,
            nat_gateway_id=nat,
            opts=self._own,
        )
        self.egress.append(route)

    def _nat_gateways(self, plan: SubnetPlan) -> dict[str, aws.ec2.NatGateway]:
        """By zone, with the public subnets and the way out that they alone need.

        Each is named after its zone: moved to another one, a new gateway with an address of its own is there before
        the old one goes.
        """
        name, tag = self._prefix, self._args.name
        internet = aws.ec2.InternetGateway(f"{name}-internet", vpc_id=self.vpc_id, tags={"Name": tag}, opts=self._own)
        public = {zone: self._subnet("public", zone, plan.public[zone], {}) for zone in self._args.nat_zones}
        table = self._table("public")
        self._route("public", table, internet=internet.id)
        for zone, subnet in public.items():
            self._associate(f"public-{zone}", table, subnet)
        gateways = {}
        for zone, subnet in public.items():
            tags = {"Name": f"{tag}-nat-{zone}"}
            address = aws.ec2.Eip(f"{name}-nat-{zone}", domain="vpc", tags=tags, opts=self._billed)
            gateways[zone] = aws.ec2.NatGateway(
                f"{name}-nat-{zone}",
                allocation_id=address.id,
                subnet_id=subnet,
                tags=tags,
                # EC2 refuses a NAT gateway in a VPC without an internet gateway; neither gives the other a value.
                opts=pulumi.ResourceOptions.merge(self._billed, pulumi.ResourceOptions(depends_on=[internet])),
            )
        return gateways

    def _endpoints(self, tables: Mapping[str, pulumi.Output[str]]) -> None:
        args = self._args
        endpoints = plan_endpoints(nat=args.nat, asked=args.endpoints)
        # A zone's name is its region's and a letter.
        service = f"com.amazonaws.{args.zones.gpu[:-1]}"
        for gateway in endpoints.gateway:
            self.egress.append(
                aws.ec2.VpcEndpoint(
                    f"{self._prefix}-{gateway}",
                    vpc_id=self.vpc_id,
                    service_name=f"{service}.{gateway}",
                    vpc_endpoint_type="Gateway",
                    route_table_ids=list(tables.values()),
                    tags={"Name": f"{args.name}-{gateway}"},
                    opts=self._own,
                )
            )
        if not endpoints.interface:
            return
        group = aws.ec2.SecurityGroup(
            f"{self._prefix}-endpoints",
            description="HTTPS from within the VPC to AWS services",
            vpc_id=self.vpc_id,
            tags={"Name": f"{args.name}-endpoints"},
            opts=self._own,
        ).id
        rule = aws.vpc.SecurityGroupIngressRule(
            f"{self._prefix}-endpoints",
            security_group_id=group,
            description="HTTPS from within the VPC",
            ip_protocol="tcp",
            from_port=443,
            to_port=443,
            cidr_ipv4=args.cidr,
            opts=self._own,
        )
        self.egress.append(rule)
        for interface in endpoints.interface:
            self.egress.append(
                aws.ec2.VpcEndpoint(
                    f"{self._prefix}-{interface.replace('.', '-')}",
                    vpc_id=self.vpc_id,
                    service_name=f"{service}.{interface}",
                    vpc_endpoint_type="Interface",
                    private_dns_enabled=True,
                    subnet_ids=[self.private_subnets[zone] for zone in args.spread],
                    security_group_ids=[group],
                    tags={"Name": f"{args.name}-{interface}"},
                    opts=self._billed,
                )
            )
