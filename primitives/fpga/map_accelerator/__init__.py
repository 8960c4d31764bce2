"""MAP's whole accelerator: prioritised replay, learner pipelines and weight update on one chip (MAP IV, Fig. 3 and 5).

A gradient step, which the sequencer of `accelerator` runs without a host:

| phase | what happens | unit |
|---|---|---|
| draw | B random prefix sums, B leaves of the sum tree; its S banks take S requests per cycle | `ReplayManager` |
| learn | importance weights; samples through DP pipelines; TD errors to new priorities, and into the tree | both |
| update | Adam, target network, new weights in all forward and backward units | `DqnLearner` |

With an actor, the learner is a `DdpgLearner`: the same batch is served once more, for the actor's pass through the new
critic.

Updates of priorities overlap with the learner. States, weights and errors are fixed point (`FORMAT`), sums are exact,
and Adam, priorities and importance weights are float32. The golden model is the tests' `GoldenAccelerator`; it draws
the same random numbers, and is equal bit by bit. Gradients are not clipped (MAP does not mention it).
"""
