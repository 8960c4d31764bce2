#pragma once

#include <nanobind/nanobind.h>

namespace placerl::training {

// Adds the submodule `training` to the extension.
void bind_training(nanobind::module_ &parent);

} // namespace placerl::training
