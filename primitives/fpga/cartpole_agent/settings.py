"""The sizes and constants of the CartPole agent, and its number formats, for the golden model and the hardware.

A number in the format Qn is an integer that counts steps of 2^-n. All are two's complement and saturate.

| what | bits | format | range |
|---|---|---|---|
| state of the environment, scalar arithmetic | 32 | Q26 | -32 to 32 |
| features, activations, values, TD errors, weights in products | 18 | Q14 | -8 to 8 |
| weights that are trained | 26 | Q22 | -8 to 8 |
| sum of a row's products over a batch | 42 | Q28 | -8,192 to 8,192, never reached by 16 products |
| gradient of a batch, a sum | 26 | Q20 | -32 to 32 |
| momentum | 30 | Q20 | -512 to 512 |
| priority | 16 | Q14 | 0 to 4 |

18 bits are the width of a multiplier of the ECP5.
"""

from dataclasses import dataclass

STATE_BITS, STATE_FRACTION = 32, 26
WORD_BITS, WORD_FRACTION = 18, 14
WEIGHT_BITS, WEIGHT_FRACTION = 26, 22
SUM_BITS = 42
GRADIENT_BITS, GRADIENT_FRACTION = 26, 20
MOMENTUM_BITS = 30
PRIORITY_BITS = 16

STATES, ACTIONS = 4, 2  # cart position and velocity, pole angle and angular velocity; push left or right
BIAS_ROW = STATES
ROWS = STATES + 1 + ACTIONS  # of weights: one for each feature, the bias, one for each action's value
FEATURE_SHIFTS = (12, 12, 9, 12)  # from the state to its feature; the angle is multiplied by 8

ONE = 1 << WORD_FRACTION
DISCOUNT_SHIFT = 7  # gamma = 1 - 2^-7
MOMENTUM_SHIFT = 3  # momentum decays by 2^-3 per gradient step
RATE_SHIFT = 7
"""From momentum (Q20) to a weight's change (Q22), together 2^-9. Momentum is 8 times a mean gradient, so that the
learning rate is 2^-6 for the sum of a batch and 2^-2 for the mean of 16."""
LEAST_PRIORITY = ONE >> 4
FIRST_PRIORITY = ONE + LEAST_PRIORITY  # of a transition that has not been sampled
FANOUT = (
    2  # of the sum tree: a level with more adds several children in one cycle, which takes a slower clock
)

POSITION_LIMIT, ANGLE_LIMIT = 2.4, 0.20943951023931953  # Gymnasium's: beyond either the episode is terminated


@dataclass(frozen=True, kw_only=True)
class AgentSettings:
    """What can be chosen about an agent. The defaults learn CartPole-v1.

    Attributes:
        hidden: hidden neurons, a power of 4. Neuron 0 is constantly 1, so that its weights are the outputs' biases.
        batch: transitions of a gradient step; a power of two, at most 16.
        levels: levels of the sum tree; the replay holds 2^levels transitions.
        warm_steps: environment steps before the first gradient step, at least 1. Then there is one after each step.
        target_period: gradient steps from one copy to the target network to the next; a power of two.
        explore_decay: after each step the probability of a random action decreases by this many 2^-16, from 1.
        explore_last: the decrease ends when the probability is this many 2^-16 or less; at least `explore_decay` - 1.
        episode_steps: steps after which an episode is truncated.
        solved_episodes: learning and exploration stop after this many truncated episodes in a row.
    """

    hidden: int = 16
    batch: int = 16
    levels: int = 12
    warm_steps: int = 256
    target_period: int = 256
    explore_decay: int = 8
    explore_last: int = 1311
    episode_steps: int = 500
    solved_episodes: int = 16

    def __post_init__(self) -> None:
        for name, allowed in (
            ("hidden", (4, 16, 64)),
            ("batch", (1, 2, 4, 8, 16)),
            ("levels", range(1, 15)),
            ("warm_steps", range(1, 1 << 16)),
            ("target_period", [1 << power for power in range(1, 16)]),
            ("explore_decay", range(1, 1 << 16)),
            ("explore_last", range(self.explore_decay - 1, 1 << 16)),
            ("episode_steps", range(1, 1 << 16)),
            ("solved_episodes", range(1, 1 << 8)),
        ):
            if (found := getattr(self, name)) not in allowed:
                text = (
                    f"{allowed[0]} to {allowed[-1]}" if isinstance(allowed, range) else str([*allowed])[1:-1]
                )
                raise ValueError(f"{name}: found {found}; allowed: {text}")

    @property
    def capacity(self) -> int:
        """Number of transitions that the replay holds."""
        return FANOUT**self.levels
