"""The learner pipeline (MAP IV-B3, Fig. 3): a hardware unit for every step of every layer, joined by FIFOs.

| stage | computes of one sample | unit |
|---|---|---|
| FW (forward), each layer | a_l = f(W_l a_{l-1} + b_l), f = ReLU but for the last layer | `ForwardUnit` |
| LOSS | d_L = a_L - y, the gradient of the squared error (a_L - y)^2 / 2 | `LossUnit` |
| BW (backward), each layer but the first | d_{l-1} = f'(a_{l-1}) W_l^T d_l | `BackwardUnit` |
| WA (weights' gradients), each layer | the sums of d_l a_{l-1}^T and d_l | `GradientUnit` |
| WU (weight update), each layer, once per batch | the pipelines' sums, Adam, new weights for FW, BW | `UpdateUnit` |

Each of DP pipelines takes a part of the batch. Numbers are fixed point (`FORMAT`); sums are exact in 64 bits, rounded
to the nearest (ties upwards) and saturated once. Adam and its moments are float32 (`vector.stream_unit`).

A sum of 64 bits holds numbers below 2^31, 2^16 times the range of the format, and wraps beyond, before it is saturated.
Sizes alone do not exclude that: two products of the largest numbers suffice. It cannot happen while

- the magnitudes of the weights of each output, with its bias (FW), and of each input (BW), add up to less than 2^16;
- the products of errors and activations of a pipeline's samples add up to less than 2^31 in magnitude (WA).

The golden model refuses sums beyond.
"""
