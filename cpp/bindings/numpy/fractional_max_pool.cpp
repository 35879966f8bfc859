// Hard max over windows that start elsewhere in every plane, for Python. Arrays are dense and C-ordered: the layer
// above sees to it.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <new>
#include <span>

#include "bindings.hpp"
#include "halfulp/given_windows.hpp"
#include "halfulp/max_pool.hpp"
#include "halfulp/parallel.hpp"
#include "numpy/array.hpp"

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

// The windows of an operator, wherever they start.
struct FractionalShape {
  std::string name;
  std::vector<Index> kernel, output;
  Ties ties;
  NanPolicy nan;

  int ndim() const noexcept { return static_cast<int>(kernel.size()); }
  Index starts_per_plane() const {
    Index n = 0;
    for (const Index size : output) n += size;
    return n;
  }

  MaxPlan plan(std::span<const Index> sizes, const Index* starts) const {
    std::vector<Axis> axes;
    for (std::size_t a = 0; a < kernel.size(); ++a) {
      axes.push_back(bins_axis(sizes[a], kernel[a], {starts, starts + output[a]}));
      starts += output[a];
    }
    return MaxPlan(name, std::move(axes), ties, nan);
  }

  // Planes of single winners, where the windows of a plane need no plan.
  bool direct(std::span<const Index> sizes, DType dtype, const Index* starts, GivenWindows& windows) const {
    if (ndim() != 2 || (ties != Ties::first && ties != Ties::last)) return false;
    windows = {{sizes[0], sizes[1]}, {kernel[0], kernel[1]}, {output[0], output[1]},
               {starts, starts + output[0]}, ties == Ties::last};
    return given_windows_apply(windows, dtype);
  }
};

using PlaneBytes = std::unique_ptr<std::uint8_t[], Winners::Return>;

PlaneBytes plane_bytes(Index count) {
  PlaneBytes bytes(static_cast<std::uint8_t*>(memory_pool::take(static_cast<std::size_t>(std::max<Index>(1, count)))));
  if (!bytes) throw std::bad_alloc();
  return bytes;
}

// The winners of one plane of outputs, a byte each.
Winners winners_of_plane(const ArrayView& out, const std::uint8_t* source) {
  Winners winners;
  winners.bytes = out.count();
  winners.data = plane_bytes(winners.bytes);
  std::copy_n(source, winners.bytes, winners.data.get());
  const auto item = static_cast<Index>(item_size(out.dtype));
  for (int axis = 0; axis < out.ndim(); ++axis) winners.strides.push_back(out.strides[axis] / item);
  return winners;
}

class FractionalPullback {
 public:
  // The winners of a plane are in `direct` or, where there is one, in its own element of `planes`. `starts` is (planes,
  // windows of all axes).
  FractionalPullback(FractionalShape shape, PlaneBytes direct, std::vector<Winners> planes, std::vector<Index> starts,
                     const ArrayView& x, const Sizes& output)
      : shape_(std::move(shape)),
        direct_(std::move(direct)),
        planes_(std::move(planes)),
        starts_(std::move(starts)),
        input_(x.shape),
        output_(output),
        dtype_(x.dtype) {}

  FractionalPullback(const FractionalPullback&) = delete;
  FractionalPullback& operator=(const FractionalPullback&) = delete;

  nb::object operator()(nb::handle cotangent) const {
    const InputArray g = take_matching(cotangent, shape_.name.c_str(), "cotangent", output_, dtype_, "I5");
    OutputArray dx = new_output(input_, dtype_);
    const int ndim = shape_.ndim();
    const Index row = shape_.starts_per_plane();
    {
      const KernelScope scope;
      parallel_for(static_cast<Index>(planes_.size()), 1, [&](Index begin, Index end) {
        GivenScratch scratch;
        for (Index p = begin; p < end; ++p) {
          const Winners& kept = planes_[static_cast<std::size_t>(p)];
          const Index* const starts = starts_.data() + p * row;
          const ArrayView from = plane_of(g.view, ndim, p), to = plane_of(dx.view, ndim, p);
          GivenWindows windows;
          const std::uint8_t* const bytes = kept.data ? kept.data.get() : direct_.get() + p * from.count();
          if (shape_.direct(input_.last(ndim), dtype_, starts, windows) &&
              given_pullback(windows, dtype_, bytes, from.data, to.data, scratch))
            continue;
          const MaxPlan plan = shape_.plan(input_.last(ndim), starts);
          if (kept.data) max_pullback(plan, kept, from, to);
          else max_pullback(plan, winners_of_plane(from, bytes), from, to);
        }
      });
    }
    return std::move(dx.owner);
  }

 private:
  FractionalShape shape_;
  PlaneBytes direct_;
  std::vector<Winners> planes_;
  std::vector<Index> starts_;
  Sizes input_, output_;
  DType dtype_;
};

class FractionalOperator {
 public:
  FractionalOperator(std::string name, std::vector<Index> kernel, std::vector<Index> output, const std::string& ties,
                     const std::string& nan)
      : shape_{std::move(name), std::move(kernel), std::move(output), ties_from(ties), nan_from(nan)} {}

  nb::object forward(nb::handle input, nb::handle starts) const {
    const Call call = begin(input, starts, false);
    each(call, [&](const MaxPlan& plan, Index p) { max_forward(plan, x_of(call, p), out_of(call, p)); },
         [&](const GivenWindows& windows, Index p, GivenScratch& scratch) {
           return maxima(call, windows, p, nullptr, nullptr, nullptr, scratch);
         });
    return call.output.owner;
  }

  nb::tuple forward_with_indices(nb::handle input, nb::handle starts) const {
    const Call call = begin(input, starts, false);
    const OutputArray indices = new_output(call.output.view.shape, DType::i64);
    each(call, [&](const MaxPlan& plan, Index p) {
      max_indices(plan, x_of(call, p), out_of(call, p), plane_of(indices.view, ndim(), p));
    }, [](const GivenWindows&, Index, GivenScratch&) { return false; });
    return nb::make_tuple(call.output.owner, indices.owner);
  }

  nb::tuple jvp(nb::handle input, nb::handle tangent, nb::handle starts) const {
    const Call call = begin(input, starts, true);
    const InputArray t = take_matching(tangent, name(), "tangent", call.x.view.shape, call.x.view.dtype, "I4");
    const OutputArray out_tangent = new_output(call.output.view.shape, call.x.view.dtype);
    each(call, [&](const MaxPlan& plan, Index p) {
      max_jvp(plan, x_of(call, p), plane_of(t.view, ndim(), p), out_of(call, p),
              plane_of(out_tangent.view, ndim(), p));
    }, [&](const GivenWindows& windows, Index p, GivenScratch& scratch) {
      return maxima(call, windows, p, plane_of(t.view, ndim(), p).data, plane_of(out_tangent.view, ndim(), p).data,
                    nullptr, scratch);
    });
    return nb::make_tuple(call.output.owner, out_tangent.owner);
  }

  nb::tuple vjp(nb::handle input, nb::handle starts) const {
    const Call call = begin(input, starts, true);
    std::vector<Winners> planes(static_cast<std::size_t>(call.planes));
    PlaneBytes bytes = plane_bytes(call.output.view.count());
    each(call, [&](const MaxPlan& plan, Index p) {
      planes[static_cast<std::size_t>(p)] = max_winners(plan, x_of(call, p), out_of(call, p));
    }, [&](const GivenWindows& windows, Index p, GivenScratch& scratch) {
      return maxima(call, windows, p, nullptr, nullptr, bytes.get() + p * out_of(call, p).count(), scratch);
    });
    const Index* const first = call.starts.view.as<const Index>();
    std::vector<Index> kept(first, first + call.planes * shape_.starts_per_plane());
    return nb::make_tuple(call.output.owner,
                          std::make_unique<FractionalPullback>(shape_, std::move(bytes), std::move(planes),
                                                               std::move(kept), call.x.view, call.output.view.shape));
  }

 private:
  struct Call {
    InputArray x, starts;
    OutputArray output;
    Index planes = 1;
  };

  const char* name() const noexcept { return shape_.name.c_str(); }
  int ndim() const noexcept { return shape_.ndim(); }
  ArrayView x_of(const Call& call, Index p) const { return plane_of(call.x.view, ndim(), p); }
  ArrayView out_of(const Call& call, Index p) const { return plane_of(call.output.view, ndim(), p); }

  bool maxima(const Call& call, const GivenWindows& windows, Index p, const char* t, char* tangents,
              std::uint8_t* winners, GivenScratch& scratch) const {
    return given_maxima(windows, call.x.view.dtype, x_of(call, p).data, t, out_of(call, p).data, tangents, winners,
                        scratch);
  }

  Call begin(nb::handle input, nb::handle starts, bool floats_only) const {
    Call call;
    call.x = floats_only ? take_float_input(input, name(), "input") : take_input(input, name(), "input");
    call.starts = take_input(starts, name(), "starts");
    Sizes shape;
    for (int a = 0; a < call.x.view.ndim() - ndim(); ++a) {
      shape.push_back(call.x.view.shape[a]);
      call.planes *= call.x.view.shape[a];
    }
    for (const Index size : shape_.output) shape.push_back(size);
    call.output = new_output(shape, call.x.view.dtype);
    return call;
  }

  // Every plane directly, or, where that is refused, by its own plan.
  template <class F, class Direct>
  void each(const Call& call, const F& f, const Direct& direct) const {
    const KernelScope scope;
    const std::span<const Index> sizes = call.x.view.shape.last(ndim());
    const Index row = shape_.starts_per_plane();
    Index cells = 1;
    for (const Index size : sizes) cells *= size;
    const Index grain = std::max<Index>(1, (Index{1} << 14) / std::max<Index>(1, cells));  // planes worth a thread
    parallel_for(call.planes, grain, [&](Index begin, Index end) {
      GivenScratch scratch;
      for (Index p = begin; p < end; ++p) {
        const Index* const starts = call.starts.view.as<const Index>() + p * row;
        GivenWindows windows;
        if (shape_.direct(sizes, call.x.view.dtype, starts, windows) && direct(windows, p, scratch)) continue;
        f(shape_.plan(sizes, starts), p);
      }
    });
  }

  FractionalShape shape_;
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
