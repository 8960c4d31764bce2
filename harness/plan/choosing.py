"""Chooses where the parts of a training run: `placerl.map`."""

from collections.abc import Sequence
from pathlib import Path

from placerl.harness import platforms
from placerl.harness.core.errors import NotRunError, UserError
from placerl.harness.core.revision import RESULTS
from placerl.harness.mapping.answer import MappingAnswer, chosen_of
from placerl.harness.plan.predicting import predictions
from placerl.harness.runtime.program import Program

_TIER = "quick"


def choose_mapping(  # noqa: PLR0913 (the options of a command)
    workload: str | Path | Program,
    *,
    batch_size: int | None = None,
    platform: str | Path = platforms.THIS_MACHINE,
    device: str | None = None,
    precisions: Sequence[str] = (),
    tier: str = _TIER,
    results: str | Path = RESULTS,
    changes: Sequence[str] = (),
    known: Sequence[str | Path] = (),
) -> MappingAnswer:
    """Choose the devices that run learner, replay management and storage, and predict the rate of the training.

    For a workload the answer is that of the command `placerl map` with the same options: times of its parts that the
    store of `results` does not hold are measured, for some minutes, and stored. A program is timed for some seconds,
    and nothing is stored; PRL's composer chooses, as where `placerl.compose` is given no mapping.

        >>> import placerl
        >>> choice = placerl.map("cartpole-ddpg", batch_size=32, platform="map-tpds23")
        >>> choice.mapping, choice.runner_up.mapping
        ('fpga-fpga-fpga', 'fpga-fpga-cpu')

    Args:
        workload: a shipped workload's name, the path of a TOML file, or a program.
        batch_size: transitions per gradient step; None: the workload's own.
        platform: a platform's name, or the path of a TOML file: modelled from published numbers. Or the path of the
            card or bundle of another machine (`placerl card`), which ends in .json: its times are predicted.
        device: name of a device that is added to this machine: a simulated one, such as "fpga:u200", or a GPU of
            another machine that a committed run was measured on, such as "h200", with the simulated FPGA. None: none.
        precisions: number formats in which learners are timed as well as in float32, such as "fixed32".
        tier: how much is measured: "quick", "standard" or "full".
        changes: numbers of the platform to change, such as "link.cpu-gpu.gb_s=32"; of this machine, whose primitives
            are timed, those of its links and memories, and its cores.
        known: paths of bundles, from which a card's times are predicted next to the committed ones.

    Returns:
        The mapping as text, its predicted rate in gradient steps per second with the interval, and the runner-up.

    Raises:
        UserError: there is no such workload, platform, device, precision or tier, two of them exclude each other, or a
            program is given any of them, or cannot be trained.
        NotRunError: no strategy chose a mapping; the message says what each needs.
    """
    if isinstance(workload, Program):
        given = {
            "batch_size": (batch_size, None),
            "platform": (platform, platforms.THIS_MACHINE),
            "device": (device, None),
            "precisions": (tuple(precisions), ()),
            "tier": (tier, _TIER),
            "results": (results, RESULTS),
            "changes": (tuple(changes), ()),
            "known": (tuple(known), ()),
        }
        for name, (value, default) in given.items():
            if value != default:
                raise UserError("map", name, repr(value), "none with a Program, which is timed here as it is")
        return workload.choose().answer()
    try:
        predicted = predictions(
            str(workload),
            batch_size,
            platform=str(platform),
            device=device,
            precisions=precisions,
            tier=tier,
            results=Path(results),
            changes=changes,
            known=[*map(Path, known)],
        )
    except UserError as error:
        raise error.in_python("map") from None
    choice = chosen_of(predicted.rows, predicted.elsewhere)
    if choice is None:
        needs = "; ".join(f"{row.strategy}: {row.reason}" for row in predicted.rows if row.reason)
        raise NotRunError(f"{predicted.workload.name}: no mapping was chosen: {needs}")
    return choice
