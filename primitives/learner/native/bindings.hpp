#pragma once

#include <nanobind/nanobind.h>

namespace placerl::learner {

// Adds the submodule `learner` to the extension.
void bind_learner(nanobind::module_ &parent);

} // namespace placerl::learner
