// What bindings give back beside arrays: lists, and the positions that kernels have left undecided.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "numpy/array.hpp"

namespace halfulp::bindings {

template <class T>
nb::object as_array(const std::vector<T>& values) {
  OutputArray array = new_output(Sizes{static_cast<Index>(values.size())}, dtype_of<T>);
  std::copy(values.begin(), values.end(), array.view.as<T>());
  return std::move(array.owner);
}

// (the output, the flat positions that `fill()` leaves undecided as int64).
template <class Fill>
nb::tuple with_undecided(const OutputArray& out, const Fill& fill) {
  const std::vector<Index> undecided = run_kernels(fill);
  return nb::make_tuple(out.owner, as_array(undecided));
}

}  // namespace halfulp::bindings
