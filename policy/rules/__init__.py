"""The pack's rules, by theme: plain functions of what a program declares, without an engine."""

from . import capacity, efa, encryption, exposure, pins, pods
from .resources import ResourceRule, StackRule

RESOURCE_RULES: tuple[ResourceRule, ...] = (
    *efa.RESOURCE_RULES,
    *exposure.RESOURCE_RULES,
    *encryption.RESOURCE_RULES,
    *pins.RESOURCE_RULES,
    *pods.RESOURCE_RULES,
    *capacity.RESOURCE_RULES,
)
STACK_RULES: tuple[StackRule, ...] = (*efa.STACK_RULES, *exposure.STACK_RULES, *encryption.STACK_RULES)
