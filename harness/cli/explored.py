"""What `placerl explore` explores, and the parameters of the export of what it finds."""

import math

from placerl.harness import workloads
from placerl.harness.core.errors import UserError
from placerl.primitives.fpga.cycles.networks import PPO_NETWORKS, GemmLayer, mlp
from placerl.primitives.fpga.devices import catalogue
from placerl.primitives.fpga.explore import map_replay
from placerl.primitives.fpga.learner_pipeline.layer_shape import WIDEST_LAYER
from placerl.primitives.fpga.map_accelerator.described import described
from placerl.primitives.learner.fpga import pipeline, pipeline_resources

NETWORK_HELP = (
    f"A workload such as hopper-ddpg; {', '.join(PPO_NETWORKS)} (PPO 5.1); or the neurons of an MLP's layers, "
    "inputs first: 11,256,256,3."
)
DEVICE_HELP = f"One of {', '.join(catalogue.catalogue())} (primitives/fpga/devices)."
MOST_NEURONS = 2**14


def explored_accelerator(
    network: str, device: str, *, batch: int, fanout: int, levels: int, leaves: int = 0
) -> dict[str, str]:
    """Return the parameters of `map-accelerator` that the exploration chooses, as texts by name.

    Args:
        network: as for `layers_of`.
        device: key of an FPGA.
        batch: transitions of a batch.
        fanout, levels: K of the replay's tree, and the levels that it would have with one sub-tree.
        leaves: transitions that the replay holds, at most K^levels; 0: K^levels.

    Raises:
        UserError: there is no pipeline for the network's algorithm, none that fits the device, or too many leaves.
    """
    board = explored_device(device)
    found = learner_designs(network, None, batch, board)
    if not found:
        raise UserError(
            "command line", "--explored", network, f"a network whose learner pipeline fits {board.name}"
        )
    if leaves > fanout**levels:
        raise UserError(
            "command line", "leaves", str(leaves), f"0 to {fanout**levels:,} with levels={levels}"
        )
    capacity = leaves or fanout**levels
    banks = map_replay.replay_design(batch, capacity, fanout, board).banks
    while banks * fanout ** (levels - 1) >= capacity and levels > 1:
        levels -= 1
    sizes = {"banks": banks, "levels": levels, "leaves": -(-capacity // banks)}
    chosen = {"pipelines": found[0].pipelines, **sizes}
    return {
        **described(tuple(found[0].networks.values())),
        **{name: str(value) for name, value in chosen.items()},
        "double": str(found[0].double).lower(),
    }


def learner_designs(
    network: str, algorithm: str | None, batch: int, board: catalogue.FpgaDevice
) -> list[pipeline.PipelineDesign]:
    """Return MAP's learner pipelines for a network that fit an FPGA, the fastest first; none if a layer is too wide.

    Args:
        network: as for `layers_of`; of DDPG it is the actor, and the critic has its hidden layers.
        algorithm: "dqn" or "ddpg"; None: the workload's own, or DQN.
        batch: transitions of a batch.

    Raises:
        UserError: there is no pipeline for the algorithm, or the text is not an MLP's neurons.
    """
    own = workloads.load(network).algorithm if network in workloads.names() else None
    if algorithm is None:
        algorithm = own.name if own else "dqn"
    if algorithm not in pipeline.ALGORITHMS:
        raise UserError(
            "command line", "--algorithm", repr(algorithm), ", ".join(pipeline.ALGORITHMS), name=algorithm
        )
    layers = layers_of(network)
    if any(layer.out_size != (1, 1) for layer in layers):
        raise UserError(
            "command line", "NETWORK", repr(network), "an MLP: its pipelines have no convolutions"
        )
    sizes = (layers[0].inputs, *(layer.outputs for layer in layers))
    if algorithm == "dqn":
        networks = {"q": sizes}
    else:
        networks = {"actor": sizes, "critic": (sizes[0] + sizes[-1], *sizes[1:-1], 1)}
    if max(map(max, networks.values())) > WIDEST_LAYER:
        return []
    double = algorithm == "dqn" and own is not None and bool(own.hyperparameters.get("double"))
    return pipeline.designs(networks, batch, pipeline_resources.available(board), double=double)


def layers_of(network: str) -> tuple[GemmLayer, ...]:
    """Return the layers of a network, as matrix products.

    Args:
        network: the name of a workload or of one of the PPO paper's networks, or the numbers of an MLP's neurons,
            separated by commas, inputs first, such as "11,256,256,3". Of an actor and a critic it is the actor.

    Raises:
        UserError: the text is neither.
    """
    if network in PPO_NETWORKS:
        return PPO_NETWORKS[network]
    if network in workloads.names():
        item = workloads.load(network)
        if item.network.kind != "mlp":
            raise UserError("command line", "NETWORK", network, "a workload whose network is an MLP")
        shape = item.environment.observation_shape
        return mlp(math.prod(shape), *item.network.hidden, item.environment.action_size)
    sizes = network.split(",")
    good = all(size.strip().isdecimal() and 1 <= int(size) <= MOST_NEURONS for size in sizes)
    if not good or len(sizes) < 2:
        allowed = (
            f"a workload, {', '.join(PPO_NETWORKS)}, or two or more numbers from 1 to {MOST_NEURONS}, separated by "
            "commas"
        )
        raise UserError("command line", "NETWORK", repr(network), allowed, name=network)
    return mlp(*map(int, sizes))


def explored_device(key: str) -> catalogue.FpgaDevice:
    """Return the FPGA with this key in the catalogue (`primitives/fpga/devices`).

    Raises:
        UserError: there is none.
    """
    if key not in catalogue.catalogue():
        raise UserError("command line", "--device", repr(key), ", ".join(catalogue.catalogue()), name=key)
    return catalogue.device(key)
