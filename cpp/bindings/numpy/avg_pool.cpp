// The average family for Python: one object per record, which remembers the plans of recent shapes.
#include "halfulp/avg_pool.hpp"
#include "halfulp/integer_average.hpp"
#include "halfulp/max_pool.hpp"
#include "halfulp/present_average.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <functional>
#include <memory>

#include "bindings.hpp"
#include "numpy/array.hpp"
#include "numpy/plan_cache.hpp"

namespace halfulp::bindings {
namespace {

// A view with `count` axes of size 1 at the end, for outputs without their spatial axes.
ArrayView with_unit_axes(const ArrayView& view, int count) {
  ArrayView extended = view;
  for (int i = 0; i < count; ++i) {
    extended.shape.push_back(1);
    extended.strides.push_back(static_cast<Index>(item_size(view.dtype)));
  }
  return extended;
}

// A C-ordered input; axes of size 1 may come with any stride.
InputArray c_ordered(InputArray array) {
  Index step = static_cast<Index>(item_size(array.view.dtype));
  for (int axis = array.view.ndim() - 1; axis >= 0; --axis) {
    array.view.strides[axis] = step;
    step *= array.view.shape[axis];
  }
  return array;
}

constexpr const char* kGiveDType =
    "must be float16, bfloat16, float32 or float64; convert with astype, or give dtype='same' or another dtype";

DType dtype_named(const std::string& name) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (name == name_of(static_cast<DType>(i))) return static_cast<DType>(i);
  throw std::logic_error("halfulp: no element type has this name");
}

class AvgPullback {
 public:
  AvgPullback(std::string name, std::shared_ptr<const AveragePlan> plan, const ArrayView& input, Sizes output_shape,
              bool keepdims)
      : name_(std::move(name)),
        plan_(std::move(plan)),
        input_like_(input),
        output_shape_(output_shape),
        keepdims_(keepdims) {
    input_like_.data = nullptr;  // an average needs nothing of its input but the layout
  }

  // The input's cotangent, or None if the plan has no transpose.
  nb::object operator()(nb::handle cotangent) const {
    const InputArray g = take_matching(cotangent, name_.c_str(), "cotangent", output_shape_, input_like_.dtype, "I5");
    if (!plan_->transpose) return nb::none();
    check_memory(name_, "input", input_like_.shape, input_like_.dtype);
    OutputArray dx = new_output(input_like_.shape, input_like_.dtype, input_like_);
    {
      const KernelScope scope;
      const int ndim = static_cast<int>(plan_->axes.size());
      sum_windows(*plan_->transpose, keepdims_ ? g.view : with_unit_axes(g.view, ndim), dx.view);
    }
    return std::move(dx.owner);
  }

 private:
  std::string name_;
  std::shared_ptr<const AveragePlan> plan_;
  ArrayView input_like_;
  Sizes output_shape_;
  bool keepdims_;
};

// The pullback of sums of magnitudes: it keeps two bits for the sign of each cell.
class SignPullback {
 public:
  SignPullback(std::string name, std::shared_ptr<const AveragePlan> plan, const ArrayView& input, Sizes output_shape,
               bool keepdims)
      : name_(std::move(name)),
        plan_(std::move(plan)),
        input_shape_(input.shape),
        output_shape_(output_shape),
        dtype_(input.dtype),
        keepdims_(keepdims),
        signs_(static_cast<std::uint8_t*>(memory_pool::take(sign_bytes(input.count())))) {
    if (!signs_) throw std::bad_alloc();
  }

  std::uint8_t* signs() const { return signs_.get(); }

  nb::object operator()(nb::handle cotangent) const {
    const InputArray g =
        c_ordered(take_matching(cotangent, name_.c_str(), "cotangent", output_shape_, dtype_, "I5"));
    check_memory(name_, "input", input_shape_, dtype_);
    OutputArray dx = new_output(input_shape_, dtype_);
    {
      const KernelScope scope;
      const int ndim = static_cast<int>(plan_->axes.size());
      sum_signed(plan_->transpose.value(), signs_.get(), keepdims_ ? g.view : with_unit_axes(g.view, ndim), dx.view);
    }
    return std::move(dx.owner);
  }

 private:
  std::string name_;
  std::shared_ptr<const AveragePlan> plan_;
  Sizes input_shape_, output_shape_;
  DType dtype_;
  bool keepdims_;
  std::unique_ptr<std::uint8_t[], Winners::Return> signs_;
};

// The pullback of an average over the cells that are numbers: it keeps which these are, and the windows' divisors.
class PresentPullback {
 public:
  PresentPullback(std::string name, std::shared_ptr<const AveragePlan> plan, Counting counting, const ArrayView& x,
                  Sizes output_shape, bool keepdims)
      : name_(std::move(name)),
        plan_(std::move(plan)),
        input_like_(x),
        output_shape_(output_shape),
        keepdims_(keepdims),
        numbers_(numbers_of(x)),
        divisors_(present_divisors(plan_->axes, counting, x)) {
    input_like_.data = nullptr;
  }

  nb::object operator()(nb::handle cotangent) const {
    const InputArray g = take_matching(cotangent, name_.c_str(), "cotangent", output_shape_, input_like_.dtype, "I5");
    check_memory(name_, "input", input_like_.shape, input_like_.dtype);
    OutputArray dx = new_output(input_like_.shape, input_like_.dtype, input_like_);
    if (input_like_.count() == 0) return std::move(dx.owner);
    {
      const KernelScope scope;
      const ArrayView view = keepdims_ ? g.view : with_unit_axes(g.view, static_cast<int>(plan_->axes.size()));
      spread_present(plan_->axes, divisors_, numbers_, view, dx.view);
    }
    return std::move(dx.owner);
  }

 private:
  std::string name_;
  std::shared_ptr<const AveragePlan> plan_;
  ArrayView input_like_;
  Sizes output_shape_;
  bool keepdims_;
  std::vector<char> numbers_;
  std::vector<Index> divisors_;
};

class AvgOperator {
 public:
  using MakeAxes = std::function<std::vector<Axis>(std::span<const Index>)>;

  AvgOperator(std::string name, int ndim, MakeAxes make_axes, bool keepdims, bool count_include_pad, Index divisor)
      : name_(std::move(name)),
        ndim_(ndim),
        make_axes_(std::move(make_axes)),
        keepdims_(keepdims),
        count_include_pad_(count_include_pad),
        divisor_(divisor) {}

  nb::object forward(nb::handle input) const { return forward_into(input, {}); }

  // As forward, in `out` if that can be filled as it lies.
  nb::object forward_into(nb::handle input, nb::handle out) const {
    Call call = begin(take_float_input(input, name_.c_str(), "input", kGiveDType), out);
    run(call);
    return std::move(call.output.owner);
  }

  // The mean of integers, rounded once to the type of this name; (output, flat index of what does not fit or -1).
  nb::tuple forward_as(nb::handle input, const std::string& dtype, nb::handle out) const {
    const nb::handle given = out.is_none() ? nb::handle() : out;
    Call call = begin(take_input(input, name_.c_str(), "input"), given, dtype_named(dtype));
    if (is_float(call.x.view.dtype)) throw std::logic_error("halfulp: forward_as takes integers");
    Index wrong = -1;
    {
      const KernelScope scope;
      const ArrayView& view = call.output.view;
      wrong = average_integers(name_, call.plan->axes, count_include_pad_, divisor_, call.x.view,
                               keepdims_ ? view : with_unit_axes(view, ndim_));
    }
    return nb::make_tuple(call.output.owner, wrong);
  }

  // The average over the cells that are numbers.
  nb::object present_forward(nb::handle input, nb::handle out) const {
    const nb::handle given = out.is_none() ? nb::handle() : out;
    Call call = begin(take_float_input(input, name_.c_str(), "input"), given);
    average_numbers(call);
    return std::move(call.output.owner);
  }

  nb::tuple present_jvp(nb::handle input, nb::handle tangent) const {
    InputArray x = take_float_input(input, name_.c_str(), "input");
    Call t = begin(take_matching(tangent, name_.c_str(), "tangent", x.view.shape, x.view.dtype, "I4"));
    Call call = begin(std::move(x));
    run(call);
    run(t);
    {
      const KernelScope scope;
      const ArrayView y = spatial(call.output.view), dy = spatial(t.output.view);
      average_present(call.plan->axes, counting(), call.x.view, y, &t.x.view, &dy);
    }
    return nb::make_tuple(call.output.owner, t.output.owner);
  }

  nb::tuple present_vjp(nb::handle input) const {
    Call call = begin(take_float_input(input, name_.c_str(), "input"));
    average_numbers(call);
    return nb::make_tuple(call.output.owner,
                          std::make_unique<PresentPullback>(name_, call.plan, counting(), call.x.view,
                                                            call.output.view.shape, keepdims_));
  }

  // The same of the magnitudes of an input that is C-ordered, here and below.
  nb::object forward_magnitudes(nb::handle input) const {
    Call call = begin(c_ordered(take_float_input(input, name_.c_str(), "input")));
    {
      const KernelScope scope;
      sum_magnitudes(call.plan->forward, call.x.view, spatial(call.output.view));
    }
    return std::move(call.output.owner);
  }

  nb::tuple magnitudes_jvp(nb::handle input, nb::handle tangent) const {
    InputArray x = c_ordered(take_float_input(input, name_.c_str(), "input"));
    Call t = begin(
        c_ordered(take_matching(tangent, name_.c_str(), "tangent", x.view.shape, x.view.dtype, "I4")));
    Call call = begin(std::move(x));
    {
      const KernelScope scope;
      sum_magnitudes_jvp(call.plan->forward, call.x.view, t.x.view, spatial(call.output.view), spatial(t.output.view));
    }
    return nb::make_tuple(call.output.owner, t.output.owner);
  }

  nb::tuple magnitudes_vjp(nb::handle input) const {
    Call call = begin(c_ordered(take_float_input(input, name_.c_str(), "input")));
    auto pullback =
        std::make_unique<SignPullback>(name_, call.plan, call.x.view, call.output.view.shape, keepdims_);
    {
      const KernelScope scope;
      sum_magnitudes(call.plan->forward, call.x.view, spatial(call.output.view), pullback->signs());
    }
    return nb::make_tuple(call.output.owner, std::move(pullback));
  }

  nb::tuple jvp(nb::handle input, nb::handle tangent) const {
    InputArray x = take_float_input(input, name_.c_str(), "input");
    Call t = begin(take_matching(tangent, name_.c_str(), "tangent", x.view.shape, x.view.dtype, "I4"));
    Call call = begin(std::move(x));
    run(call);
    run(t);
    return nb::make_tuple(call.output.owner, t.output.owner);
  }

  nb::tuple vjp(nb::handle input) const {
    Call call = begin(take_float_input(input, name_.c_str(), "input"));
    run(call);
    return nb::make_tuple(call.output.owner, std::make_unique<AvgPullback>(name_, call.plan, call.x.view,
                                                                           call.output.view.shape, keepdims_));
  }

 private:
  struct Call {
    InputArray x;
    std::shared_ptr<const AveragePlan> plan;
    OutputArray output;
  };

  Call begin(InputArray x, nb::handle out = {}, std::optional<DType> target = {}) const {
    check_rank(name_, x.view.shape, ndim_);
    Call call{std::move(x), nullptr, {}};
    const ArrayView& view = call.x.view;
    const std::span<const Index> sizes = view.shape.last(ndim_);
    call.plan = plans_.get(sizes, [&] {
      std::vector<Axis> axes = make_axes_(sizes);
      output_shape(name_, Sizes(sizes), axes, view.dtype);  // possible before anything of its size is made
      check_plan_memory(name_, axes);
      return average_of(std::move(axes), count_include_pad_, divisor_);
    });
    const DType dtype = target.value_or(view.dtype);
    const Sizes shape = output_shape(name_, view.shape, call.plan->axes, dtype);
    if (!out) check_memory(name_, "output", shape, dtype);
    const auto leading = static_cast<std::size_t>(shape.size() - ndim_);
    call.output = keepdims_ ? new_output(shape, dtype, view, out)
                            : new_output(Sizes(shape.span().first(leading)), dtype, out);
    return call;
  }

  Counting counting() const { return {count_include_pad_, divisor_}; }

  ArrayView spatial(const ArrayView& view) const { return keepdims_ ? view : with_unit_axes(view, ndim_); }

  void average_numbers(const Call& call) const {
    const KernelScope scope;
    const ArrayView y = spatial(call.output.view);
    if (average_present_pairs(call.plan->axes, counting(), call.x.view, y)) return;
    sum_windows(call.plan->forward, call.x.view, y);
    average_present(call.plan->axes, counting(), call.x.view, y);
  }

  void run(const Call& call) const {
    const KernelScope scope;
    const ArrayView& out = call.output.view;
    sum_windows(call.plan->forward, call.x.view, keepdims_ ? out : with_unit_axes(out, ndim_));
  }

  std::string name_;
  int ndim_;
  MakeAxes make_axes_;
  bool keepdims_;
  bool count_include_pad_;
  Index divisor_;
  PlanCache<AveragePlan> plans_;
};

std::unique_ptr<AvgOperator> sliding(std::string name, std::vector<Index> kernel, std::vector<Index> stride,
                                     std::vector<Index> before, std::vector<Index> after, const std::string& padding,
                                     std::vector<Index> dilation, bool ceil_mode, bool count_include_pad,
                                     Index divisor) {
  const int ndim = static_cast<int>(kernel.size());
  WindowParameters p{name, std::move(kernel), std::move(stride), std::move(dilation), std::move(before),
                     std::move(after), padding_mode_from(padding), ceil_mode};
  const auto axes = [p = std::move(p)](std::span<const Index> sizes) { return window_axes(p, sizes); };
  return std::make_unique<AvgOperator>(std::move(name), ndim, axes, true, count_include_pad, divisor);
}

std::unique_ptr<AvgOperator> adaptive(std::string name, std::vector<Index> output_size) {
  const int ndim = static_cast<int>(output_size.size());
  const auto axes = [output_size](std::span<const Index> sizes) { return adaptive_axes(sizes, output_size); };
  return std::make_unique<AvgOperator>(std::move(name), ndim, axes, true, false, 0);
}

std::unique_ptr<AvgOperator> global(std::string name, int ndim, bool keepdims, Index divisor) {
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
  module.def("avg_pool", &sliding, nb::arg("name"), nb::arg("kernel"), nb::arg("stride"), nb::arg("before"),
             nb::arg("after"), nb::arg("padding"), nb::arg("dilation"), nb::arg("ceil_mode"),
             nb::arg("count_include_pad"), nb::arg("divisor"));
  module.def("adaptive_avg_pool", &adaptive, nb::arg("name"), nb::arg("output_size"));
  module.def("global_avg_pool", &global, nb::arg("name"), nb::arg("ndim"), nb::arg("keepdims"),
             nb::arg("divisor") = 0);
}

}  // namespace halfulp::bindings
