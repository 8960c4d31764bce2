"""The command `placerl doctor`, which lists the devices of this machine and the backends that it can run."""

from placerl.harness.cli.app import app
from placerl.harness.cli.common import JsonOption, out, print_json
from placerl.harness.cli.machine_tables import show
from placerl.harness.platforms import this_machine

NEXT = {
    "placerl map hopper-ddpg --batch-size 256": "times the primitives here, and chooses what should run where",
    "placerl reproduce --tier quick": "checks predictions by runs, and the papers' claims, in about ten minutes",
}
"""Commands that a new user would type next, with what each does."""


@app.command(epilog="Example: `placerl doctor --json`")
def doctor(as_json: JsonOption = False) -> None:
    """List this machine's devices and links, which backends can run here, and how quiet it is."""
    description = this_machine.describe()
    if as_json:
        print_json(description.to_json())
    else:
        show(description, out)
        out.print("Next:")
        for command, does in NEXT.items():
            out.print(f"  {command:42}{does}", highlight=False)
