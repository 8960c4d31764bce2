#pragma once

#include <nanobind/nanobind.h>

namespace placerl::fused {

// Adds the submodule `fused` to the extension.
void bind_fused(nanobind::module_ &parent);

} // namespace placerl::fused
