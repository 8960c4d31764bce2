#pragma once

#include <nanobind/nanobind.h>

namespace placerl::sum_tree {

// Adds the submodule `sum_tree` to the extension.
void bind_sum_tree(nanobind::module_ &parent);

} // namespace placerl::sum_tree
