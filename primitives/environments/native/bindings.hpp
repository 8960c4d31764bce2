#pragma once

#include <nanobind/nanobind.h>

namespace placerl::environments {

// Adds the submodule `environments` to the extension. Code that works without Python takes a `VectorEnv &`
// from the Python object with nanobind::cast; it is valid while that object lives.
void bind_environments(nanobind::module_ &parent);

} // namespace placerl::environments
