"""Simulates PPO's training on two compute units: each network on its own unit, or one network on both (PPO 3.3).

For example:

    pair = SimulatedPair(simulation.compiled(UnitPair(side=16)), side=16)
    pair.training_cycles(policy, value, policy_updates=32, value_updates=320, minibatch=512, balanced=True)
"""

from collections.abc import Sequence
from typing import Any

from placerl.primitives.fpga.cycles import gemm
from placerl.primitives.fpga.cycles.load_balancing import UpdateDivision, schedule
from placerl.primitives.fpga.cycles.networks import GemmLayer
from placerl.primitives.fpga.cycles.ppo import PROCESSES, best_dataflows, shapes
from placerl.primitives.fpga.gemm.plan import command_fields
from placerl.primitives.fpga.simulation.base import Simulation
from placerl.primitives.fpga.simulation.ports import columns

Commands = list[dict[str, Any]]


class SimulatedPair:
    """Two simulated compute units, whose cores load stationary blocks at once.

    Args:
        simulated: a simulation of `UnitPair(side=side)`.
    """

    def __init__(self, simulated: Simulation, *, side: int):
        self.side = side
        self._simulation = simulated

    def update(self, layers: Sequence[GemmLayer], batch: int, *, shared: bool = False) -> Commands:
        """Return a unit's commands for one mini-batch update, with the best dataflow for each process.

        Args:
            shared: whether the other unit processes another part of the same mini-batch.

        Returns:
            A list with the fields of each command (`load_balancing.UnitPair`), in order.
        """
        chosen = best_dataflows(layers, batch, side=self.side, product_cycles=gemm.block_load_cycles)
        return [
            {
                "product": {
                    "gemm": command_fields(shape, side=self.side, dataflow=chosen[process]),
                    "transposed_a": int(process != "FW"),
                },
                "updates": int(process == "WU"),
                "shared": int(shared),
            }
            for process in PROCESSES
            for shape in shapes(layers, process, batch)
        ]

    def cycles(self, first: Commands, second: Commands) -> int:
        """Return the cycles until both units have done their commands, which are offered as early as possible.

        Args:
            first, second: commands of unit 0 and of unit 1, as `update` returns them.
        """
        offered = {
            f"commands_{k}": columns(commands) for k, commands in enumerate((first, second)) if commands
        }
        wanted: dict[str | tuple[str, ...], int] = {
            f"finished_{k}": len(commands) for k, commands in enumerate((first, second)) if commands
        }
        run = self._simulation.run(offered, wanted)
        begin = min(int(cycles[0]) for cycles in run.input_cycles.values())
        return max(int(cycles[-1]) for cycles in run.output_cycles.values()) + 1 - begin

    def training_cycles(
        self,
        policy: Sequence[GemmLayer],
        value: Sequence[GemmLayer],
        *,
        policy_updates: int,
        value_updates: int,
        minibatch: int,
        balanced: bool,
    ) -> int:
        """Return the simulated cycles until a policy and a value network have done their updates.

        Args:
            policy_updates, value_updates: number of mini-batch updates of each.
            balanced: whether the rest of the longer training runs on both units, each with half of every mini-batch.
        """
        found = self.schedule(policy, value, policy_updates, value_updates, minibatch)
        if not balanced:
            found = UpdateDivision((policy_updates, value_updates), found.longer, 0)
        networks, half = (policy, value), -(-minibatch // 2)
        shared = self.update(networks[found.longer], half, shared=True) * found.shared
        alone = [
            self.update(layers, minibatch) * updates
            for layers, updates in zip(networks, found.alone, strict=True)
        ]
        return self.cycles(*(commands + shared for commands in alone))

    def schedule(
        self,
        policy: Sequence[GemmLayer],
        value: Sequence[GemmLayer],
        policy_updates: int,
        value_updates: int,
        minibatch: int,
    ) -> UpdateDivision:
        """Return which updates the units do separately and which together.

        The division follows from the simulated cycles of one update of each network.

        Args:
            policy_updates, value_updates: number of mini-batch updates of each.
        """
        of_one = [self.cycles(self.update(layers, minibatch), []) for layers in (policy, value)]
        return schedule(of_one, (policy_updates, value_updates))
