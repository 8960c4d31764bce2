"""Defines the kinds of rows that the harness measures, one class a kind, with a column for each of its facts.

A column means the same in every kind that has it. What a row does not state is None. The rows of a bench that no claim
reads are declared in the bench's own file, as kinds of `BenchResult`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from placerl.harness.core.row import Row

OURS = "placerl"
"""Name of this project's side in a comparison."""


@dataclass(frozen=True, kw_only=True)
class OnDevice(Row, who="backend", where="device"):
    """A row of something that runs on a device.

    Attributes:
        backend: the implementation, such as "native"; empty if there is none.
        device: "cpu", "cuda:0", "fpga:u200", ...; empty if there is none.
    """

    backend: str = ""
    device: str = ""


@dataclass(frozen=True, kw_only=True)
class PieceTime(OnDevice, table="piece_time"):
    """The time of one call of a primitive on a device.

    Attributes:
        target: the backend and device as a mapping names them.
        items_per_call: items that a call handles.
        mapped: whether mappings use this design of a simulated device.
        state: the state that a learner's steps start from.
        trained_steps: gradient steps before that state.
        replay_capacity: capacity of the replay, where it is smaller than the workload's.
        products: how a learner in bfloat16 multiplies.
        work: operations, bytes moved and bytes held of a call, for the roofline.
        platform: the platform file from which the time is modelled.
        board: the simulated device that stands for "fpga" in a validation.
        cycles: simulated clock cycles of the call.
        clock_mhz, clock_assumed, clock_provenance, clock_source: the clock at which cycles take their time.
        formula, formula_cycles: the paper's formula of the cycles, and what it gives.
        difference_cycles, difference_reasons: cycles beyond the formula, and what they are spent on.
        unit_cycles, pass_cycles, accelerator_cycles: cycles by unit, by pass, and of the whole accelerator.
        banks, banks_bound_by, draws: sub-trees of a replay manager, the resource that bounds them, and the draws.
        pipelines, samples_per_pipeline, lanes, resources: the pipelined learner's design.
        checked: how the design's numbers were checked.
    """

    target: str | None = None
    items_per_call: int | None = None
    mapped: bool | None = None
    state: str | None = None
    trained_steps: int | None = None
    replay_capacity: int | None = None
    products: str | None = None
    fanout: int | None = None
    work: Mapping[str, float] | None = None
    platform: str | None = None
    board: str | None = None
    cycles: int | None = None
    clock_mhz: float | None = None
    clock_assumed: bool | None = None
    clock_provenance: str | None = None
    clock_source: str | None = None
    formula: str | None = None
    formula_cycles: float | None = None
    difference_cycles: float | None = None
    difference_reasons: Mapping[str, float] | None = None
    unit_cycles: Mapping[str, int] | None = None
    pass_cycles: Mapping[str, int] | None = None
    accelerator_cycles: int | None = None
    banks: int | None = None
    banks_bound_by: str | None = None
    draws: int | None = None
    pipelines: int | None = None
    samples_per_pipeline: int | None = None
    lanes: Mapping[str, Sequence[int]] | None = None
    resources: Mapping[str, int] | None = None
    checked: str | None = None


@dataclass(frozen=True, kw_only=True)
class MachinePeak(OnDevice, table="machine_peak"):
    """The peak arithmetic or the copy bandwidth of a device.

    Attributes:
        threads: threads that computed.
        footprint_bytes: bytes of both buffers of a copy.
        precision, products: number format of the arithmetic, and how it multiplies.
        name, compute_units, tf32: the device as its driver names it, its units, and whether it may round to TF32.
        primitives: on a simulated device, the primitive whose design has this peak.
        how: how the peak follows from the design.
        clock_mhz, clock_source: the clock for which it is stated.
        target, board: as in `PieceTime`.
    """

    threads: int | None = None
    footprint_bytes: int | None = None
    precision: str | None = None
    products: str | None = None
    name: str | None = None
    compute_units: int | None = None
    tf32: bool | None = None
    primitives: str | None = None
    how: str | None = None
    clock_mhz: float | None = None
    clock_source: str | None = None
    target: str | None = None
    board: str | None = None


@dataclass(frozen=True, kw_only=True)
class OfStrategy(Row, who="strategy", where="mapping"):
    """A row of a strategy, which predicts and chooses mappings.

    Attributes:
        strategy: the performance model.
        mapping: where learner, replay management and storage run; empty if it could predict or choose none.
        loop: form of the training loop that the strategy describes.
        ran: form of the training loop in which the mapping ran.
        slow_link_us: latency that is assumed in a second prediction for links that state none, in microseconds.
        slow_chosen: whether the mapping would be chosen with it.
    """

    strategy: str
    mapping: str = ""
    loop: str | None = None
    ran: str | None = None
    slow_link_us: float | None = None
    slow_chosen: bool | None = None


@dataclass(frozen=True, kw_only=True)
class PredictedRate(OfStrategy, table="predicted_rate"):
    """The throughput that a strategy predicts for a mapping, and its error where the mapping ran.

    Attributes:
        platform: the platform whose links and cores it knows.
        chosen: whether the strategy chose this mapping, of all that are measured.
        chosen_among: the sets of devices among which it chose this mapping (`harness.mapping.choices`).
        terms_s: predicted seconds per gradient step by term.
        settings: cores and streams that it chooses.
        inputs: provenance of the times from which it is predicted.
        slow_gps: gradient steps per second with `slow_link_us`.
        simulated_device: the simulated device that it may use.
        achieved: what the mapping reached.
        achieved_provenance: provenance of what it reached.
        error, error_low, error_high: predicted / achieved - 1, median over rounds, with its 95% interval.
        error_rounds: the rounds of the error.
        term_errors: error by term.
    """

    platform: str | None = None
    chosen: bool | None = None
    chosen_among: Sequence[str] | None = None
    terms_s: Mapping[str, float] | None = None
    settings: Mapping[str, int] | None = None
    inputs: str | None = None
    slow_gps: float | None = None
    simulated_device: str | None = None
    achieved: float | None = None
    achieved_provenance: str | None = None
    error: float | None = None
    error_low: float | None = None
    error_high: float | None = None
    error_rounds: int | None = None
    term_errors: Mapping[str, float] | None = None


@dataclass(frozen=True, kw_only=True)
class OfMapping(Row, where="mapping"):
    """A row of a training of this project under a mapping.

    Attributes:
        mapping: where learner, replay management and storage ran.
    """

    mapping: str = ""

    @property
    def who(self) -> str:
        """Return this project's name."""
        return OURS


@dataclass(frozen=True, kw_only=True)
class AchievedRate(OfMapping, table="achieved_rate"):
    """The throughput that a mapping reached in a validation.

    Attributes:
        loop: form of the training loop, an order of its calls.
        fusion: which parts of a gradient step ran as one call.
        stepped_by: what stepped the environments: "gymnasium", "native" or "envpool".
        assignment: devices of the learner and of the replay management.
        gradient_steps_per_call: gradient steps in a timed call.
        replay_capacity: capacity of the replay.
        placement: the cores that threads were bound to, as of `TrainingResult`.
        terms_s: seconds per gradient step by term.
        clearly_slower_among: the sets of devices in whose races the mapping was dropped.
        banks: sub-trees of a simulated replay manager.
    """

    loop: str | None = None
    fusion: str | None = None
    stepped_by: str | None = None
    assignment: str | None = None
    gradient_steps_per_call: int | None = None
    replay_capacity: int | None = None
    placement: Mapping[str, Sequence[int]] | None = None
    terms_s: Mapping[str, float] | None = None
    clearly_slower_among: Sequence[str] | None = None
    banks: int | None = None


@dataclass(frozen=True, kw_only=True)
class Overhead(OfMapping, table="overhead"):
    """The time that a training takes beyond its slowest unit, as a fraction.

    Attributes:
        loop: form of the training loop.
        slowest: the slowest unit: "actors" or "gradient steps".
    """

    loop: str | None = None
    slowest: str | None = None


@dataclass(frozen=True, kw_only=True)
class Regret(OfStrategy, table="regret"):
    """The fraction of the best throughput that a strategy's choice loses.

    Attributes:
        devices: the set of devices among which it chose.
        best: the best mapping.
        verdict: "best", "lost" or "no verdict".
        why_no_verdict: why there is none; empty otherwise.
    """

    devices: str | None = None
    best: str | None = None
    verdict: str | None = None
    why_no_verdict: str | None = None


@dataclass(frozen=True, kw_only=True)
class Portability(Row, table="portability", who="system"):
    """PRL's performance portability of a system.

    Attributes:
        system: this project or another library.
        mappings: the best mapping of each choice.
        choices: what the mean is over, such as pairs of devices.
        over: what kind the choices are.
        devices: the set of devices that could be chosen.
        lacking: the choices that the system does not support.
    """

    system: str
    mappings: Sequence[str] | None = None
    choices: Sequence[str] | None = None
    over: str | None = None
    devices: str | None = None
    lacking: Sequence[str] | None = None


@dataclass(frozen=True, kw_only=True)
class TrainingResult(OfMapping, table="training_result"):
    """What a training reached: its throughput, or what it learnt.

    Attributes:
        assignment: devices of the learner and of the replay management.
        fusion: which parts of a gradient step ran as one call.
        stepped_by: what stepped the environments: "gymnasium", "native" or "envpool".
        seed: seed of everything random.
        threads: threads of the learner.
        options: the schedule's options that differ from their defaults.
        placement: the cores that threads were bound to, by kind of thread: "learners", "managers" (of replays) and
            "actors". A core that is listed twice was shared.
        cluster: on a cluster, its actors, shards, learners, machines and restarts.
        banks: sub-trees of a simulated replay manager.
        gradient_steps, environment_steps: steps of the training.
        delay, narrowed: of a learner of precision "dynamic": the steps before it narrows, and whether it did.
        wall_s: seconds of the training.
        terms_s: seconds per gradient step by term.
        watts, counters: median power, and the counters that gave it.
        episode_ends: of a row of returns, the environment step at which each episode ended.
        highs, high_ends: of a row of returns that was saved with some of its episodes: each mean of 20 returns in a row
            that was higher than all before, and the environment step at which the last of these episodes ended.
        mean_of_last: episodes in the mean.
        threshold, episodes: the return to reach, as the mean of this many episodes.
        tried: name of the settings that were tried (`placerl bench settings`); None for the workload's own.
    """

    assignment: str | None = None
    fusion: str | None = None
    stepped_by: str | None = None
    seed: int | None = None
    threads: int | None = None
    options: Mapping[str, Any] | None = None
    placement: Mapping[str, Sequence[int]] | None = None
    cluster: Mapping[str, Any] | None = None
    banks: int | None = None
    gradient_steps: int | None = None
    environment_steps: int | None = None
    delay: int | None = None
    narrowed: bool | None = None
    wall_s: float | None = None
    terms_s: Mapping[str, float] | None = None
    watts: float | None = None
    counters: Sequence[str] | None = None
    episode_ends: Sequence[int] | None = None
    highs: Sequence[float] | None = None
    high_ends: Sequence[int] | None = None
    mean_of_last: int | None = None
    threshold: float | None = None
    episodes: int | None = None
    tried: str | None = None


@dataclass(frozen=True, kw_only=True)
class OfSystem(Row, who="system", where="device"):
    """A row of this project or of another library.

    Attributes:
        system: whose number it is.
        device: device of the networks; a mapping in the rows of `bench-returns`.
        seed: seed of everything random.
        gradient_steps, environment_steps: steps of the training.
        versions: versions of its packages.
        deviations: what it states about itself, such as how it deviates from what was asked.
        last_lines: the last lines that it printed.
    """

    system: str = ""
    device: str = ""
    seed: int | None = None
    gradient_steps: int | None = None
    environment_steps: int | None = None
    versions: Mapping[str, str] | None = None
    deviations: Mapping[str, Any] | None = None
    last_lines: Sequence[str] | None = None


@dataclass(frozen=True, kw_only=True)
class ComparisonResult(OfSystem, table="comparison_result"):
    """A part of a comparison with another library.

    Attributes:
        baseline: the comparison's name for the library, with its conditions.
        part: what the number is of: "ours", "theirs, environment", "throughput_ratio", ...
        mapping: the mapping of this project's side.
        threads: threads of both sides.
        start_s: seconds until the side could train.
        pairs: rounds of the ratio.
        verdict, why_no_verdict: the comparison's verdict, and why there is none.
        returns: the comparison of returns in words.
        rate: the quantity of the ratio, if it is none of gradient steps.
        failure: the kind of a failure.
        seeds, steps_by_seed, episodes_by_seed: of returns, the seeds, environment steps and episodes.
    """

    baseline: str
    part: str | None = None
    mapping: str | None = None
    threads: int | None = None
    start_s: float | None = None
    pairs: int | None = None
    verdict: str | None = None
    why_no_verdict: str | None = None
    returns: str | None = None
    rate: str | None = None
    failure: str | None = None
    seeds: Sequence[int] | None = None
    steps_by_seed: Sequence[int] | None = None
    episodes_by_seed: Sequence[int] | None = None


@dataclass(frozen=True, kw_only=True)
class LearningResult(OfSystem, table="learning_result"):
    """What a system has learnt: of one seed, or the mean over seeds.

    Attributes:
        steps_by_stretch, mean_returns: environment steps and mean return at the end of each stretch.
        wall_s: seconds of the training.
        options: requested settings that this project alone has.
        seeds_trained, seeds_failed: how many.
        stretch, stretches: the stretch with the highest mean, of how many.
        at_least_first: whether a mapping learns as much as the first.
    """

    steps_by_stretch: Sequence[int] | None = None
    mean_returns: Sequence[float | None] | None = None
    wall_s: float | None = None
    options: Mapping[str, Any] | None = None
    seeds_trained: int | None = None
    seeds_failed: int | None = None
    stretch: int | None = None
    stretches: int | None = None
    at_least_first: bool | None = None


@dataclass(frozen=True, kw_only=True)
class LearningCurve(OfSystem, table="learning_curve"):
    """What a training of one seed had learnt at each of its evaluations; the value and samples are those of the last.

    Attributes:
        steps_at: environment steps of each evaluation, with those before learning.
        seconds_at: seconds of training until each evaluation, without the start and without evaluations.
        returns_at: mean return of the greedy episodes of each evaluation.
        start_s: seconds from the start of the process until it learns: imports, compilation, first steps.
        threshold, budget_s: the return to reach and hold, and in how many seconds.
        settings_from: where the system's settings are from.
    """

    steps_at: Sequence[int] | None = None
    seconds_at: Sequence[float] | None = None
    returns_at: Sequence[float] | None = None
    start_s: float | None = None
    threshold: float | None = None
    budget_s: float | None = None
    settings_from: str | None = None


@dataclass(frozen=True, kw_only=True)
class PeakMemory(Row, table="peak_memory"):
    """The peak resident memory of a run, or of one of its cells.

    Attributes:
        of_cell: the cell; None for the whole run.
        since: "cell" if the peak is the cell's own, "process" if it could not be set back.
        held_before_bytes: what the process held when the cell began.
        children_at_most_bytes: what children held at most, where their peak is unknown.
    """

    of_cell: str | None = None
    since: str | None = None
    held_before_bytes: int | None = None
    children_at_most_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Failure(Row, table="failure", who="baselines"):
    """A cell that raised an error, or lacked memory.

    Attributes:
        baselines: the baselines that it needs.
        baseline: the name of the comparison that failed.
    """

    baselines: str = ""
    baseline: str | None = None


@dataclass(frozen=True, kw_only=True)
class ClaimRow(OnDevice, table="claim"):
    """A row of an experiment that a claim reads.

    Attributes:
        experiment: the experiment's name.
        parameters: what distinguishes its rows, by name.
    """

    experiment: str | None = None
    parameters: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class BenchResult(OnDevice):
    """A row of a bench, which derives a kind of its own, with further columns, in the file that declares its cells.

    Attributes:
        null: whether it is the copy of a case that shows the noise.
        threads: threads that computed.
        capacity: leaves of the tree, or rows of the replay.
        version: version of the library.
        pairs: rounds of a ratio.
        against: the case that a ratio compares with.
        goal, reach: the ratio to reach, and the factor by which noise widens the interval that must reach it.
        verdict, why_no_verdict: the comparison's verdict, and why there is none.
    """

    null: bool | None = None
    threads: int | None = None
    capacity: int | None = None
    version: str | None = None
    pairs: int | None = None
    against: str | None = None
    goal: float | None = None
    reach: float | None = None
    verdict: str | None = None
    why_no_verdict: str | None = None


@dataclass(frozen=True, kw_only=True)
class AdapterResult(BenchResult, table="adapter_result"):
    """Training in another library with one of two replays, or the ratio of both.

    Attributes:
        library, algorithm, continuous: the library, its algorithm, and whether the actions are continuous.
        replay: "own" for the library's replay, "ours" for this project's; None in a ratio.
        cores: cores that the process may use.
        note: how the library's own replay differs; empty if it does not.
        own_is_prioritised: whether the library's own replay is prioritised.
    """

    library: str = ""
    algorithm: str = ""
    continuous: bool | None = None
    replay: str | None = None
    cores: int | None = None
    note: str | None = None
    own_is_prioritised: bool | None = None


@dataclass(frozen=True, kw_only=True)
class OtherResult(OnDevice, table="other_result"):
    """A row of another version or of another program.

    Attributes:
        parameters: what distinguishes its rows, by name.
    """

    parameters: Mapping[str, Any] | None = None
