"""PPO's whole accelerator: two float32 compute units that train a policy and a value network (PPO 3).

The host computes advantages, losses and their gradients with respect to the networks' outputs (PPO 3.1: "executed on
CPU"). The accelerator does all propagation: forward, backward, weight gradients, and Adam's step.

Every matrix has blocks of P x P in the blocked layout, row by row. A sample is a column:

| matrix | rows | columns | where |
|---|---|---|---|
| W_l, with the biases as its last column | n_l | n_{l-1} + 1 | memory of the network's weights |
| a_l, with a last row of ones | n_l + 1 | M | activations of a unit |
| d_l = dC/dz_l | n_l | M | activations and deltas of a unit |

Rows and columns beyond a matrix are 0. Products (PPO Equations 2 to 4; the row of ones adds the biases and sums their
gradients):

    forward   z_l = W_l a_{l-1}             a_l = f(z_l)
    backward  W_l^T d_l                     d_{l-1} = f'(z_{l-1}) * W_l^T d_l
    weights   dW_l = d_l a_{l-1}^T          W_l <- Adam(W_l, dW_l)

f' is computed from a_l, which equals what PPO computes from z_l: 1 - a^2 of tanh, and [a > 0] of ReLU.
"""
