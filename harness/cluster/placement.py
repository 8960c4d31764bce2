"""Decides which machines of a cluster may run the actors, replay shards and learners of a training.

A machine is started with Ray's custom resources, such as `cuda`. Actors, shards and learners each require one of
these resources.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

from placerl.harness.cluster.connection import MACHINE
from placerl.harness.core.errors import UserError
from placerl.harness.mapping import Mapping

SHARE = 1e-4  # of a machine's resource: Ray's smallest unit, so that many roles fit one machine


@dataclass(frozen=True)
class Placement:
    """The Ray resources that a machine must offer to run an actor, a replay shard or a learner.

    Attributes:
        actors: resource for actors, which step the environments; by default any machine of the cluster.
        shards: resource for the shards, which hold the replay; by default any machine.
        learners: resource for the learners, which take the gradient steps; by default any machine.
    """

    actors: str = MACHINE
    shards: str = MACHINE
    learners: str = MACHINE

    @classmethod
    def of(cls, mapping: Mapping) -> "Placement":
        """Return the placement that a mapping (the choice of a backend and device for each part) requires.

        Shards and learners that the mapping assigns to the CPU may run on any machine, as actors always do. If it
        assigns them to another device, they run on machines that offer the resource with the device's name, such
        as `cuda`.
        """

        def offered(device: str) -> str:
            return MACHINE if device == "cpu" else device

        return cls(shards=offered(mapping.rmm.device), learners=offered(mapping.learner.device))

    def chosen(self, text: str) -> "Placement":
        """Return the placement with the resources that a command line option gives.

        Args:
            text: such as `learners=NAME,shards=NAME`, where each NAME is a resource that machines were started with;
                empty to change nothing.

        Raises:
            UserError: the text has another form.
        """
        roles = [field.name for field in fields(self)]
        placement = self
        for part in filter(None, text.split(",")):
            role, _, name = part.strip().partition("=")
            if role not in roles or not name:
                raise UserError("command line", "--place", repr(part), f"ROLE=RESOURCE of {', '.join(roles)}")
            placement = replace(placement, **{role: name})
        return placement

    def resources(self) -> list[str]:
        """Return the resources that machines of the cluster must offer, each once, sorted."""
        return sorted({self.actors, self.shards, self.learners})

    @staticmethod
    def options(resource: str) -> dict[str, Any]:
        """Return Ray's options for actors that may run only on machines with a resource, spread over these machines."""
        return {"resources": {resource: SHARE}, "scheduling_strategy": "SPREAD"}
