#pragma once

namespace placerl::environments {

// Environments that step together where a kind can: their numbers stay in the first cache.
constexpr int block = 64;

} // namespace placerl::environments
