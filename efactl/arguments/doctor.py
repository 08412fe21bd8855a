"""The arguments of `efactl doctor`."""

from efactl.arguments.types import add_stack_and_json
from efactl.command import Command

COMMAND = Command(
    name="doctor",
    summary="what an `up` of the stack needs: tools, versions, credentials, rights, settings, room; each with its fix",
    example="efactl doctor -s dev\nefactl doctor --json",
    arguments=add_stack_and_json,
    action="efactl.doctor.command:doctor",
)
