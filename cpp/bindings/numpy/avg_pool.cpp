// The average family for Python.
#include "halfulp/avg_pool.hpp"
#include "halfulp/integer_average.hpp"
#include "halfulp/max_pool.hpp"
#include "halfulp/present_average.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <stdexcept>

#include "numpy/pooling.hpp"

namespace halfulp::bindings {
namespace {

using Average = Pooling<AveragePlan>;

// A view of a C-ordered array, whose axes of size 1 may have come with any stride.
ArrayView c_ordered(ArrayView view) {
  Index step = static_cast<Index>(item_size(view.dtype));
  for (int axis = view.ndim() - 1; axis >= 0; --axis) {
    view.strides[axis] = step;
    step *= view.shape[axis];
  }
  return view;
}
InputArray c_ordered(InputArray array) {
  array.view = c_ordered(array.view);
  return array;
}

constexpr const char* kGiveDType =
    "must be float16, bfloat16, float32 or float64; convert with astype, or give dtype='same' or another dtype";

DType dtype_named(const std::string& name) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (name == name_of(static_cast<DType>(i))) return static_cast<DType>(i);
  throw std::logic_error("halfulp: no element type has this name");
}

// An average needs nothing of its input but the layout.
class AvgPullback {
 public:
  AvgPullback(const Average& op, const Average::Call& call) : frame_(op, call), plan_(call.plan) {}

  // The input's cotangent, or None if the plan has no transpose.
  nb::object operator()(nb::handle cotangent) const {
    if (!plan_->transpose) {
      frame_.take(cotangent);
      return nb::none();
    }
    return frame_.run(cotangent,
                      [&](const ArrayView& g, const ArrayView& dx) { sum_windows(*plan_->transpose, g, dx); });
  }

 private:
  PullbackFrame frame_;
  std::shared_ptr<const AveragePlan> plan_;
};

// The pullback of sums of magnitudes: it keeps two bits for the sign of each cell.
class SignPullback {
 public:
  SignPullback(const Average& op, const Average::Call& call)
      : frame_(op, call),
        plan_(call.plan),
        signs_(static_cast<std::uint8_t*>(memory_pool::take(sign_bytes(call.x.view.count())))) {
    if (!signs_) throw std::bad_alloc();
  }

  std::uint8_t* signs() const { return signs_.get(); }

  nb::object operator()(nb::handle cotangent) const {
    return frame_.run(cotangent, [&](const ArrayView& g, const ArrayView& dx) {
      sum_signed(plan_->transpose.value(), signs_.get(), c_ordered(g), dx);
    });
  }

 private:
  PullbackFrame frame_;
  std::shared_ptr<const AveragePlan> plan_;
  std::unique_ptr<std::uint8_t[], Winners::Return> signs_;
};

// The pullback of an average over the cells that are numbers: it keeps which these are, and the windows' divisors.
class PresentPullback {
 public:
  PresentPullback(const Average& op, const Average::Call& call, Counting counting)
      : frame_(op, call),
        plan_(call.plan),
        numbers_(numbers_of(call.x.view)),
        divisors_(present_divisors(plan_->axes, counting, call.x.view)) {}

  nb::object operator()(nb::handle cotangent) const {
    return frame_.run(cotangent, [&](const ArrayView& g, const ArrayView& dx) {
      if (!numbers_.empty()) spread_present(plan_->axes, divisors_, numbers_, g, dx);
    });
  }

 private:
  PullbackFrame frame_;
  std::shared_ptr<const AveragePlan> plan_;
  std::vector<char> numbers_;
  std::vector<Index> divisors_;
};

class AvgOperator {
 public:
  AvgOperator(std::string name, int ndim, MakeAxes make_axes, bool keepdims, bool count_include_pad, Index divisor)
      : op_(std::move(name), ndim, keepdims, std::move(make_axes),
            [=](std::vector<Axis> axes) { return average_of(std::move(axes), count_include_pad, divisor); }),
        counting_{count_include_pad, divisor} {}

  nb::object forward(nb::handle input) const { return forward_into(input, {}); }

  // As forward, in `out` if that can be filled as it lies.
  nb::object forward_into(nb::handle input, nb::handle out) const {
    Call call = op_.begin(op_.take_float(input, kGiveDType), out);
    run(call);
    return std::move(call.output.owner);
  }

  // The mean of integers, rounded once to the type of this name; (output, flat index of what does not fit or -1).
  nb::tuple forward_as(nb::handle input, const std::string& dtype, nb::handle out) const {
    Call call = op_.begin(op_.take_any(input), out, dtype_named(dtype));
    if (is_float(call.x.view.dtype)) throw std::logic_error("halfulp: forward_as takes integers");
    const Index wrong = run_kernels([&] {
      return average_integers(op_.name(), call.plan->axes, counting_.include_pad, counting_.divisor, call.x.view,
                              call.out);
    });
    return nb::make_tuple(call.output.owner, wrong);
  }

  // The average over the cells that are numbers.
  nb::object present_forward(nb::handle input, nb::handle out) const {
    Call call = op_.begin(op_.take_float(input), out);
    average_numbers(call);
    return std::move(call.output.owner);
  }

  nb::tuple present_jvp(nb::handle input, nb::handle tangent) const {
    const auto [call, t] = begin_two(op_.take_float(input), tangent);
    run(call);
    run(t);
    run_kernels([&] { average_present(call.plan->axes, counting_, call.x.view, call.out, &t.x.view, &t.out); });
    return nb::make_tuple(call.output.owner, t.output.owner);
  }

  nb::tuple present_vjp(nb::handle input) const {
    const Call call = op_.begin(op_.take_float(input));
    average_numbers(call);
    return nb::make_tuple(call.output.owner, std::make_unique<PresentPullback>(op_, call, counting_));
  }

  // The same of the magnitudes of an input that is C-ordered, here and below.
  nb::object forward_magnitudes(nb::handle input) const {
    Call call = op_.begin(c_ordered(op_.take_float(input)));
    run_kernels([&] { sum_magnitudes(call.plan->forward, call.x.view, call.out); });
    return std::move(call.output.owner);
  }

  nb::tuple magnitudes_jvp(nb::handle input, nb::handle tangent) const {
    const auto [call, t] = begin_two(c_ordered(op_.take_float(input)), tangent);
    run_kernels([&] { sum_magnitudes_jvp(call.plan->forward, call.x.view, c_ordered(t.x.view), call.out, t.out); });
    return nb::make_tuple(call.output.owner, t.output.owner);
  }

  nb::tuple magnitudes_vjp(nb::handle input) const {
    const Call call = op_.begin(c_ordered(op_.take_float(input)));
    auto pullback = std::make_unique<SignPullback>(op_, call);
    run_kernels([&] { sum_magnitudes(call.plan->forward, call.x.view, call.out, pullback->signs()); });
    return nb::make_tuple(call.output.owner, std::move(pullback));
  }

  nb::tuple jvp(nb::handle input, nb::handle tangent) const {
    const auto [call, t] = begin_two(op_.take_float(input), tangent);
    run(call);
    run(t);
    return nb::make_tuple(call.output.owner, t.output.owner);
  }

  nb::tuple vjp(nb::handle input) const {
    const Call call = op_.begin(op_.take_float(input));
    run(call);
    return nb::make_tuple(call.output.owner, std::make_unique<AvgPullback>(op_, call));
  }

 private:
  using Call = Average::Call;

  // The calls on an input and on its tangent.
  std::pair<Call, Call> begin_two(InputArray x, nb::handle tangent) const {
    Call t = op_.begin(op_.take_tangent(tangent, x.view));
    return {op_.begin(std::move(x)), std::move(t)};
  }

  void average_numbers(const Call& call) const {
    const KernelScope scope;
    if (average_present_pairs(call.plan->axes, counting_, call.x.view, call.out)) return;
    sum_windows(call.plan->forward, call.x.view, call.out);
    average_present(call.plan->axes, counting_, call.x.view, call.out);
  }

  void run(const Call& call) const {
    run_kernels([&] { sum_windows(call.plan->forward, call.x.view, call.out); });
  }

  Average op_;
  Counting counting_;
};

std::unique_ptr<AvgOperator> sliding_average(const WindowParameters& windows, bool count_include_pad, Index divisor) {
  return std::make_unique<AvgOperator>(windows.operator_name, windows.ndim(), sliding(windows), true,
                                       count_include_pad, divisor);
}

std::unique_ptr<AvgOperator> adaptive_average(std::string name, std::vector<Index> output_size) {
  const int ndim = static_cast<int>(output_size.size());
  return std::make_unique<AvgOperator>(std::move(name), ndim, adaptive(std::move(output_size)), true, false, 0);
}

std::unique_ptr<AvgOperator> global_average(std::string name, int ndim, bool keepdims, Index divisor) {
  return std::make_unique<AvgOperator>(std::move(name), ndim, global_axes, keepdims, false, divisor);
}

}  // namespace

void register_avg_pool(nb::module_& module) {
  nb::class_<AvgPullback>(module, "AvgPullback", "From an output cotangent to the input's; None if it must be exact.")
      .def("__call__", &AvgPullback::operator(), nb::arg("cotangent"));
  nb::class_<SignPullback>(module, "SignPullback", "From an output cotangent to that of cells whose signs are kept.")
      .def("__call__", &SignPullback::operator(), nb::arg("cotangent"));
  nb::class_<PresentPullback>(module, "PresentPullback", "From an output cotangent to that of the cells with numbers.")
      .def("__call__", &PresentPullback::operator(), nb::arg("cotangent"));
  nb::class_<AvgOperator>(module, "AvgOperator", "An average over windows, ready to run.")
      .def("forward", &AvgOperator::forward, nb::arg("x"))
      .def("forward_magnitudes", &AvgOperator::forward_magnitudes, nb::arg("x"))
      .def("magnitudes_jvp", &AvgOperator::magnitudes_jvp, nb::arg("x"), nb::arg("tangent"))
      .def("magnitudes_vjp", &AvgOperator::magnitudes_vjp, nb::arg("x"))
      .def("forward_into", &AvgOperator::forward_into, nb::arg("x"), nb::arg("out"))
      .def("forward_as", &AvgOperator::forward_as, nb::arg("x"), nb::arg("dtype"), nb::arg("out").none())
      .def("present_forward", &AvgOperator::present_forward, nb::arg("x"), nb::arg("out").none())
      .def("present_jvp", &AvgOperator::present_jvp, nb::arg("x"), nb::arg("tangent"))
      .def("present_vjp", &AvgOperator::present_vjp, nb::arg("x"))
      .def("jvp", &AvgOperator::jvp, nb::arg("x"), nb::arg("tangent"))
      .def("vjp", &AvgOperator::vjp, nb::arg("x"));
  module.def("avg_pool", &sliding_average, nb::arg("windows"), nb::arg("count_include_pad"), nb::arg("divisor"));
  module.def("adaptive_avg_pool", &adaptive_average, nb::arg("name"), nb::arg("output_size"));
  module.def("global_avg_pool", &global_average, nb::arg("name"), nb::arg("ndim"), nb::arg("keepdims"),
             nb::arg("divisor") = 0);
}

}  // namespace halfulp::bindings
