"""An agent that learns CartPole on one chip, without a host: environment, actor, prioritised replay and DQN learner.

                     +----------------- sequencer (agent) -----------------+--> reports, steps, episodes,
                     |            starts the units one after another       |    last_return, learning
                     v                                                     v
    xorshift128 --> scalar unit                features              vector unit
    (exploration,   32 x 32 multiply-add   ------------------->  16 lanes, one hidden neuron each:
     initial         - environment step                          18 x 18 multiplier, weights,
     weights and     - initial states           action           target weights, momentum, gradient;
     states,         - prefix sums of       <-------------------  tree of adders; values, TD error
     samples)        |         ^                                   |            ^
                     | prefix  | total                      |error||            | transitions
                     v         |                                   v            |
                    replay pipeline (sum tree, 4,096 leaves) <-----+     replay memory (4,096)
                     +------------------- leaves ------------------------------->+

A step is: evaluate the network, act, store the transition, sample 16 transitions by priority, train with each, update
the weights. The learner is DQN (Mnih et al. 2015) with a network of 4-16-2 and ReLU, a target network, prioritised
replay (Schaul et al. 2016, alpha = 1, beta = 0), and stochastic gradient descent with momentum. The reward is -1 at the
end and else 0, so that values lie in [-1, 0], to which the target's are limited. The agent counts Gymnasium's return,
the steps of an episode. When 16 episodes in a row have reached 500 steps it stops learning and exploring.

`CartPoleAgent` is the hardware, `golden.GoldenAgents` the same in NumPy, bit by bit; `settings` holds the sizes, the
number formats and the hyper-parameters.
"""

from placerl.primitives.fpga.cartpole_agent.agent import CartPoleAgent
from placerl.primitives.fpga.cartpole_agent.settings import AgentSettings

__all__ = ["AgentSettings", "CartPoleAgent"]
