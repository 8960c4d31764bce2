"""The mappings that a validation tries on this machine, and the loops in which it runs each of them."""

from collections.abc import Sequence

from placerl.harness.core.errors import UserError
from placerl.harness.loop.schedule import Fusion
from placerl.harness.mapping import Loop
from placerl.harness.mapping import Mapping as Placement
from placerl.harness.mapping.candidates import COMPARED_ONLY
from placerl.harness.mapping.target import CPU, NATIVE
from placerl.harness.pieces.learners import learner_targets
from placerl.harness.pieces.storage import storing_devices
from placerl.harness.profile.cases.rounds import at_storage
from placerl.harness.profile.cases.shared_parts import managers
from placerl.harness.profile.cases.validation_rounds import FPGA, fpga_unavailable_reason
from placerl.harness.runtime import mapped_parts
from placerl.harness.runtime.fusions import fusions
from placerl.harness.runtime.resolve import runs_free
from placerl.harness.workloads import Workload
from placerl.primitives.quantization.precision import FLOAT_32


def mappings(item: Workload, precisions: Sequence[str] = ()) -> list[Placement]:
    """Return every mapping (backends of learner, replay management and storage) that can run on this machine.

    The storage is on the host, or on the device of the learner or of the replay management, because performance
    models choose among these places (`harness.mapping.candidates`). Mappings with the simulated FPGA are last.
    An on-policy algorithm has no replay management to place.

    Args:
        precisions: numeric precisions of the learners in addition to float32, such as "bfloat16".
    """
    of_machine = [mapping for mapping in _of_this_machine(item, precisions) if _can_run(item, mapping)]
    if item.algorithm.name == "ppo" or not item.replay.prioritized or fpga_unavailable_reason():
        return of_machine
    learners = list(dict.fromkeys(mapping.learner for mapping in of_machine))
    rmms = list(dict.fromkeys(mapping.rmm for mapping in of_machine))
    pairs = [(FPGA, rmm) for rmm in rmms] + [(learner, FPGA) for learner in (*learners, FPGA)]
    places = [CPU, FPGA, *dict.fromkeys(mapping.storage for mapping in of_machine if mapping.storage != CPU)]
    return of_machine + [
        Placement(*pair, storage)
        for pair in pairs
        for storage in places
        if storage == CPU or at_storage(pair, storage)
    ]


def unsupported(item: Workload, precisions: Sequence[str] = ()) -> list[Placement]:
    """Return the mappings (backends of learner, replay management and storage) that cannot run the workload.

    They are built from the learners and replay managers of this machine.
    """
    return [mapping for mapping in _of_this_machine(item, precisions) if not _can_run(item, mapping)]


def _of_this_machine(item: Workload, precisions: Sequence[str] = ()) -> list[Placement]:
    on_policy = item.algorithm.name == "ppo"
    rmms = [NATIVE] if on_policy else [rmm for rmm in managers(item) if rmm.backend not in COMPARED_ONLY]
    learners = learner_targets((FLOAT_32, *precisions))
    on_host = [Placement(learner, rmm, CPU) for learner in learners for rmm in rmms]
    if on_policy:
        return on_host
    return on_host + [
        Placement(learner, rmm, storage)
        for storage in storing_devices()
        for learner in learners
        for rmm in rmms
        if at_storage((learner, rmm), storage)
    ]


def _can_run(item: Workload, mapping: Placement) -> bool:
    try:
        mapped_parts.check(item, mapping)
    except UserError:
        return False
    return True


def loops(item: Workload, mapping: Placement) -> tuple[Loop, ...]:
    """Return the forms of the training loop (orders of its calls) in which a mapping is run.

    The fused and the overlapped loop are always among them for an off-policy algorithm. The strict loop is added if
    something can be fused, because it equals the fused loop otherwise, and the relaxed loop if the replay is
    prioritised. Performance models choose for each form among all mappings, so every mapping runs in all of these. The
    concurrent loop is added for the mapping whose parts are all native, if there are cores for it.
    On-policy training runs only in the fused loop.
    """
    if item.algorithm.name == "ppo":
        return (Loop.FUSED,)
    fuses = fusions(item, mapping, 0)[-1] is not Fusion.NONE
    apart = (Loop.STRICT,) if fuses else ()
    managed = (Loop.RELAXED,) if item.replay.prioritized else ()
    free = (Loop.CONCURRENT,) if runs_free(item, mapping) else ()
    return (Loop.FUSED, *apart, Loop.OVERLAPPED, *managed, *free)
