// Softmax for Python. Arrays are dense and C-ordered, of one float type: the layer above sees to it.
#include "halfulp/softmax.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "numpy/results.hpp"

namespace halfulp::bindings {
namespace {

SoftmaxProblem problem_of(const ArrayView& x, bool logarithm) {
  SoftmaxProblem problem;
  problem.dtype = x.dtype;
  problem.outer = x.shape[0];
  problem.length = x.shape[1];
  problem.inner = x.shape[2];
  problem.logarithm = logarithm;
  problem.x = x.data;
  return problem;
}

// work: 0 value, 1 tangent, 2 cotangent; x and t are (outer, length, inner); `kept` is what softmax_keeping gave.
// (the output, the flat positions that are undecided as int64).
nb::tuple softmax_array(const std::string& name, int work, bool logarithm, nb::handle x, nb::handle t,
                        nb::handle kept) {
  const InputArray input = take_float_input(x, name.c_str(), "input");
  SoftmaxProblem problem = problem_of(input.view, logarithm);
  problem.work = static_cast<SoftmaxWork>(work);
  InputArray along, exponentials;
  if (!kept.is_none()) {
    exponentials = take_float_input(kept, name.c_str(), "kept");
    problem.kept = exponentials.view.as<double>();
  }
  if (!t.is_none()) {
    along = take_float_input(t, name.c_str(), "tangent");
    problem.t = along.view.data;
  }
  const OutputArray out = new_output(input.view.shape, problem.dtype);
  problem.out = out.view.data;
  return with_undecided(out, [&] { return softmax(problem); });
}

// The value, with what pullbacks of x need: (the output, undecided positions, a copy of x if wanted, what is kept).
nb::tuple softmax_keeping(const std::string& name, bool logarithm, nb::handle x, bool copied) {
  const InputArray input = take_float_input(x, name.c_str(), "input");
  SoftmaxProblem problem = problem_of(input.view, logarithm);
  const OutputArray out = new_output(input.view.shape, problem.dtype);
  problem.out = out.view.data;
  OutputArray copy, kept;
  if (copied) {
    copy = new_output(input.view.shape, problem.dtype);
    problem.copy = copy.view.data;
  }
  if (const Index size = softmax_kept_size(problem); size > 0) {
    kept = new_output(Sizes{size}, DType::f64);
    problem.kept = kept.view.as<double>();
  }
  const std::vector<Index> undecided = run_kernels([&] { return softmax(problem); });
  return nb::make_tuple(out.owner, as_array(undecided), copied ? copy.owner : nb::none(),
                        problem.kept == nullptr ? nb::none() : kept.owner);
}

}  // namespace

void register_softmax(nb::module_& module) {
  module.def("softmax", &softmax_array, nb::arg("name"), nb::arg("work"), nb::arg("logarithm"), nb::arg("x"),
             nb::arg("t").none(), nb::arg("kept").none() = nb::none());
  module.def("softmax_keeping", &softmax_keeping, nb::arg("name"), nb::arg("logarithm"), nb::arg("x"),
             nb::arg("copied"));
}

}  // namespace halfulp::bindings
