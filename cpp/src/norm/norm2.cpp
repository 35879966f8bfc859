// Euclidean norms and their derivatives where the quick engine does not apply.
#include <cstring>

#include "halfulp/engines.hpp"
#include "halfulp/parallel.hpp"
#include "norm/pass.hpp"
#include "norm/quick.hpp"

namespace halfulp {
namespace {

using namespace norms;

// Rows of outputs: norms, or tangents where t is given.
template <class T>
std::vector<Index> output_rows(std::span<const PatchAxis> axes, Index planes, const T* x, const T* t, T* out) {
  Undecided undecided;
  const Index rows = Pass<T>(axes).output_rows(), plane = product(axes, &PatchAxis::size);
  const Index n = axes.back().outputs;
  parallel_for(planes * rows, grain_of(rows, plane), [&](Index begin, Index end) {
    Pass<T> pass(axes);
    std::vector<Index> unsure;
    for (Index unit = begin; unit < end; ++unit) {
      const Index at = unit / rows * plane, row = unit % rows;
      T* const to = out + unit * n;
      const auto report = [&](Index i) { unsure.push_back(unit * n + i); };
      if (t == nullptr) pass.norm_row(x + at, row, to, report);
      else pass.tangent_row(x + at, t + at, row, to, report);
    }
    undecided.add(unsure);
  });
  return undecided.take();
}

template <class T>
std::vector<Index> planes_of_cells(std::span<const PatchAxis> axes, Index planes, const T* x, const T* g, T* out) {
  Undecided undecided;
  const Index plane = product(axes, &PatchAxis::size), windows = product(axes, &PatchAxis::outputs);
  parallel_for(planes, grain_of(planes, planes * plane), [&](Index begin, Index end) {
    Pass<T> pass(axes);
    std::vector<Index> unsure;
    for (Index p = begin; p < end; ++p) {
      pass.start_plane(x + p * plane, g + p * windows);
      for (Index row = 0; row < pass.cell_rows(); ++row)
        pass.cotangents(x + p * plane, g + p * windows, row, out + p * plane + row * axes.back().size,
                        [&](Index cell) { unsure.push_back(p * plane + cell); });
    }
    undecided.add(unsure);
  });
  return undecided.take();
}

template <class T>
std::vector<Index> values(std::span<const PatchAxis> axes, Index planes, const ArrayView& x, const ArrayView& out,
                          const Kept& kept) {
  if constexpr (std::is_same_v<T, float>) {
    std::vector<Index> undecided, none;
    quick_outputs(axes, planes, x.as<const T>(), nullptr, out.as<T>(), nullptr, kept, undecided, none);
    return undecided;
  }
  return output_rows<T>(axes, planes, x.as<const T>(), nullptr, out.as<T>());
}

template <class F>
std::vector<Index> for_type(DType dtype, const F& f) {
  count_engine(Engine::norm2);
  return visit_float(dtype, f);
}

}  // namespace

std::vector<Index> norm2_values(std::span<const PatchAxis> axes, Index planes, const ArrayView& x,
                                const ArrayView& out) {
  if (out.count() == 0) return {};
  return for_type(x.dtype, [&]<class T>(T) { return values<T>(axes, planes, x, out, {}); });
}

bool norm2_wants_inverse(std::span<const PatchAxis> axes, DType dtype) {
  return dtype == DType::f32 && quick_cotangents_apply(axes);
}

std::vector<Index> norm2_keep(std::span<const PatchAxis> axes, Index planes, const ArrayView& x, const ArrayView& out,
                              const ArrayView& kept, const ArrayView& inverse) {
  if (x.count() > 0 && (out.count() == 0 || x.dtype != DType::f32))
    std::memcpy(kept.data, x.data, static_cast<std::size_t>(x.count()) * item_size(x.dtype));
  if (out.count() == 0) return {};
  return for_type(x.dtype, [&]<class T>(T) {
    Kept both;
    if (x.dtype == DType::f32) both = {kept.as<float>(), inverse.count() == 0 ? nullptr : inverse.as<double>()};
    return values<T>(axes, planes, x, out, both);
  });
}

std::pair<std::vector<Index>, std::vector<Index>> norm2_tangents(std::span<const PatchAxis> axes, Index planes,
                                                                 const ArrayView& x, const ArrayView& t,
                                                                 const ArrayView& out, const ArrayView& tangents) {
  std::vector<Index> undecided;
  if (out.count() == 0) return {};
  std::vector<Index> unsure = for_type(x.dtype, [&]<class T>(T) -> std::vector<Index> {
    const T* const cells = x.as<const T>();
    if constexpr (std::is_same_v<T, float>) {
      std::vector<Index> found;
      quick_outputs(axes, planes, cells, t.as<const T>(), out.as<T>(), tangents.as<T>(), {}, undecided, found);
      return found;
    } else {
      undecided = output_rows<T>(axes, planes, cells, nullptr, out.as<T>());
      return output_rows<T>(axes, planes, cells, t.as<const T>(), tangents.as<T>());
    }
  });
  return {std::move(undecided), std::move(unsure)};
}

std::vector<Index> norm2_cotangents(std::span<const PatchAxis> axes, Index planes, const ArrayView& x,
                                    const ArrayView& inverse, const ArrayView& g, const ArrayView& out) {
  if (out.count() == 0) return {};
  return for_type(x.dtype, [&]<class T>(T) -> std::vector<Index> {
    if constexpr (std::is_same_v<T, float>)
      if (inverse.count() > 0)
        return quick_cotangents(axes, planes, x.as<const T>(), inverse.as<const double>(), g.as<const T>(),
                                out.as<T>());
    return planes_of_cells<T>(axes, planes, x.as<const T>(), g.as<const T>(), out.as<T>());
  });
}

}  // namespace halfulp
