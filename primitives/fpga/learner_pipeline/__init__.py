"""The learner pipeline (MAP IV-B3, Fig. 3): a tensor unit for every step of every layer, joined by FIFOs.

| stage | computes of one sample | unit |
|---|---|---|
| FW, each layer | a_l = f(W_l a_{l-1} + b_l), f = ReLU but for the last layer | `ForwardUnit` |
| LOSS | d_L = a_L - y, the gradient of |a_L - y|^2 / 2 | `LossUnit` |
| BW, each layer but the first | d_{l-1} = f'(a_{l-1}) W_l^T d_l | `BackwardUnit` |
| WA, each layer | the sums of d_l a_{l-1}^T and d_l | `GradientUnit` |
| WU, each layer, once a batch | adds the sums of all pipelines, Adam, new weights to FW and BW | `UpdateUnit` |

DP pipelines take a part of the batch each. Numbers are fixed point (`FORMAT`); sums are exact in 64 bits, rounded to
the nearest (ties upwards) and saturated once. Adam and its moments are float32 (`vector.stream_unit`).
"""
