// Hard max pooling for Python: one object per record, which remembers the plans of recent shapes.
#include "halfulp/max_pool.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <functional>
#include <memory>

#include "bindings.hpp"
#include "numpy/array.hpp"
#include "numpy/plan_cache.hpp"
#include "numpy/policies.hpp"

namespace halfulp::bindings {
namespace {

enum class WindowKind { sliding, adaptive, global };

class MaxPullback {
 public:
  MaxPullback(std::shared_ptr<const MaxPlan> plan, Winners winners, Sizes input_shape, Sizes output_shape, DType dtype,
              bool keepdims)
      : plan_(std::move(plan)),
        winners_(std::move(winners)),
        input_shape_(input_shape),
        output_shape_(output_shape),
        dtype_(dtype),
        keepdims_(keepdims) {}

  nb::tuple operator()(nb::handle cotangent) const;
  Index bytes() const noexcept { return winners_.bytes; }
  // Axes from outermost to innermost in memory: that of the input.
  ArrayView input_like;

 private:
  std::shared_ptr<const MaxPlan> plan_;
  Winners winners_;
  Sizes input_shape_, output_shape_;
  DType dtype_;
  bool keepdims_;
};

// A view with `count` axes of size 1 at the end, for outputs without their spatial axes.
ArrayView with_unit_axes(const ArrayView& view, int count) {
  ArrayView extended = view;
  for (int i = 0; i < count; ++i) {
    extended.shape.push_back(1);
    extended.strides.push_back(0);
  }
  return extended;
}

class MaxOperator {
 public:
  MaxOperator(WindowKind kind, WindowParameters parameters, std::vector<Index> output_sizes, bool keepdims, Ties ties,
              NanPolicy nan, Cells cells)
      : kind_(kind),
        parameters_(std::move(parameters)),
        output_sizes_(std::move(output_sizes)),
        keepdims_(keepdims),
        ties_(ties),
        nan_(nan),
        cells_(cells) {}

  nb::object forward(nb::handle x) const { return forward_into(x, {}); }

  // As forward, in `out` if that can be filled as it lies.
  nb::object forward_into(nb::handle x, nb::handle out) const {
    const Call call = begin(x, false, out);
    {
      const KernelScope scope;
      max_forward(*call.plan, call.x.view, call.out);
    }
    return call.output.owner;
  }

  nb::tuple forward_with_indices(nb::handle x) const {
    const Call call = begin(x, false);
    check_memory(parameters_.operator_name, "indices", call.shape, DType::i64);
    const OutputArray indices = allocate(call, DType::i64);
    {
      const KernelScope scope;
      max_indices(*call.plan, call.x.view, call.out, full(call, indices.view));
    }
    return nb::make_tuple(call.output.owner, indices.owner);
  }

  nb::tuple jvp(nb::handle x, nb::handle tangent) const {
    const Call call = begin(x, true);
    const InputArray t =
        take_matching(tangent, name(), "tangent", call.x.view.shape, call.x.view.dtype, "I4");
    const OutputArray out_tangent = allocate(call, call.x.view.dtype);
    {
      const KernelScope scope;
      max_jvp(*call.plan, call.x.view, t.view, call.out, full(call, out_tangent.view));
    }
    return nb::make_tuple(call.output.owner, out_tangent.owner);
  }

  nb::tuple vjp(nb::handle x) const {
    const Call call = begin(x, true);
    Winners winners;
    {
      const KernelScope scope;
      winners = max_winners(*call.plan, call.x.view, call.out);
    }
    auto pullback = std::make_unique<MaxPullback>(call.plan, std::move(winners), call.x.view.shape,
                                                  call.output.view.shape, call.x.view.dtype, keepdims_);
    pullback->input_like = call.x.view;
    pullback->input_like.data = nullptr;  // the input itself is not kept
    return nb::make_tuple(call.output.owner, nb::cast(std::move(pullback)));
  }

 private:
  struct Call {
    InputArray x;
    std::shared_ptr<const MaxPlan> plan;
    OutputArray output;
    ArrayView out;  // with all its spatial axes
    Sizes shape;    // of the output with all its spatial axes
  };

  const char* name() const noexcept { return parameters_.operator_name.c_str(); }

  Call begin(nb::handle input, bool floats_only, nb::handle out = {}) const {
    Call call;
    call.x = floats_only ? take_float_input(input, name(), "input") : take_input(input, name(), "input");
    check_rank(parameters_.operator_name, call.x.view.shape, ndim());
    call.plan = plan_for(call.x.view.shape.last(ndim()));
    call.shape = output_shape(parameters_.operator_name, call.x.view.shape, call.plan->axes, DType::i64);
    if (!out) check_memory(parameters_.operator_name, "output", call.shape, call.x.view.dtype);
    call.output = allocate(call, call.x.view.dtype, out);
    call.out = full(call, call.output.view);
    return call;
  }

  OutputArray allocate(const Call& call, DType dtype, nb::handle out = {}) const {
    if (keepdims_) return new_output(call.shape, dtype, call.x.view, out);
    const int leading = call.shape.size() - ndim();
    return new_output(Sizes(call.shape.span().first(static_cast<std::size_t>(leading))), dtype, out);
  }

  ArrayView full(const Call&, const ArrayView& view) const {
    return keepdims_ ? view : with_unit_axes(view, ndim());
  }

  int ndim() const noexcept { return static_cast<int>(output_sizes_.size()); }

  std::shared_ptr<const MaxPlan> plan_for(std::span<const Index> sizes) const {
    return plans_.get(sizes, [&] {
      std::vector<Axis> axes = kind_ == WindowKind::sliding    ? window_axes(parameters_, sizes)
                               : kind_ == WindowKind::adaptive ? adaptive_axes(sizes, output_sizes_)
                                                               : global_axes(sizes);
      // The output must be possible before anything of its size is made.
      output_shape(parameters_.operator_name, Sizes(sizes), axes, DType::i64);
      check_plan_memory(parameters_.operator_name, axes);
      return MaxPlan(parameters_.operator_name, std::move(axes), ties_, nan_, cells_);
    });
  }

  WindowKind kind_;
  WindowParameters parameters_;
  std::vector<Index> output_sizes_;
  bool keepdims_;
  Ties ties_;
  NanPolicy nan_;
  Cells cells_;
  PlanCache<MaxPlan> plans_;
};

nb::tuple MaxPullback::operator()(nb::handle cotangent) const {
  const InputArray g =
      take_matching(cotangent, plan_->operator_name.c_str(), "cotangent", output_shape_, dtype_, "I5");
  check_memory(plan_->operator_name, "input", input_shape_, dtype_);
  const OutputArray dx = new_output(input_shape_, dtype_, input_like);
  {
    const KernelScope scope;
    max_pullback(*plan_, winners_, keepdims_ ? g.view : with_unit_axes(g.view, plan_->ndim()), dx.view);
  }
  return nb::make_tuple(dx.owner);
}

Cells cells_from(const std::string& word) {
  return word == "plain" ? Cells::plain : word == "negated" ? Cells::negated : Cells::magnitude;
}

std::unique_ptr<MaxOperator> sliding(std::string name, std::vector<Index> kernel, std::vector<Index> stride,
                                     std::vector<Index> before, std::vector<Index> after, const std::string& padding,
                                     std::vector<Index> dilation, bool ceil_mode, const std::string& ties,
                                     const std::string& nan, const std::string& cells) {
  WindowParameters p{std::move(name), kernel, std::move(stride), std::move(dilation), std::move(before),
                     std::move(after), padding_mode_from(padding), ceil_mode};
  return std::make_unique<MaxOperator>(WindowKind::sliding, std::move(p), std::move(kernel), true, ties_from(ties),
                                       nan_from(nan), cells_from(cells));
}

WindowParameters named(std::string name) {
  WindowParameters parameters;
  parameters.operator_name = std::move(name);
  return parameters;
}

std::unique_ptr<MaxOperator> adaptive(std::string name, std::vector<Index> output_size, const std::string& ties,
                                      const std::string& nan) {
  return std::make_unique<MaxOperator>(WindowKind::adaptive, named(std::move(name)), std::move(output_size), true,
                                       ties_from(ties), nan_from(nan), Cells::plain);
}

std::unique_ptr<MaxOperator> global(std::string name, int ndim, bool keepdims, const std::string& ties,
                                    const std::string& nan, const std::string& cells) {
  return std::make_unique<MaxOperator>(WindowKind::global, named(std::move(name)),
                                       std::vector<Index>(static_cast<std::size_t>(ndim), 1), keepdims,
                                       ties_from(ties), nan_from(nan), cells_from(cells));
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
  module.def("max_pool", &sliding, nb::arg("name"), nb::arg("kernel"), nb::arg("stride"), nb::arg("before"),
             nb::arg("after"), nb::arg("padding"), nb::arg("dilation"), nb::arg("ceil_mode"), nb::arg("ties"),
             nb::arg("nan"), nb::arg("cells") = "plain");
  module.def("adaptive_max_pool", &adaptive, nb::arg("name"), nb::arg("output_size"), nb::arg("ties"), nb::arg("nan"));
  module.def("global_max_pool", &global, nb::arg("name"), nb::arg("ndim"), nb::arg("keepdims"), nb::arg("ties"),
             nb::arg("nan"), nb::arg("cells") = "plain");
}

}  // namespace halfulp::bindings
