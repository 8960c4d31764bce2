#pragma once

#include <nanobind/nanobind.h>

namespace placerl::relaxed {

// Adds the submodule `relaxed` to the extension.
void bind_relaxed(nanobind::module_ &parent);

} // namespace placerl::relaxed
