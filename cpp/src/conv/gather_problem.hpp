// A gather product as the engine sees it: positions, sources with their filters, bias and output, whichever of the two
// directions it came from; and the walk over one output's terms.
#pragma once

#include <vector>

#include "plan.hpp"
#include "resolve.hpp"
#include "stage.hpp"

namespace halfulp::conv {

template <class T>
struct Source {
  Planes<const T> planes;
  const T* filters = nullptr;
  Index row = 0;      // filter stride from one output channel to the next
  Index channel = 0;  // from one source channel to the next
  Index group = 0;    // from one group to the next
  std::vector<Index> spatial;
};

template <class T>
struct GatherProblem {
  Mode mode = Mode::wide;
  Gather gather;
  Index batch = 1;
  Index groups = 1;
  Index channels = 0;  // of the sources, per group
  Index rows = 0;      // of the output, per group
  std::vector<Source<T>> sources;
  const T* bias = nullptr;
  Index bias_stride = 0;
  Planes<T> out;

  Index taps() const { return tap_count(gather); }

  // The filter offset of every tap, last axis fastest.
  std::vector<Index> filter_offsets(const Source<T>& source) const {
    std::vector<Index> offsets{0}, next;
    for (std::size_t axis = 0; axis < gather.size(); ++axis) {
      next.clear();
      for (const Index offset : offsets)
        for (const Index tap : gather[axis].tap) next.push_back(offset + tap * source.spatial[axis]);
      offsets.swap(next);
    }
    return offsets;
  }

  // Calls f(weight, cell) for each product of output (n, group, row, position) until f returns false.
  template <class F>
  bool for_each_product(Index n, Index group, Index row, const Sizes& position, const F& f) const {
    for (const Source<T>& source : sources) {
      for (Index c = 0; c < channels; ++c) {
        const T* weights = source.filters + group * source.group + row * source.row + c * source.channel;
        const T* cells = source.planes.data + n * source.planes.batch + (group * channels + c) * source.planes.channel;
        if (!walk_axis(source, 0, weights, cells, position, f)) return false;
      }
    }
    return true;
  }

  // The correctly rounded value of an output whose sum came out as `value`. `exact` says that the sum is known to be
  // exact, `trusted` that an infinity or NaN can only come from the terms.
  T resolve(Index n, Index group, Index row, const Sizes& position, double value, bool exact, bool trusted) const {
    if (trusted && !std::isfinite(value)) return round_to<T>(value);
    const double first = bias == nullptr ? -0.0 : as_double(bias[(group * rows + row) * bias_stride]);
    const auto walk = [&](const auto& f) { for_each_product(n, group, row, position, f); };
    ZeroTerms zeros(exact, bias != nullptr, first);
    if (value == 0) {
      walk([&](T w, T x) { return zeros.look_at(as_double(w), as_double(x)); });
      if (zeros.known()) return round_to<T>(zeros.sum());
    }
    if (!std::isfinite(value) && !walk_finds_no_nan(n, group, row, position)) return round_to<T>(value - value);
    const auto products = [&](const auto& add) {
      walk([&](T w, T x) { return add(as_double(w), as_double(x)), true; });
    };
    return round_products<T>(products, bias == nullptr ? nullptr : &first);
  }

 private:
  // Most sums that are NaN have a NaN among their first terms.
  bool walk_finds_no_nan(Index n, Index group, Index row, const Sizes& position) const {
    return for_each_product(n, group, row, position, [](T w, T x) {
      const double a = as_double(w), b = as_double(x);
      return a == a && b == b;
    });
  }

  template <class F>
  bool walk_axis(const Source<T>& source, std::size_t axis, const T* weights, const T* cells, const Sizes& position,
                 const F& f) const {
    if (axis == gather.size()) return f(*weights, *cells);
    const GatherAxis& one = gather[axis];
    const Index start = position[static_cast<int>(axis)] * one.step;
    for (std::size_t t = 0; t < one.tap.size(); ++t) {
      const Index cell = start + one.offset[t];
      if (cell < 0 || cell >= one.source_size) continue;
      if (!walk_axis(source, axis + 1, weights + one.tap[t] * source.spatial[axis],
                     cells + cell * source.planes.spatial[axis], position, f))
        return false;
    }
    return true;
  }
};

}  // namespace halfulp::conv
