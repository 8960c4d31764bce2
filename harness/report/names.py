"""Names the timed operations for people: "replay sample, alongside the learner", not `beside_learner.sample`."""

from placerl.harness.mapping.strategies.pearl24 import IN_STREAMS
from placerl.harness.profile.simulated import IN_PIPELINES

PARTS = {
    "actor.infer": "action inference",
    "environment.step": "environment step",
    "learner.step": "gradient step",
    "learner.pipeline_step": "gradient step in the FPGA's pipeline",
    "fresh_learner.step": "gradient step from a fresh state",
    "storage.gather": "storage gather",
    "storage.insert": "storage insert",
    "sum_tree": "sum tree",
    "sum_tree.banked_insert": "sum tree insert, several sub-trees",
    "sum_tree.banked_sample": "sum tree sample, several sub-trees",
    "sum_tree.banked_update": "sum tree update, several sub-trees",
    "sum_tree.insert": "sum tree insert",
    "sum_tree.sample": "sum tree sample",
    "sum_tree.update": "sum tree update",
}
"""Operations that are timed alone."""
IN_A_LOOP = {
    "collect": "acting",
    "insert": "replay insert",
    "sample": "replay sample",
    "update": "priority update",
    "learn": "gradient step",
    "steps": "gradient steps in one call",
    "gather": "storage gather",
    "write": "storage write",
    "receive": "transitions from the actors",
    "request": "request to the actors",
    "prepare": "advantages and returns",
    "publish": "weights to the actors",
    "runtime": "the loop's own time",
}
"""Parts of a training loop."""
CONDITIONS = {
    "round": "in the loop",
    "cold_round": "in the loop, caches cold",
    "strict_round": "in the strict loop",
    "fused_round": "in the fused loop",
    "native_round": "in rounds of one native call",
    "native_iteration": "in iterations of one native call",
    "overlapped_round": "in the overlapped loop",
    "relaxed_round": "in the relaxed loop",
    "concurrent_round": "in the concurrent loop",
    "resident_round": "in the resident loop",
    "simulated_round": "in the loop, learner and replay simulated",
    "opencl_round": "in the loop, learner and storage on OpenCL",
    "opencl_apart_round": "in the loop, replay and storage on OpenCL",
    "opencl_overlapped_round": "in the overlapped loop, storage on OpenCL",
    "cuda_round": "in the loop, learner and storage on CUDA",
    "cuda_apart_round": "in the loop, replay and storage on CUDA",
    "cuda_overlapped_round": "in the overlapped loop, storage on CUDA",
    "iteration": "in an iteration with processes",
    "beside_actors": "while the actors act",
    "beside_learner": "alongside the learner",
    "beside_replay": "alongside the replay",
}
"""What else runs while a part of a loop is timed."""


def people_s_kind(kind: str) -> str:
    """Return the first part of an operation's name for readers, such as "sum tree" or "in the fused loop"."""
    return CONDITIONS.get(kind, kind.replace("_", " "))


def people_s_name(primitive: str) -> str:
    """Return the name of a timed operation for readers; the stored name if there is no other."""
    if primitive in PARTS:
        return PARTS[primitive]
    if match := IN_STREAMS.fullmatch(primitive):
        return f"{PARTS['learner.step']} in {match['streams']} streams"
    if match := IN_PIPELINES.fullmatch(primitive):
        return f"{PARTS['learner.step']} in {match['streams']} of the FPGA's pipelines"
    where, _, part = primitive.partition(".")
    if where in CONDITIONS and part in IN_A_LOOP:
        return f"{IN_A_LOOP[part]}, {CONDITIONS[where]}"
    return primitive
