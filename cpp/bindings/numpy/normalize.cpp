// Normalisations for Python. Arrays are dense and C-ordered, of one float type: the layer above sees to it.
#include "halfulp/normalize.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "numpy/results.hpp"

namespace halfulp::bindings {
namespace {

// What all calls have in common. sizes: blocks, groups, inner, channels; flags: joint, per_cell, last.
class Call {
 public:
  Call(const std::string& name, const std::vector<Index>& sizes, const std::vector<bool>& flags, nb::handle x)
      : name_(name), input_(take_float_input(x, name.c_str(), "input")) {
    problem.dtype = input_.view.dtype;
    problem.blocks = sizes.at(0);
    problem.groups = sizes.at(1);
    problem.inner = sizes.at(2);
    problem.channels = sizes.at(3);
    problem.joint = flags.at(0);
    problem.per_cell = flags.at(1);
    problem.last = flags.at(2);
    problem.x = input_.view.data;
  }

  void take(nb::handle array, const void*& position) {
    if (array.is_none()) return;
    held_.push_back(take_float_input(array, name_.c_str(), "input"));
    position = held_.back().view.data;
  }
  // Kept statistics: 8 float64 for each group.
  void take_moments(nb::handle array, bool known) {
    if (array.is_none()) return;
    held_.push_back(take_float_input(array, name_.c_str(), "moments"));
    problem.moments = const_cast<GroupMoments*>(static_cast<const GroupMoments*>(
        static_cast<const void*>(held_.back().view.data)));
    problem.moments_known = known;
  }

  NormProblem problem;

 private:
  std::string name_;
  InputArray input_;
  std::vector<InputArray> held_;
};

// work: 0 value, 1 tangent; arrays: weight, bias, mean, variance, t, d_weight, d_bias.
// (the output, the flat positions that are undecided as int64).
nb::tuple normalize_arrays(const std::string& name, int work, const std::vector<Index>& sizes,
                           const std::vector<bool>& flags, double eps, nb::handle x, nb::list arrays,
                           nb::handle moments, bool known, std::vector<Index> shape) {
  Call call(name, sizes, flags, x);
  NormProblem& problem = call.problem;
  problem.eps = eps;
  problem.work = static_cast<NormWork>(work);
  const void** const fields[] = {&problem.weight, &problem.bias,     &problem.mean,  &problem.variance,
                                 &problem.t,      &problem.d_weight, &problem.d_bias};
  for (std::size_t i = 0; i < std::size(fields); ++i) call.take(arrays[i], *fields[i]);
  call.take_moments(moments, known);
  const OutputArray out = new_output(Sizes(shape), problem.dtype);
  problem.out = out.view.data;
  return with_undecided(out, [&] { return normalize(problem); });
}

// arrays: weight, mean, variance, cotangent. For each of x, weight and bias that is wanted (the result, its undecided
// positions), else None.
nb::tuple pull_back_arrays(const std::string& name, const std::vector<Index>& sizes, const std::vector<bool>& flags,
                           double eps, nb::handle x, nb::list arrays, nb::handle moments, bool known,
                           const std::vector<bool>& wanted, std::vector<Index> shape,
                           std::vector<Index> weight_shape) {
  Call call(name, sizes, flags, x);
  NormProblem& problem = call.problem;
  problem.eps = eps;
  problem.work = NormWork::cotangent;
  const void** const fields[] = {&problem.weight, &problem.mean, &problem.variance, &problem.t};
  for (std::size_t i = 0; i < std::size(fields); ++i) call.take(arrays[i], *fields[i]);
  call.take_moments(moments, known);
  void** const targets[] = {&problem.out, &problem.weight_out, &problem.bias_out};
  OutputArray out[3];
  for (std::size_t i = 0; i < 3; ++i) {
    if (!wanted.at(i)) continue;
    out[i] = new_output(Sizes(i == 0 ? shape : weight_shape), problem.dtype);
    *targets[i] = out[i].view.data;
  }
  const NormUndecided undecided = run_kernels([&] { return normalize_pullback(problem); });
  const std::vector<Index>* const lists[] = {&undecided.x, &undecided.weight, &undecided.bias};
  nb::object results[3];
  for (std::size_t i = 0; i < 3; ++i)
    results[i] = wanted.at(i) ? nb::object(nb::make_tuple(out[i].owner, as_array(*lists[i]))) : nb::none();
  return nb::make_tuple(results[0], results[1], results[2]);
}

// One statistic per group; `squares` for the variance over cells - correction.
nb::tuple statistics_array(const std::string& name, const std::vector<Index>& sizes, const std::vector<bool>& flags,
                           nb::handle x, nb::handle moments, nb::handle old, double momentum, bool squares,
                           Index correction, std::vector<Index> shape) {
  Call call(name, sizes, flags, x);
  NormProblem& problem = call.problem;
  call.take_moments(moments, true);
  call.take(old, problem.old);
  problem.momentum = momentum;
  problem.squares = squares;
  problem.correction = correction;
  const OutputArray out = new_output(Sizes(shape), problem.dtype);
  problem.out = out.view.data;
  return with_undecided(out, [&] { return group_statistics(problem); });
}

}  // namespace

void register_normalize(nb::module_& module) {
  module.def("normalize", &normalize_arrays, nb::arg("name"), nb::arg("work"), nb::arg("sizes"), nb::arg("flags"),
             nb::arg("eps"), nb::arg("x"), nb::arg("arrays"), nb::arg("moments").none(), nb::arg("known"),
             nb::arg("shape"));
  module.def("normalize_pullback", &pull_back_arrays, nb::arg("name"), nb::arg("sizes"), nb::arg("flags"),
             nb::arg("eps"), nb::arg("x"), nb::arg("arrays"), nb::arg("moments").none(), nb::arg("known"),
             nb::arg("wanted"), nb::arg("shape"), nb::arg("weight_shape"));
  module.def("group_statistics", &statistics_array, nb::arg("name"), nb::arg("sizes"), nb::arg("flags"), nb::arg("x"),
             nb::arg("moments").none(), nb::arg("old").none(), nb::arg("momentum"), nb::arg("squares"),
             nb::arg("correction"), nb::arg("shape"));
}

}  // namespace halfulp::bindings
