"""The picture of the program's graph: what is gathered into a box, which arrows are drawn, and where it goes."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.diagram import mermaid
from tools.diagram.boxes import Drawing, drawn
from tools.diagram.resources import GraphError, depths, read, reduced

INFRA = "ray-train-efa:infra:"


def urn(type_: str, name: str) -> str:
    return f"urn:pulumi:dev::project::{type_}::{name}"


STACK = urn("pulumi:pulumi:Stack", "project-dev")
FRAME = urn(f"{INFRA}EksRay", "ray")
PROVIDER = urn("pulumi:providers:kubernetes", "provider")
VPC = urn("aws:ec2/vpc:Vpc", "vpc")
SUBNETS = [urn("aws:ec2/subnet:Subnet", f"subnet-{letter}") for letter in "ab"]
CLUSTER = urn("aws:eks/cluster:Cluster", "cluster")
NETWORK, EKS = urn(f"{INFRA}Network", "net"), urn(f"{INFRA}EksCluster", "eks")
NAMESPACE, JOB = urn("kubernetes:core/v1:Namespace", "space"), urn("dynamic/workload:RayTrainJob", "train")


def step(
    this: str, parent: str = STACK, *, after: Sequence[str] = (), made_of: Sequence[str] = (), provider: str = ""
) -> dict[str, Any]:
    type_ = this.split("::")[2]
    return {
        "op": "create",
        "urn": this,
        "newState": {
            "urn": this,
            "type": type_,
            "custom": not type_.startswith((INFRA, "pulumi:pulumi:")),
            "parent": "" if this == STACK else parent,
            "dependencies": [*after, *made_of],
            "propertyDependencies": {"of": [*made_of], "plain": None},
            "provider": f"{provider}::an-id" if provider else "",
        },
    }


STEPS = [
    step(STACK),
    step(FRAME),
    step(NETWORK, FRAME),
    step(VPC, NETWORK, provider=urn("pulumi:providers:aws", "default")),
    *(step(subnet, NETWORK, made_of=[VPC]) for subnet in SUBNETS),
    step(EKS, FRAME),
    step(CLUSTER, EKS, made_of=SUBNETS),
    step(PROVIDER, FRAME, made_of=[CLUSTER]),
    step(NAMESPACE, FRAME, provider=PROVIDER),
    step(JOB, after=[NAMESPACE, VPC]),
]


def drawing(steps: Sequence[Mapping[str, Any]] = STEPS) -> Drawing:
    return drawn(read({"steps": steps}))


def arrows(found: Drawing) -> list[str]:
    titles = {box.urn: box.title for box in found.boxes}
    return [f"{titles[edge.before]} {'->' if edge.carries else '..'} {titles[edge.after]}" for edge in found.edges]


def test_a_component_is_one_box_that_counts_what_it_makes() -> None:
    found = {box.title: box.kinds for box in drawing().boxes}
    assert found["Network"] == (("Vpc", 1), ("Subnet", 2)), "in the order data flows"


def test_boxes_stand_in_the_order_data_flows() -> None:
    assert [box.title for box in drawing().boxes] == ["Network", "EksCluster", "Namespace", "RayTrainJob"]


def test_a_component_that_only_arranges_others_is_a_frame() -> None:
    found = drawing()
    assert found.frames == {FRAME: "EksRay"}
    assert {box.title: box.frames for box in found.boxes} == {
        "Network": (FRAME,),
        "EksCluster": (FRAME,),
        "Namespace": (FRAME,),
        "RayTrainJob": (),
    }


def test_an_arrow_says_whether_a_value_flows_and_what_is_implied_has_none() -> None:
    assert arrows(drawing()) == ["Network -> EksCluster", "EksCluster -> Namespace", "Namespace .. RayTrainJob"]


def test_what_uses_a_provider_waits_for_what_the_provider_waits_for() -> None:
    found = drawing()
    assert "EksCluster -> Namespace" in arrows(found)
    assert PROVIDER not in {box.urn for box in found.boxes}


def test_a_component_inside_a_component_counts_with_it() -> None:
    inner = urn(f"{INFRA}PodRole", "inner")
    steps = [*STEPS, step(inner, NETWORK), step(urn("aws:iam/role:Role", "role"), inner)]
    kinds = {box.title: dict(box.kinds) for box in drawing(steps).boxes}
    assert kinds["Network"] == {"Vpc": 1, "Subnet": 2, "Role": 1}


@given(st.permutations(STEPS))
def test_the_picture_is_the_same_in_whatever_order_the_engine_took_the_resources(steps: list[dict[str, Any]]) -> None:
    assert mermaid.flowchart(drawing(steps)) == mermaid.flowchart(drawing())


def test_a_dependency_on_what_the_preview_lacks_is_named() -> None:
    with pytest.raises(GraphError, match=r"train waits for what the preview does not have: .*::gone"):
        drawing([step(STACK), step(JOB, after=["urn:pulumi:dev::project::a:b:C::gone"])])


def test_components_that_wait_for_each_other_are_named() -> None:
    steps = [*STEPS, step(urn("aws:ec2/route:Route", "route"), NETWORK, after=[CLUSTER])]
    with pytest.raises(GraphError, match=r"wait for each other: .*(::net -> .*::eks|::eks -> .*::net)"):
        drawing(steps)


@pytest.mark.parametrize(
    ("after", "kept"),
    [
        ({"a": "", "b": "a"}, {"a": "", "b": "a"}),
        ({"a": "", "b": "a", "c": "ab"}, {"a": "", "b": "a", "c": "b"}),
        ({"a": "", "b": "a", "c": "a", "d": "abc"}, {"a": "", "b": "a", "c": "a", "d": "bc"}),
        ({"a": "", "b": "a", "c": "b", "d": "c", "e": "ad"}, {"a": "", "b": "a", "c": "b", "d": "c", "e": "d"}),
        ({"e": "ad", "d": "c", "c": "b", "b": "a", "a": ""}, {"a": "", "b": "a", "c": "b", "d": "c", "e": "d"}),
        ({"a": "", "b": "", "c": "ab"}, {"a": "", "b": "", "c": "ab"}),
    ],
)
def test_what_is_waited_for_through_something_else_is_left_out(after: dict[str, str], kept: dict[str, str]) -> None:
    given_ = {node: frozenset(before) for node, before in after.items()}
    assert reduced(given_) == {node: frozenset(before) for node, before in kept.items()}


graphs = st.integers(1, 8).flatmap(
    lambda size: st.tuples(
        *(st.frozensets(st.sampled_from("abcdefgh"[:at]) if at else st.nothing()) for at in range(size))
    )
)


@given(graphs)
def test_what_is_left_out_is_all_that_follows_from_the_rest(after: tuple[frozenset[str], ...]) -> None:
    graph = dict(zip("abcdefgh", after, strict=False))
    kept = reduced(graph)
    assert closure(kept) == closure(graph)
    for node, direct in kept.items():
        for before in direct:
            assert closure({**kept, node: direct - {before}}) != closure(graph), "every arrow that is left is needed"


def closure(after: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for node in sorted(after):
        found[node] = after[node].union(*(found[before] for before in after[node]))
    return found


def test_depth_is_by_the_longest_way() -> None:
    graph = {"a": frozenset[str](), "b": frozenset("a"), "c": frozenset("ab")}
    assert depths(graph) == {"a": 0, "b": 1, "c": 2}


def test_the_flowchart_has_frames_boxes_and_two_kinds_of_arrows() -> None:
    assert mermaid.flowchart(drawing()).splitlines() == [
        "flowchart TD",
        '  subgraph EksRay["EksRay"]',
        '    Network["Network<br>Vpc, 2 Subnet"]',
        '    EksCluster["EksCluster<br>Cluster"]',
        '    Namespace["Namespace"]',
        "  end",
        '  RayTrainJob["RayTrainJob"]',
        "  Network --> EksCluster",
        "  EksCluster --> Namespace",
        "  Namespace -.-> RayTrainJob",
    ]


def test_two_boxes_of_one_title_are_told_apart_by_their_names() -> None:
    steps = [*STEPS, step(urn("kubernetes:core/v1:Namespace", "other-space"), FRAME)]
    chart = mermaid.flowchart(drawing(steps))
    assert '  Namespace_other_space["Namespace"]' in chart
    assert "EksCluster --> Namespace_space" in chart


def test_a_number_stays_on_the_line_of_its_kind() -> None:
    names = [urn("aws:ec2/routeTableAssociation:RouteTableAssociation", f"table-{number}") for number in range(3)]
    chart = mermaid.flowchart(drawing([*STEPS, *(step(name, NETWORK) for name in names)]))
    assert '"Network<br>3 RouteTableAssociation,<br>Vpc, 2 Subnet"' in chart


def test_only_what_is_between_the_markers_is_written() -> None:
    page = f"# Title\n\n{mermaid.BEGIN}\nold\n{mermaid.END}\n\nMore.\n"
    written = mermaid.into(page, drawing())
    assert written.startswith(f"# Title\n\n{mermaid.BEGIN}\n```mermaid\nflowchart TD\n")
    assert written.endswith(f"\n```\n{mermaid.END}\n\nMore.\n")
    assert "old" not in written
    assert mermaid.into(written, drawing()) == written


@pytest.mark.parametrize("page", ["# Title\n", f"{mermaid.BEGIN}\n", f"{mermaid.END}\n{mermaid.BEGIN}\n"])
def test_a_page_without_markers_is_refused(page: str) -> None:
    with pytest.raises(GraphError, match="the page needs the lines"):
        mermaid.into(page, drawing())
