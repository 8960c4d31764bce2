// Products of operands rounded to bfloat16 on the processor's own instructions for them, one table a kind.
#pragma once

#include <cstddef>

#include "learner/native/kernels.hpp"

namespace placerl::learner {

// Floats of workspace that the two kinds need: packed operands, and sums of a block of tiles.
constexpr std::size_t PAIRS_WORKSPACE = 73728;
constexpr std::size_t TILES_WORKSPACE = 74752;

// As `Kernels::multiply_bfloat16`, to the same bits but for the order of the sums.
const Multiplier *avx512bf16_multiplier(); // null where not built or not usable on this processor
const Multiplier *amx_multiplier();        // likewise, and where the system refuses tiles to this process

} // namespace placerl::learner
