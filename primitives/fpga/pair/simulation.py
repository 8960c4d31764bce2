"""Simulates PPO's training on two compute units: each network on its own unit, or one network on both (PPO 3.3).

pair = SimulatedPair(side=16)
pair.training_cycles(policy, value, policy_updates=32, value_updates=320, minibatch=512, balanced=True)
"""

from collections.abc import Sequence
from typing import Any

from primitives.fpga import simulation
from primitives.fpga.cycles import gemm
from primitives.fpga.cycles.load_balancing import Schedule, schedule
from primitives.fpga.cycles.networks import GemmLayer
from primitives.fpga.cycles.ppo import PROCESSES, best_dataflows, shapes
from primitives.fpga.gemm.plan import command_fields
from primitives.fpga.pair.load_balancing import UnitPair
from primitives.fpga.simulation.ports import columns

Commands = list[dict[str, Any]]


class SimulatedPair:
    """Two compute units with blocked weight banks, simulated.

    Args:
        side: P.
        engine: `compiled` (Verilator) or `interpreted` (Amaranth's own).
    """

    def __init__(self, *, side: int, engine: str = "compiled"):
        self.side = side
        self._simulation = simulation.engine(engine)(UnitPair(side=side))

    def update(self, layers: Sequence[GemmLayer], batch: int, *, shared: bool = False) -> Commands:
        """Return the commands of one mini-batch update, each process in its best dataflow."""
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
        """Return the cycles until both units have done their commands, which are offered as early as possible."""
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
        """Return the cycles until both networks have done their updates; arguments as
        `cycles.load_balancing.training_cycles`.
        """
        found = self.schedule(policy, value, policy_updates, value_updates, minibatch)
        if not balanced:
            found = Schedule((policy_updates, value_updates), found.longer, 0)
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
    ) -> Schedule:
        """Return which updates the units do separately and which together, from the simulated cycles of one of
        each.
        """
        of_one = [self.cycles(self.update(layers, minibatch), []) for layers in (policy, value)]
        return schedule(of_one, (policy_updates, value_updates))
