"""The registers by which a host runs PPO's accelerator."""

from placerl.primitives.fpga.host import COMMON, Field, Register, RegisterMap
from placerl.primitives.fpga.ppo_accelerator.gradient_norm import PARTS
from placerl.primitives.fpga.ppo_accelerator.step import Step

STEP_WORDS = -(-Step.size // 32)
"""Registers that hold one step of a program."""
BLOCK = Field("block", 0, 16, "Number of the block in the network's weights.")
OWNER = Field("network", 16, 1, "The network, 0 or 1.")

_REGISTERS = (
    *COMMON,
    Register(
        "runs",
        0x0C,
        "rw",
        width=4,
        description="What `start` begins.",
        fields=(
            Field("run_0", 0, description="A run of network 0."),
            Field("run_1", 1, description="A run of network 1."),
            Field("shared_0", 2, description="The run of network 0 is on both units; run_1 must be 0."),
            Field("shared_1", 3, description="The run of network 1 is on both units; run_0 must be 0."),
        ),
    ),
    *(
        Register(
            f"steps_{k}",
            0x10 + 4 * k,
            "rw",
            width=16,
            description=f"The steps of network {k}'s program to run.",
            fields=(
                Field("first", 0, 8, "The first step, from 0."),
                Field("count", 8, 8, "Number of steps; a run of none ends at once."),
            ),
        )
        for k in range(2)
    ),
    *(
        Register(f"cycles_{k}", 0x18 + 4 * k, "ro", description=f"Clock cycles of network {k}'s last run.")
        for k in range(2)
    ),
    *(
        Register(
            f"{name}_{k}",
            address + 4 * k,
            "rw",
            description=f"Adam's {meaning} for network {k}'s next update, in float32.",
        )
        for name, address, meaning in (
            ("rate", 0x20, "step size over 1 - beta1^t"),
            ("root", 0x28, "sqrt(1 - beta2^t)"),
        )
        for k in range(2)
    ),
    Register(
        "store_step",
        0x30,
        "pulse",
        width=18,
        description="Stores the step in step_word_0 and the following registers. Only while status.busy is 0; "
        "otherwise it may be lost.",
        fields=(
            Field("index", 0, 8, "Place in the program, from 0."),
            OWNER,
            Field("store", 17, 1, "Must be 1."),
        ),
    ),
    Register(
        "read_weights",
        0x34,
        "pulse",
        width=18,
        description="Sends a block of weights, a row per transfer, to m_axis_weights. One block at a time: what "
        "is asked for before the last row of a block has been taken may be lost.",
        fields=(BLOCK, OWNER, Field("read", 17, 1, "Must be 1.")),
    ),
    *(
        Register(
            f"step_word_{n}", 0x40 + 4 * n, "rw", description=f"Bits {32 * n} to {32 * n + 31} of a step."
        )
        for n in range(STEP_WORDS)
    ),
)
_CLIPPING = (
    Register(
        "measures",
        0x60,
        "rw",
        width=2,
        description="Which networks' runs sum up the squares of the gradients instead of applying them.",
        fields=tuple(Field(f"measures_{k}", k, description=f"Runs of network {k}.") for k in range(2)),
    ),
    *(
        Register(
            f"scale_{k}",
            0x64 + 4 * k,
            "rw",
            description=f"What other runs of network {k} multiply gradients by, in float32.",
        )
        for k in range(2)
    ),
    *(
        Register(
            f"square_{k}_{part}",
            0x70 + 4 * (PARTS * k + part),
            "ro",
            description=f"Partial sum {part} of the squares of network {k}'s gradients, in float32.",
        )
        for k in range(2)
        for part in range(PARTS)
    ),
)


def registers(*, clips: bool) -> RegisterMap:
    """Return the registers of an accelerator.

    Args:
        clips: whether it clips gradients by their norm.
    """
    described = (*_REGISTERS, *(_CLIPPING if clips else ()))
    return RegisterMap(
        "ppo_accelerator", "Trains a policy and a value network with PPO's accelerator.", described
    )


REGISTERS = registers(clips=False)
