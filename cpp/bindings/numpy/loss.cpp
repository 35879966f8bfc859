// Losses for Python. Arrays are dense and C-ordered, of one float type: the layer above sees to it.
#include "halfulp/loss.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>

#include "numpy/results.hpp"

namespace halfulp::bindings {
namespace {

// The data of arrays that may be None, and what keeps them alive.
template <std::size_t N>
class Held {
 public:
  const void* take(nb::handle array, const std::string& name) {
    if (array.is_none()) return nullptr;
    kept_[count_] = take_input(array, name.c_str(), "input");
    return kept_[count_++].view.data;
  }

 private:
  std::array<InputArray, N> kept_;
  std::size_t count_ = 0;
};

// arrays: x, y, t, s, g, each of (rows, length) but g with `g_by_row`, or None.
// (one number per row, or per cell with `by_cell`; the flat positions that are undecided as int64).
nb::tuple squares_array(const std::string& name, nb::sequence arrays, bool by_cell, bool g_by_row, double factor,
                        double divisor) {
  const InputArray x = take_float_input(arrays[0], name.c_str(), "input");
  Held<4> held;
  SquareProblem problem;
  problem.dtype = x.view.dtype;
  problem.rows = x.view.shape[0];
  problem.length = x.view.shape[1];
  problem.by_cell = by_cell;
  problem.g_by_row = g_by_row;
  problem.factor = factor;
  problem.divisor = divisor;
  problem.x = x.view.data;
  problem.y = held.take(arrays[1], name);
  problem.t = held.take(arrays[2], name);
  problem.s = held.take(arrays[3], name);
  problem.g = held.take(arrays[4], name);
  const OutputArray out = new_output(by_cell ? x.view.shape : Sizes{problem.rows}, problem.dtype);
  problem.out = out.view.data;
  return with_undecided(out, [&] { return squares(problem); });
}

// work: 0 value, 1 tangent, 2 cotangent. arrays: x, target, t, g of the float type, labels (int64), and lead high, lead
// low, base high, base low (float64, one number per class), each but x or None.
nb::tuple cross_entropy_array(const std::string& name, int work, bool by_row, nb::sequence arrays,
                              std::array<double, 2> base_total, std::array<double, 2> scale) {
  const InputArray x = take_float_input(arrays[0], name.c_str(), "input");
  Held<8> held;
  EntropyProblem problem;
  problem.dtype = x.view.dtype;
  problem.rows = x.view.shape[0];
  problem.classes = x.view.shape[1];
  problem.work = static_cast<EntropyWork>(work);
  problem.by_row = by_row;
  problem.x = x.view.data;
  problem.target = held.take(arrays[1], name);
  problem.t = held.take(arrays[2], name);
  problem.g = held.take(arrays[3], name);
  problem.labels = static_cast<const std::int64_t*>(held.take(arrays[4], name));
  problem.lead_high = static_cast<const double*>(held.take(arrays[5], name));
  problem.lead_low = static_cast<const double*>(held.take(arrays[6], name));
  problem.base_high = static_cast<const double*>(held.take(arrays[7], name));
  problem.base_low = static_cast<const double*>(held.take(arrays[8], name));
  std::copy(base_total.begin(), base_total.end(), problem.base_total);
  std::copy(scale.begin(), scale.end(), problem.scale);
  const Sizes shape = work == 2 ? x.view.shape : by_row ? Sizes{problem.rows} : Sizes{1};
  const OutputArray out = new_output(shape, problem.dtype);
  problem.out = out.view.data;
  return with_undecided(out, [&] { return cross_entropy(problem); });
}

}  // namespace

void register_loss(nb::module_& module) {
  module.def("squares", &squares_array, nb::arg("name"), nb::arg("arrays"), nb::arg("by_cell"), nb::arg("g_by_row"),
             nb::arg("factor"), nb::arg("divisor"));
  module.def("cross_entropy", &cross_entropy_array, nb::arg("name"), nb::arg("work"), nb::arg("by_row"),
             nb::arg("arrays"), nb::arg("base_total"), nb::arg("scale"));
}

}  // namespace halfulp::bindings
