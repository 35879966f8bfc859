// Medians and modes for Python: one object per record, which remembers the windows of recent shapes.
#include "halfulp/order_pool.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "bindings.hpp"
#include "numpy/array.hpp"
#include "numpy/plan_cache.hpp"

namespace halfulp::bindings {
namespace {

using Axes = std::vector<Axis>;

class OrderPullback {
 public:
  OrderPullback(std::string name, std::vector<Index> picks, const ArrayView& input, Sizes output_shape)
      : name_(std::move(name)), picks_(std::move(picks)), input_like_(input), output_shape_(output_shape) {
    input_like_.data = nullptr;
  }

  nb::object operator()(nb::handle cotangent) const {
    const InputArray g = take_matching(cotangent, name_.c_str(), "cotangent", output_shape_, input_like_.dtype, "I5");
    check_memory(name_, "input", input_like_.shape, input_like_.dtype);
    OutputArray dx = new_output(input_like_.shape, input_like_.dtype, input_like_);
    {
      const KernelScope scope;
      order_pull(picks_, g.view, dx.view);
    }
    return std::move(dx.owner);
  }

 private:
  std::string name_;
  std::vector<Index> picks_;
  ArrayView input_like_;
  Sizes output_shape_;
};

class OrderOperator {
 public:
  OrderOperator(WindowParameters parameters, OrderKind kind, bool ignore_nan)
      : parameters_(std::move(parameters)), kind_(kind), ignore_nan_(ignore_nan) {}

  nb::object forward(nb::handle input, nb::handle out) const {
    Call call = begin(take_input(input, name(), "input"), out.is_none() ? nb::handle() : out);
    run(call);
    return std::move(call.output.owner);
  }

  nb::tuple jvp(nb::handle input, nb::handle tangent) const {
    InputArray x = take_float_input(input, name(), "input");
    const InputArray t = take_matching(tangent, name(), "tangent", x.view.shape, x.view.dtype, "I4");
    Call call = begin(std::move(x));
    run(call);
    OutputArray dy = new_output(call.output.view.shape, call.output.view.dtype);
    {
      const KernelScope scope;
      order_push(order_picks(*call.axes, kind_, ignore_nan_, call.x.view), t.view, dy.view);
    }
    return nb::make_tuple(call.output.owner, dy.owner);
  }

  nb::tuple vjp(nb::handle input) const {
    Call call = begin(take_float_input(input, name(), "input"));
    run(call);
    std::vector<Index> picks;
    {
      const KernelScope scope;
      picks = order_picks(*call.axes, kind_, ignore_nan_, call.x.view);
    }
    return nb::make_tuple(call.output.owner, std::make_unique<OrderPullback>(parameters_.operator_name,
                                                                             std::move(picks), call.x.view,
                                                                             call.output.view.shape));
  }

 private:
  struct Call {
    InputArray x;
    std::shared_ptr<const Axes> axes;
    OutputArray output;
  };

  const char* name() const { return parameters_.operator_name.c_str(); }

  Call begin(InputArray x, nb::handle out = {}) const {
    const std::string& operator_name = parameters_.operator_name;
    check_rank(operator_name, x.view.shape, parameters_.ndim());
    Call call{std::move(x), nullptr, {}};
    const ArrayView& view = call.x.view;
    const std::span<const Index> sizes = view.shape.last(parameters_.ndim());
    call.axes = axes_.get(sizes, [&] {
      Axes axes = window_axes(parameters_, sizes);
      output_shape(operator_name, Sizes(sizes), axes, view.dtype);
      check_plan_memory(operator_name, axes);
      return axes;
    });
    const Sizes shape = output_shape(operator_name, view.shape, *call.axes, view.dtype);
    if (!out) check_memory(operator_name, "output", shape, view.dtype);
    call.output = new_output(shape, view.dtype, view, out);
    return call;
  }

  void run(const Call& call) const {
    const KernelScope scope;
    order_pool(*call.axes, kind_, ignore_nan_, call.x.view, call.output.view);
  }

  WindowParameters parameters_;
  OrderKind kind_;
  bool ignore_nan_;
  PlanCache<Axes> axes_;
};

std::unique_ptr<OrderOperator> make(std::string name, std::vector<Index> kernel, std::vector<Index> stride,
                                    std::vector<Index> before, std::vector<Index> after, const std::string& padding,
                                    std::vector<Index> dilation, bool ceil_mode, bool mode, bool ignore_nan) {
  WindowParameters p{std::move(name), std::move(kernel), std::move(stride), std::move(dilation), std::move(before),
                     std::move(after), padding_mode_from(padding), ceil_mode};
  return std::make_unique<OrderOperator>(std::move(p), mode ? OrderKind::mode : OrderKind::median, ignore_nan);
}

}  // namespace

void register_order_pool(nb::module_& module) {
  nb::class_<OrderPullback>(module, "OrderPullback", "From an output cotangent to that of the picked cells.")
      .def("__call__", &OrderPullback::operator(), nb::arg("cotangent"));
  nb::class_<OrderOperator>(module, "OrderOperator", "A median or a mode over windows, ready to run.")
      .def("forward", &OrderOperator::forward, nb::arg("x"), nb::arg("out").none())
      .def("jvp", &OrderOperator::jvp, nb::arg("x"), nb::arg("tangent"))
      .def("vjp", &OrderOperator::vjp, nb::arg("x"));
  module.def("order_pool", &make, nb::arg("name"), nb::arg("kernel"), nb::arg("stride"), nb::arg("before"),
             nb::arg("after"), nb::arg("padding"), nb::arg("dilation"), nb::arg("ceil_mode"), nb::arg("mode"),
             nb::arg("ignore_nan"));
}

}  // namespace halfulp::bindings
