#pragma once

#include <nanobind/nanobind.h>

namespace placerl::quantization {

// Adds the submodule `quantization` to the extension.
void bind_quantization(nanobind::module_ &parent);

} // namespace placerl::quantization
