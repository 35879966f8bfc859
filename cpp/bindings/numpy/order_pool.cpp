// Medians and modes for Python.
#include "halfulp/order_pool.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "numpy/pooling.hpp"
#include "numpy/results.hpp"

namespace halfulp::bindings {
namespace {

using Order = Pooling<std::vector<Axis>>;

class OrderPullback {
 public:
  OrderPullback(const Order& op, const Order::Call& call, std::vector<Index> picks)
      : frame_(op, call), picks_(std::move(picks)) {}

  nb::object operator()(nb::handle cotangent) const {
    return frame_.run(cotangent, [&](const ArrayView& g, const ArrayView& dx) { order_pull(picks_, g, dx); });
  }

 private:
  PullbackFrame frame_;
  std::vector<Index> picks_;
};

class OrderOperator {
 public:
  OrderOperator(const WindowParameters& windows, OrderKind kind, bool ignore_nan)
      : op_(windows.operator_name, windows.ndim(), true, sliding(windows),
            [](std::vector<Axis> axes) { return axes; }),
        kind_(kind),
        ignore_nan_(ignore_nan) {}

  nb::object forward(nb::handle input, nb::handle out) const {
    Call call = op_.begin(op_.take_any(input), out);
    run(call);
    return std::move(call.output.owner);
  }

  nb::tuple jvp(nb::handle input, nb::handle tangent) const {
    InputArray x = op_.take_float(input);
    const InputArray t = op_.take_tangent(tangent, x.view);
    const Call call = op_.begin(std::move(x));
    run(call);
    const OutputArray dy = new_output(call.output.view.shape, call.output.view.dtype);
    run_kernels([&] { order_push(picks(call), t.view, dy.view); });
    return nb::make_tuple(call.output.owner, dy.owner);
  }

  nb::tuple vjp(nb::handle input) const {
    const Call call = op_.begin(op_.take_float(input));
    run(call);
    return nb::make_tuple(call.output.owner,
                          std::make_unique<OrderPullback>(op_, call, run_kernels([&] { return picks(call); })));
  }

 private:
  using Call = Order::Call;

  std::vector<Index> picks(const Call& call) const { return order_picks(*call.plan, kind_, ignore_nan_, call.x.view); }

  void run(const Call& call) const {
    run_kernels([&] { order_pool(*call.plan, kind_, ignore_nan_, call.x.view, call.out); });
  }

  Order op_;
  OrderKind kind_;
  bool ignore_nan_;
};

std::unique_ptr<OrderOperator> order_windows(const WindowParameters& windows, bool mode, bool ignore_nan) {
  return std::make_unique<OrderOperator>(windows, mode ? OrderKind::mode : OrderKind::median, ignore_nan);
}

}  // namespace

void register_order_pool(nb::module_& module) {
  nb::class_<OrderPullback>(module, "OrderPullback", "From an output cotangent to that of the picked cells.")
      .def("__call__", &OrderPullback::operator(), nb::arg("cotangent"));
  nb::class_<OrderOperator>(module, "OrderOperator", "A median or a mode over windows, ready to run.")
      .def("forward", &OrderOperator::forward, nb::arg("x"), nb::arg("out").none())
      .def("jvp", &OrderOperator::jvp, nb::arg("x"), nb::arg("tangent"))
      .def("vjp", &OrderOperator::vjp, nb::arg("x"));
  module.def("order_pool", &order_windows, nb::arg("windows"), nb::arg("mode"), nb::arg("ignore_nan"));
}

}  // namespace halfulp::bindings
