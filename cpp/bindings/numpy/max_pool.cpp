// Hard max pooling for Python.
#include "halfulp/max_pool.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "numpy/pooling.hpp"

namespace halfulp::bindings {
namespace {

using Maximum = Pooling<MaxPlan>;

class MaxPullback {
 public:
  MaxPullback(const Maximum& op, const Maximum::Call& call, Winners winners)
      : frame_(op, call), plan_(call.plan), winners_(std::move(winners)) {}

  nb::tuple operator()(nb::handle cotangent) const {
    return nb::make_tuple(frame_.run(
        cotangent, [&](const ArrayView& g, const ArrayView& dx) { max_pullback(*plan_, winners_, g, dx); }));
  }
  Index bytes() const noexcept { return winners_.bytes; }

 private:
  PullbackFrame frame_;
  std::shared_ptr<const MaxPlan> plan_;
  Winners winners_;
};

class MaxOperator {
 public:
  MaxOperator(std::string name, int ndim, MakeAxes make_axes, bool keepdims, Ties ties, NanPolicy nan, Cells cells)
      : op_(name, ndim, keepdims, std::move(make_axes),
            [=](std::vector<Axis> axes) { return MaxPlan(name, std::move(axes), ties, nan, cells); }, DType::i64) {}

  nb::object forward(nb::handle x) const { return forward_into(x, {}); }

  // As forward, in `out` if that can be filled as it lies.
  nb::object forward_into(nb::handle x, nb::handle out) const {
    const Call call = op_.begin(op_.take_any(x), out);
    run_kernels([&] { max_forward(*call.plan, call.x.view, call.out); });
    return call.output.owner;
  }

  nb::tuple forward_with_indices(nb::handle x) const {
    const Call call = op_.begin(op_.take_any(x));
    check_memory(op_.name(), "indices", call.shape, DType::i64);
    const OutputArray indices = op_.allocate(call, DType::i64);
    run_kernels([&] { max_indices(*call.plan, call.x.view, call.out, op_.full(indices.view)); });
    return nb::make_tuple(call.output.owner, indices.owner);
  }

  nb::tuple jvp(nb::handle x, nb::handle tangent) const {
    const Call call = op_.begin(op_.take_float(x));
    const InputArray t = op_.take_tangent(tangent, call.x.view);
    const OutputArray out_tangent = op_.allocate(call, call.x.view.dtype);
    run_kernels([&] { max_jvp(*call.plan, call.x.view, t.view, call.out, op_.full(out_tangent.view)); });
    return nb::make_tuple(call.output.owner, out_tangent.owner);
  }

  nb::tuple vjp(nb::handle x) const {
    const Call call = op_.begin(op_.take_float(x));
    Winners winners = run_kernels([&] { return max_winners(*call.plan, call.x.view, call.out); });
    return nb::make_tuple(call.output.owner, std::make_unique<MaxPullback>(op_, call, std::move(winners)));
  }

 private:
  using Call = Maximum::Call;

  Maximum op_;
};

std::unique_ptr<MaxOperator> sliding_max(const WindowParameters& windows, const std::string& ties,
                                         const std::string& nan, const std::string& cells) {
  return std::make_unique<MaxOperator>(windows.operator_name, windows.ndim(), sliding(windows), true, ties_from(ties),
                                       nan_from(nan), cells_from(cells));
}

std::unique_ptr<MaxOperator> adaptive_max(std::string name, std::vector<Index> output_size, const std::string& ties,
                                          const std::string& nan) {
  const int ndim = static_cast<int>(output_size.size());
  return std::make_unique<MaxOperator>(std::move(name), ndim, adaptive(std::move(output_size)), true, ties_from(ties),
                                       nan_from(nan), Cells::plain);
}

std::unique_ptr<MaxOperator> global_max(std::string name, int ndim, bool keepdims, const std::string& ties,
                                        const std::string& nan, const std::string& cells) {
  return std::make_unique<MaxOperator>(std::move(name), ndim, global_axes, keepdims, ties_from(ties), nan_from(nan),
                                       cells_from(cells));
}

}  // namespace

void register_max_pool(nb::module_& module) {
  nb::class_<MaxPullback>(module, "MaxPullback", "From an output cotangent to a tuple of input cotangents.")
      .def("__call__", &MaxPullback::operator(), nb::arg("cotangent"))
      .def_prop_ro("nbytes", &MaxPullback::bytes, "The bytes that the pullback keeps about the winners.");
  nb::class_<MaxOperator>(module, "MaxOperator", "A hard max over windows, ready to run.")
      .def("forward", &MaxOperator::forward, nb::arg("x"))
      .def("forward_into", &MaxOperator::forward_into, nb::arg("x"), nb::arg("out"))
      .def("forward_with_indices", &MaxOperator::forward_with_indices, nb::arg("x"))
      .def("jvp", &MaxOperator::jvp, nb::arg("x"), nb::arg("tangent"))
      .def("vjp", &MaxOperator::vjp, nb::arg("x"));
  module.def("max_pool", &sliding_max, nb::arg("windows"), nb::arg("ties"), nb::arg("nan"), nb::arg("cells") = "plain");
  module.def("adaptive_max_pool", &adaptive_max, nb::arg("name"), nb::arg("output_size"), nb::arg("ties"),
             nb::arg("nan"));
  module.def("global_max_pool", &global_max, nb::arg("name"), nb::arg("ndim"), nb::arg("keepdims"), nb::arg("ties"),
             nb::arg("nan"), nb::arg("cells") = "plain");
}

}  // namespace halfulp::bindings
