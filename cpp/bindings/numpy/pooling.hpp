// What the bindings of all operators with windows share: the windows, plans of recent shapes, outputs and pullbacks.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "halfulp/geometry.hpp"
#include "numpy/array.hpp"

namespace halfulp::bindings {

// The windows of an operator on planes of these sizes.
using MakeAxes = std::function<std::vector<Axis>(std::span<const Index>)>;

inline MakeAxes sliding(WindowParameters windows) {
  return [windows = std::move(windows)](std::span<const Index> sizes) { return window_axes(windows, sizes); };
}
inline MakeAxes adaptive(std::vector<Index> output_size) {
  return [output_size = std::move(output_size)](std::span<const Index> sizes) {
    return adaptive_axes(sizes, output_size);
  };
}

inline const std::vector<Axis>& axes_of(const std::vector<Axis>& axes) { return axes; }
template <class Plan>
const std::vector<Axis>& axes_of(const Plan& plan) {
  return plan.axes;
}

// The plans of the last few shapes, shared between threads. Bounded: a new one replaces the oldest.
template <class Plan>
class PlanCache {
 public:
  using Pointer = std::shared_ptr<const Plan>;

  // The plan for these sizes, made by `make()` if it is not known.
  template <class Make>
  Pointer get(std::span<const Index> sizes, Make make) const {
    const Sizes key(sizes);
    {
      const std::lock_guard lock(mutex_);
      for (const Entry& entry : entries_)
        if (entry.plan && entry.sizes == key) return entry.plan;
    }
    Pointer plan = std::make_shared<const Plan>(make());
    const std::lock_guard lock(mutex_);
    entries_[next_] = {key, plan};
    next_ = (next_ + 1) % entries_.size();
    return plan;
  }

 private:
  struct Entry {
    Sizes sizes;
    Pointer plan;
  };
  mutable std::mutex mutex_;
  mutable std::array<Entry, 8> entries_;
  mutable std::size_t next_ = 0;
};

// An operator on arrays whose last axes are spatial. Its Python object lives as long as the record is remembered, and
// holds the plans of the shapes that it has met lately.
template <class Plan>
class Pooling {
 public:
  using MakePlan = std::function<Plan(std::vector<Axis>)>;

  // Outputs without `keepdims` lack their spatial axes, which have size 1. `largest` is the widest type of an output,
  // if that is not the input's.
  Pooling(std::string name, int ndim, bool keepdims, MakeAxes make_axes, MakePlan make_plan,
          std::optional<DType> largest = {})
      : name_(std::move(name)),
        ndim_(ndim),
        keepdims_(keepdims),
        make_axes_(std::move(make_axes)),
        make_plan_(std::move(make_plan)),
        largest_(largest) {}

  struct Call {
    InputArray x;
    std::shared_ptr<const Plan> plan;
    Sizes shape;         // of the output with all its spatial axes
    OutputArray output;  // from begin
    ArrayView out;       // the same with all its spatial axes
  };

  const std::string& name() const noexcept { return name_; }
  InputArray take_any(nb::handle input) const { return take_input(input, name_.c_str(), "input"); }
  InputArray take_float(nb::handle input, const char* rule = nullptr) const {
    return take_float_input(input, name_.c_str(), "input", rule);
  }
  InputArray take_tangent(nb::handle tangent, const ArrayView& x) const {
    return take_matching(tangent, name_.c_str(), "tangent", x.shape, x.dtype, "I4");
  }

  // A call without an output.
  Call prepare(InputArray&& x, std::optional<DType> dtype = {}) const {
    check_rank(name_, x.view.shape, ndim_);
    Call call{std::move(x), nullptr, {}, {}, {}};
    const ArrayView& view = call.x.view;
    const std::span<const Index> sizes = view.shape.last(ndim_);
    call.plan = plans_.get(sizes, [&] {
      std::vector<Axis> axes = make_axes_(sizes);
      // The output must be possible before anything of its size is made.
      output_shape(name_, Sizes(sizes), axes, largest_.value_or(view.dtype));
      check_plan_memory(name_, axes);
      return make_plan_(std::move(axes));
    });
    call.shape = output_shape(name_, view.shape, axes_of(*call.plan), largest_.value_or(dtype.value_or(view.dtype)));
    return call;
  }

  // A call whose output, of this type or the input's, is `out` if that can be filled as it lies; None is no array.
  Call begin(InputArray&& x, nb::handle out = {}, std::optional<DType> target = {}) const {
    Call call = prepare(std::move(x), target);
    const bool given = out.is_valid() && !out.is_none();
    const DType dtype = target.value_or(call.x.view.dtype);
    if (!given) check_memory(name_, "output", call.shape, dtype);
    call.output = allocate(call, dtype, given ? out : nb::handle());
    call.out = full(call.output.view);
    return call;
  }

  // An array of the output's shape.
  OutputArray allocate(const Call& call, DType dtype, nb::handle out = {}) const {
    if (keepdims_) return new_output(call.shape, dtype, call.x.view, out);
    const auto leading = static_cast<std::size_t>(call.shape.size() - ndim_);
    return new_output(Sizes(call.shape.span().first(leading)), dtype, out);
  }

  // With all spatial axes.
  ArrayView full(const ArrayView& view) const { return keepdims_ ? view : with_unit_axes(view, ndim_); }
  int dropped_axes() const noexcept { return keepdims_ ? 0 : ndim_; }

 private:
  std::string name_;
  int ndim_;
  bool keepdims_;
  MakeAxes make_axes_;
  MakePlan make_plan_;
  std::optional<DType> largest_;
  PlanCache<Plan> plans_;
};

// What every pullback keeps: the layout of its input, which it does not keep itself, and the shape of its output.
class PullbackFrame {
 public:
  template <class Plan>
  PullbackFrame(const Pooling<Plan>& op, const typename Pooling<Plan>::Call& call)
      : name_(op.name()),
        input_like_(call.x.view),
        output_shape_(call.output.view.shape),
        dropped_axes_(op.dropped_axes()) {
    input_like_.data = nullptr;
  }

  InputArray take(nb::handle cotangent) const {
    return take_matching(cotangent, name_.c_str(), "cotangent", output_shape_, input_like_.dtype, "I5");
  }

  // The input's cotangent, filled by `pull(cotangent with all its spatial axes, cotangent of the input)`.
  template <class Pull>
  nb::object run(nb::handle cotangent, const Pull& pull) const {
    const InputArray g = take(cotangent);
    check_memory(name_, "input", input_like_.shape, input_like_.dtype);
    OutputArray dx = new_output(input_like_.shape, input_like_.dtype, input_like_);
    run_kernels([&] { pull(with_unit_axes(g.view, dropped_axes_), dx.view); });
    return std::move(dx.owner);
  }

 private:
  std::string name_;
  ArrayView input_like_;
  Sizes output_shape_;
  int dropped_axes_;
};

}  // namespace halfulp::bindings
