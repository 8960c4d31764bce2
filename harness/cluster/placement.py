"""Assigns the roles of a training to machines of a cluster, by one custom resource of Ray per role."""

from dataclasses import dataclass, fields, replace
from typing import Any

from harness.cluster.connection import MACHINE
from harness.core.errors import UserError
from harness.mapping import Mapping

SHARE = 1e-4  # of a machine's resource: Ray's smallest unit, so that many roles fit one machine


@dataclass(frozen=True)
class Placement:
    """The custom resource that the machine of each role must offer.

    Attributes:
        actors: step the environments; by default on any machine of the cluster.
        shards: hold the replay; by default on the machine of the mapping's storage.
        learners: take the gradient steps; by default on the machine of the mapping's learner.
    """

    actors: str = MACHINE
    shards: str = MACHINE
    learners: str = MACHINE

    @classmethod
    def of(cls, mapping: Mapping) -> "Placement":
        """Return the placement of a mapping's parts.

        A part on the CPU may run on any machine. A part on another device runs on machines that offer the
        resource with the device's name, such as `cuda`.
        """

        def offered(device: str) -> str:
            return MACHINE if device == "cpu" else device

        return cls(shards=offered(mapping.rmm.device), learners=offered(mapping.learner.device))

    def chosen(self, text: str) -> "Placement":
        """Return the placement with some roles changed.

        Args:
            text: `learners=NAME,shards=NAME`, with resources that machines were started with.

        Raises:
            UserError: the text has another form.
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
        """Return the resources that the cluster must offer."""
        return sorted({self.actors, self.shards, self.learners})

    @staticmethod
    def options(resource: str) -> dict[str, Any]:
        """Return Ray's options for a role on machines that offer a resource, spread over these machines."""
        return {"resources": {resource: SHARE}, "scheduling_strategy": "SPREAD"}
