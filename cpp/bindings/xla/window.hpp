// What the pooling targets of XLA share: windows from a call's attributes, and views with all their spatial axes.
#pragma once

#include <string>
#include <vector>

#include "halfulp/geometry.hpp"
#include "xla/call.hpp"

namespace halfulp::xla {

// The windows that the attributes describe on an input of this shape.
std::vector<Axis> axes_of(const Call& call, const std::string& name, const Sizes& shape);

// An output of a global operator may lack the spatial axes: they are of size 1.
ArrayView with_rank(const ArrayView& view, int rank);

}  // namespace halfulp::xla
