"""Which machines of a cluster hold which roles of a training: a custom resource of Ray's each."""

from dataclasses import dataclass, fields, replace
from typing import Any

from harness.cluster.connection import MACHINE
from harness.core.errors import UserError
from harness.mapping import Mapping

SHARE = 1e-4  # of a machine's resource: the least that Ray counts, so that many roles fit one machine


@dataclass(frozen=True)
class Placement:
    """The custom resource that the machine of each role has to offer.

    Attributes:
        actors: step the environments; on any machine of the cluster by default.
        shards: hold the replay; by default where the mapping's storage is.
        learners: take the gradient steps; by default where the mapping's learner is.
    """

    actors: str = MACHINE
    shards: str = MACHINE
    learners: str = MACHINE

    @classmethod
    def of(cls, mapping: Mapping) -> "Placement":
        """The placement of a mapping's parts.

        A part on the CPU may go to any machine; one on another device to those that offer the resource of the device's
        name, `cuda` say.
        """

        def offered(device: str) -> str:
            return MACHINE if device == "cpu" else device

        return cls(shards=offered(mapping.rmm.device), learners=offered(mapping.learner.device))

    def chosen(self, text: str) -> "Placement":
        """Another placement of some roles.

        Args:
            text: `learners=NAME,shards=NAME`: resources that machines were started with.

        Raises:
            UserError: it is something else.
        """
        roles = [field.name for field in fields(self)]
        made = self
        for part in filter(None, text.split(",")):
            role, _, name = part.strip().partition("=")
            if role not in roles or not name:
                raise UserError("command line", "--place", repr(part), f"ROLE=RESOURCE of {', '.join(roles)}")
            made = replace(made, **{role: name})
        return made

    def resources(self) -> list[str]:
        """What the cluster has to offer."""
        return sorted({self.actors, self.shards, self.learners})

    @staticmethod
    def options(resource: str) -> dict[str, Any]:
        """Ray's options for a role on machines that offer a resource, spread over them."""
        return {"resources": {resource: SHARE}, "scheduling_strategy": "SPREAD"}
