// Smooth max pooling for Python. Every result comes with the positions of the outputs that are still undecided.
#include "halfulp/smooth_max_pool.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>

#include "bindings.hpp"
#include "numpy/array.hpp"
#include "numpy/plan_cache.hpp"

namespace halfulp::bindings {
namespace {

nb::object as_array(const std::vector<Index>& positions) {
  OutputArray array = new_output(Sizes{static_cast<Index>(positions.size())}, DType::i64);
  std::copy(positions.begin(), positions.end(), array.view.as<Index>());
  return std::move(array.owner);
}

class SmoothOperator {
 public:
  SmoothOperator(WindowParameters parameters, SmoothBeta beta) : parameters_(std::move(parameters)), beta_(beta) {}

  // In `given` if that can be filled as it lies.
  nb::tuple forward(nb::handle input, nb::handle given) const {
    const InputArray x = take_float_input(input, name(), "input");
    const auto plan = plan_of(x.view);
    const OutputArray out = new_output(shape_of(x.view, *plan), x.view.dtype, x.view, given);
    return run(out, [&] { return smooth_forward(*plan, x.view, out.view); });
  }

  // ((values, undecided), (tangents, undecided))
  nb::tuple jvp(nb::handle input, nb::handle tangent) const {
    const InputArray x = take_float_input(input, name(), "input");
    const InputArray t = take_matching(tangent, name(), "tangent", x.view.shape, x.view.dtype, "I4");
    const auto plan = plan_of(x.view);
    const OutputArray out = new_output(shape_of(x.view, *plan), x.view.dtype, x.view);
    const OutputArray out_tangent = new_output(shape_of(x.view, *plan), x.view.dtype, x.view);
    std::pair<std::vector<Index>, std::vector<Index>> undecided;
    {
      const KernelScope scope;
      undecided = smooth_jvp(*plan, x.view, t.view, out.view, out_tangent.view);
    }
    return nb::make_tuple(nb::make_tuple(out.owner, as_array(undecided.first)),
                          nb::make_tuple(out_tangent.owner, as_array(undecided.second)));
  }

  nb::tuple vjp(nb::handle input, nb::handle cotangent) const {
    const InputArray x = take_float_input(input, name(), "input");
    const auto plan = plan_of(x.view);
    const InputArray g =
        take_matching(cotangent, name(), "cotangent", shape_of(x.view, *plan), x.view.dtype, "I5");
    check_memory(parameters_.operator_name, "input", x.view.shape, x.view.dtype);
    const OutputArray dx = new_output(x.view.shape, x.view.dtype, x.view);
    return run(dx, [&] { return smooth_vjp(*plan, x.view, g.view, dx.view); });
  }

 private:
  const char* name() const noexcept { return parameters_.operator_name.c_str(); }

  std::shared_ptr<const SmoothPlan> plan_of(const ArrayView& x) const {
    check_rank(parameters_.operator_name, x.shape, parameters_.ndim());
    const std::span<const Index> sizes = x.shape.last(parameters_.ndim());
    return plans_.get(sizes, [&] {
      std::vector<Axis> axes = window_axes(parameters_, sizes);
      output_shape(parameters_.operator_name, Sizes(sizes), axes, x.dtype);  // possible before anything is made
      check_plan_memory(parameters_.operator_name, axes);
      return smooth_plan(std::move(axes), beta_);
    });
  }

  Sizes shape_of(const ArrayView& x, const SmoothPlan& plan) const {
    Sizes shape = output_shape(parameters_.operator_name, x.shape, plan.axes, x.dtype);
    check_memory(parameters_.operator_name, "output", shape, x.dtype);
    return shape;
  }

  template <class Compute>
  static nb::tuple run(const OutputArray& out, Compute compute) {
    std::vector<Index> undecided;
    {
      const KernelScope scope;
      undecided = compute();
    }
    return nb::make_tuple(out.owner, as_array(undecided));
  }

  WindowParameters parameters_;
  SmoothBeta beta_;
  PlanCache<SmoothPlan> plans_;
};

std::unique_ptr<SmoothOperator> sliding(std::string name, std::vector<Index> kernel, std::vector<Index> stride,
                                        std::vector<Index> before, std::vector<Index> after, const std::string& padding,
                                        std::vector<Index> dilation, bool ceil_mode, double beta_high, double beta_low,
                                        bool negative) {
  WindowParameters p{std::move(name), std::move(kernel), std::move(stride), std::move(dilation), std::move(before),
                     std::move(after), padding_mode_from(padding), ceil_mode};
  return std::make_unique<SmoothOperator>(std::move(p), SmoothBeta{beta_high, beta_low, negative});
}

}  // namespace

void register_smooth_max_pool(nb::module_& module) {
  nb::class_<SmoothOperator>(module, "SmoothOperator", "A smooth max over windows; each result with what is undecided.")
      .def("forward", &SmoothOperator::forward, nb::arg("x"), nb::arg("out") = nb::none())
      .def("jvp", &SmoothOperator::jvp, nb::arg("x"), nb::arg("tangent"))
      .def("vjp", &SmoothOperator::vjp, nb::arg("x"), nb::arg("cotangent"));
  module.def("smooth_max_pool", &sliding, nb::arg("name"), nb::arg("kernel"), nb::arg("stride"), nb::arg("before"),
             nb::arg("after"), nb::arg("padding"), nb::arg("dilation"), nb::arg("ceil_mode"), nb::arg("beta_high"),
             nb::arg("beta_low"), nb::arg("negative"));
}

}  // namespace halfulp::bindings
