// Hard max over windows that start elsewhere in every plane, for Python. Arrays are dense and C-ordered: the layer
// above sees to it.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>

#include "bindings.hpp"
#include "halfulp/max_pool.hpp"
#include "halfulp/parallel.hpp"
#include "numpy/array.hpp"
#include "numpy/policies.hpp"

namespace halfulp::bindings {
namespace {

// Plane number `plane` of a dense array whose last `ndim` axes are spatial.
ArrayView plane_of(const ArrayView& array, int ndim, Index plane) {
  ArrayView view;
  view.dtype = array.dtype;
  view.shape = Sizes(array.shape.last(ndim));
  view.strides = Sizes(array.strides.last(ndim));
  view.data = array.data + plane * view.count() * static_cast<Index>(item_size(array.dtype));
  return view;
}

struct PlaneWinners {
  std::unique_ptr<MaxPlan> plan;
  Winners winners;
};

class FractionalPullback {
 public:
  FractionalPullback(std::vector<PlaneWinners> planes, std::string name, const ArrayView& x, const Sizes& output)
      : planes_(std::move(planes)), name_(std::move(name)), input_(x.shape), output_(output), dtype_(x.dtype) {}

  FractionalPullback(const FractionalPullback&) = delete;
  FractionalPullback& operator=(const FractionalPullback&) = delete;

  nb::object operator()(nb::handle cotangent) const {
    const InputArray g = take_matching(cotangent, name_.c_str(), "cotangent", output_, dtype_, "I5");
    OutputArray dx = new_output(input_, dtype_);
    {
      const KernelScope scope;
      parallel_for(static_cast<Index>(planes_.size()), 1, [&](Index begin, Index end) {
        for (Index p = begin; p < end; ++p) {
          const PlaneWinners& plane = planes_[static_cast<std::size_t>(p)];
          const int ndim = plane.plan->ndim();
          max_pullback(*plane.plan, plane.winners, plane_of(g.view, ndim, p), plane_of(dx.view, ndim, p));
        }
      });
    }
    return std::move(dx.owner);
  }

 private:
  std::vector<PlaneWinners> planes_;
  std::string name_;
  Sizes input_, output_;
  DType dtype_;
};

class FractionalOperator {
 public:
  FractionalOperator(std::string name, std::vector<Index> kernel, std::vector<Index> output, const std::string& ties,
                     const std::string& nan)
      : name_(std::move(name)),
        kernel_(std::move(kernel)),
        output_(std::move(output)),
        ties_(ties_from(ties)),
        nan_(nan_from(nan)) {}

  nb::object forward(nb::handle input, nb::handle starts) const {
    const Call call = begin(input, starts, false);
    each(call, [&](const MaxPlan& plan, Index p) { max_forward(plan, x_of(call, p), out_of(call, p)); });
    return call.output.owner;
  }

  nb::tuple forward_with_indices(nb::handle input, nb::handle starts) const {
    const Call call = begin(input, starts, false);
    const OutputArray indices = new_output(call.output.view.shape, DType::i64);
    each(call, [&](const MaxPlan& plan, Index p) {
      max_indices(plan, x_of(call, p), out_of(call, p), plane_of(indices.view, ndim(), p));
    });
    return nb::make_tuple(call.output.owner, indices.owner);
  }

  nb::tuple jvp(nb::handle input, nb::handle tangent, nb::handle starts) const {
    const Call call = begin(input, starts, true);
    const InputArray t =
        take_matching(tangent, name_.c_str(), "tangent", call.x.view.shape, call.x.view.dtype, "I4");
    const OutputArray out_tangent = new_output(call.output.view.shape, call.x.view.dtype);
    each(call, [&](const MaxPlan& plan, Index p) {
      max_jvp(plan, x_of(call, p), plane_of(t.view, ndim(), p), out_of(call, p),
              plane_of(out_tangent.view, ndim(), p));
    });
    return nb::make_tuple(call.output.owner, out_tangent.owner);
  }

  nb::tuple vjp(nb::handle input, nb::handle starts) const {
    const Call call = begin(input, starts, true);
    std::vector<PlaneWinners> planes(static_cast<std::size_t>(call.planes));
    each(call, [&](const MaxPlan& plan, Index p) {
      PlaneWinners& plane = planes[static_cast<std::size_t>(p)];
      plane.plan = std::make_unique<MaxPlan>(plan);
      plane.winners = max_winners(plan, x_of(call, p), out_of(call, p));
    });
    return nb::make_tuple(call.output.owner, std::make_unique<FractionalPullback>(std::move(planes), name_, call.x.view,
                                                                                  call.output.view.shape));
  }

 private:
  struct Call {
    InputArray x, starts;
    OutputArray output;
    Index planes = 1;
  };

  int ndim() const noexcept { return static_cast<int>(kernel_.size()); }
  ArrayView x_of(const Call& call, Index p) const { return plane_of(call.x.view, ndim(), p); }
  ArrayView out_of(const Call& call, Index p) const { return plane_of(call.output.view, ndim(), p); }

  Call begin(nb::handle input, nb::handle starts, bool floats_only) const {
    Call call;
    call.x = floats_only ? take_float_input(input, name_.c_str(), "input") : take_input(input, name_.c_str(), "input");
    call.starts = take_input(starts, name_.c_str(), "starts");
    Sizes shape;
    for (int a = 0; a < call.x.view.ndim() - ndim(); ++a) {
      shape.push_back(call.x.view.shape[a]);
      call.planes *= call.x.view.shape[a];
    }
    for (const Index size : output_) shape.push_back(size);
    call.output = new_output(shape, call.x.view.dtype);
    return call;
  }

  template <class F>
  void each(const Call& call, const F& f) const {
    const KernelScope scope;
    const std::span<const Index> sizes = call.x.view.shape.last(ndim());
    Index row = 0;
    for (const Index size : output_) row += size;
    Index cells = 1;
    for (const Index size : sizes) cells *= size;
    const Index grain = std::max<Index>(1, (Index{1} << 14) / std::max<Index>(1, cells));  // planes worth a thread
    parallel_for(call.planes, grain, [&](Index begin, Index end) {
      for (Index p = begin; p < end; ++p) {
        const Index* starts = call.starts.view.as<const Index>() + p * row;
        std::vector<Axis> axes;
        for (std::size_t a = 0; a < kernel_.size(); ++a) {
          axes.push_back(bins_axis(sizes[a], kernel_[a], {starts, starts + output_[a]}));
          starts += output_[a];
        }
        f(MaxPlan(name_, std::move(axes), ties_, nan_), p);
      }
    });
  }

  std::string name_;
  std::vector<Index> kernel_, output_;
  Ties ties_;
  NanPolicy nan_;
};

}  // namespace

void register_fractional_max_pool(nb::module_& module) {
  nb::class_<FractionalPullback>(module, "FractionalPullback", "From an output cotangent to the input's.")
      .def("__call__", &FractionalPullback::operator(), nb::arg("cotangent"));
  nb::class_<FractionalOperator>(module, "FractionalOperator", "A hard max over windows with given starts.")
      .def(nb::init<std::string, std::vector<Index>, std::vector<Index>, const std::string&, const std::string&>(),
           nb::arg("name"), nb::arg("kernel"), nb::arg("output"), nb::arg("ties"), nb::arg("nan"))
      .def("forward", &FractionalOperator::forward, nb::arg("x"), nb::arg("starts"))
      .def("forward_with_indices", &FractionalOperator::forward_with_indices, nb::arg("x"), nb::arg("starts"))
      .def("jvp", &FractionalOperator::jvp, nb::arg("x"), nb::arg("tangent"), nb::arg("starts"))
      .def("vjp", &FractionalOperator::vjp, nb::arg("x"), nb::arg("starts"));
}

}  // namespace halfulp::bindings
