"""The registers of MAP's accelerator, from which its hardware, C header and table come."""

from placerl.primitives.fpga.host import COMMON, Field, Register, RegisterMap, float_word
from placerl.primitives.fpga.learner_pipeline.layer_shape import FRACTION


def fraction_word(value: float) -> int:
    """Return the word of a number from 0 to 1 in the format `FRACTION`."""
    return int(FRACTION.from_float(value).raw)


REGISTERS = RegisterMap(
    "map_accelerator",
    "Trains a Q network, or DDPG's actor and critic, with prioritised replay.",
    (
        *COMMON,
        Register("steps", 0x10, "rw", reset=1, description="Gradient steps of a run."),
        Register(
            "batch",
            0x14,
            "rw",
            16,
            reset=32,
            description="B, transitions of a batch: a multiple of DP, from DP to the design's largest batch. It is not "
            "checked; a design whose largest batch is below the reset value needs another one before its first run.",
        ),
        Register(
            "inverse_batch", 0x18, "rw", reset=float_word(1 / 32), description="1 / B, a float32 number."
        ),
        Register(
            "learning_rate",
            0x1C,
            "rw",
            reset=float_word(1e-3),
            description="Adam's step size, of DDPG that of the critic, float32.",
        ),
        Register(
            "gamma",
            0x20,
            "rw",
            reset=fraction_word(0.99),
            description="Discount, with 30 bits after the point.",
        ),
        Register(
            "tau",
            0x24,
            "rw",
            reset=float_word(1),
            description="Fraction by which the target network moves, float32; 1 copies the network.",
        ),
        Register(
            "target_interval",
            0x28,
            "rw",
            reset=1,
            description="Gradient steps between updates of the target network, 1 or more.",
        ),
        Register("alpha", 0x2C, "rw", reset=float_word(0.6), description="Exponent on priorities, float32."),
        Register(
            "beta", 0x30, "rw", reset=float_word(0.4), description="Exponent of importance weights, float32."
        ),
        Register(
            "epsilon", 0x34, "rw", reset=float_word(1e-6), description="Added to a TD error's size, float32."
        ),
        Register(
            "options",
            0x38,
            "rw",
            1,
            reset=1,
            description="Variants of the gradient step.",
            fields=(Field("huber", 0, description="Huber's loss instead of the squared one."),),
        ),
        Register(
            "send",
            0x3C,
            "pulse",
            2,
            description="Sends weights on m_axis_weights. Only while status.busy is 0 and no weights are being sent; "
            "otherwise it is lost. Written as 3 it sends those of the target network alone.",
            fields=(
                Field("weights", 0, description="Those of the trained network."),
                Field("target", 1, description="Those of the target network."),
            ),
        ),
        Register(
            "actor_learning_rate",
            0x4C,
            "rw",
            reset=float_word(1e-4),
            description="Adam's step size for DDPG's actor, float32.",
        ),
        Register("stored", 0x40, "ro", description="Transitions received since the reset."),
        Register("finished_steps", 0x44, "ro", description="Gradient steps finished since the reset."),
        Register(
            "cycles", 0x48, "ro", description="Clock cycles of the last run, or of the present one so far."
        ),
    ),
)
