// Smooth max pooling for Python. Every result comes with the positions of the outputs that are still undecided.
#include "halfulp/smooth_max_pool.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "numpy/pooling.hpp"
#include "numpy/results.hpp"

namespace halfulp::bindings {
namespace {

class SmoothOperator {
 public:
  SmoothOperator(const WindowParameters& windows, SmoothBeta beta)
      : op_(windows.operator_name, windows.ndim(), true, sliding(windows),
            [=](std::vector<Axis> axes) { return smooth_plan(std::move(axes), beta); }) {}

  // In `given` if that can be filled as it lies.
  nb::tuple forward(nb::handle input, nb::handle given) const {
    const auto call = op_.begin(op_.take_float(input), given);
    return with_undecided(call.output, [&] { return smooth_forward(*call.plan, call.x.view, call.out); });
  }

  // ((values, undecided), (tangents, undecided))
  nb::tuple jvp(nb::handle input, nb::handle tangent) const {
    InputArray x = op_.take_float(input);
    const InputArray t = op_.take_tangent(tangent, x.view);
    const auto call = op_.begin(std::move(x));
    const OutputArray tangents = op_.allocate(call, call.x.view.dtype);
    const auto undecided =
        run_kernels([&] { return smooth_jvp(*call.plan, call.x.view, t.view, call.out, tangents.view); });
    return nb::make_tuple(nb::make_tuple(call.output.owner, as_array(undecided.first)),
                          nb::make_tuple(tangents.owner, as_array(undecided.second)));
  }

  nb::tuple vjp(nb::handle input, nb::handle cotangent) const {
    const auto call = op_.prepare(op_.take_float(input));
    const ArrayView& x = call.x.view;
    const char* const name = op_.name().c_str();
    const InputArray g = take_matching(cotangent, name, "cotangent", call.shape, x.dtype, "I5");
    check_memory(name, "input", x.shape, x.dtype);
    const OutputArray dx = new_output(x.shape, x.dtype, x);
    return with_undecided(dx, [&] { return smooth_vjp(*call.plan, x, g.view, dx.view); });
  }

 private:
  Pooling<SmoothPlan> op_;
};

std::unique_ptr<SmoothOperator> smooth_max(const WindowParameters& windows, double beta_high, double beta_low,
                                           bool negative) {
  return std::make_unique<SmoothOperator>(windows, SmoothBeta{beta_high, beta_low, negative});
}

}  // namespace

void register_smooth_max_pool(nb::module_& module) {
  nb::class_<SmoothOperator>(module, "SmoothOperator", "A smooth max over windows; each result with what is undecided.")
      .def("forward", &SmoothOperator::forward, nb::arg("x"), nb::arg("out") = nb::none())
      .def("jvp", &SmoothOperator::jvp, nb::arg("x"), nb::arg("tangent"))
      .def("vjp", &SmoothOperator::vjp, nb::arg("x"), nb::arg("cotangent"));
  module.def("smooth_max_pool", &smooth_max, nb::arg("windows"), nb::arg("beta_high"), nb::arg("beta_low"),
             nb::arg("negative"));
}

}  // namespace halfulp::bindings
