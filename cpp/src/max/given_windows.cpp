#include "halfulp/given_windows.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/row_kernels.hpp"
#include "exact/quotients.hpp"
#include "exact/round.hpp"
#include "halfulp/engines.hpp"
#include "halfulp/parallel.hpp"
#include "max/given_kernels.hpp"

namespace halfulp {
namespace {

constexpr Index kMostRows = 64;  // of a window
constexpr Index kSlack = 128;    // items past a row, which kernels may read and write

template <class T>
const GivenKernels<T>& kernels_of() {
  if constexpr (std::is_same_v<T, float>) return select_given_kernels_f32();
  else return select_given_kernels_f64();
}

// At least `count` items of scratch.
template <class T>
T* room(GivenScratch& scratch, Index count) {
  const auto doubles = static_cast<std::size_t>(count * static_cast<Index>(sizeof(T)) / 8 + 1);
  if (scratch.size() < doubles) scratch.resize(doubles);
  return reinterpret_cast<T*>(scratch.data());
}

template <class T>
std::uint8_t offset_at(const T* payload) {
  return static_cast<std::uint8_t>(std::bit_cast<std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>(
      *payload));
}

template <class T>
bool maxima(const GivenWindows& w, const T* x, const T* t, T* out, T* tangents, std::uint8_t* winners,
            GivenScratch& scratch) {
  const GivenKernels<T>& kernels = kernels_of<T>();
  const auto kernel = tangents != nullptr  ? kernels.tangents
                      : winners != nullptr ? kernels.offsets
                                           : kernels.values;
  GivenRun run;
  run.positions = w.size[1] - w.kernel[1] + 1;
  run.rows = w.kernel[0];
  run.columns = w.kernel[1];
  run.row_offset = w.kernel[1];
  if (w.last) run = {run.positions, run.rows, run.columns, run.columns - 1, -1, run.rows * run.columns - 1,
                     -run.row_offset, -1};
  T* const best = room<T>(scratch, 2 * run.positions);
  T* const payload = best + run.positions;
  const Index* const starts = w.starts[1];
  const T* rows[256];
  const T* pairs[256];
  Index seen = 0;  // rows without NaN, as far as windows have come
  for (Index o = 0; o < w.outputs[0]; ++o) {
    const Index stop = w.starts[0][o] + run.rows;
    seen = std::max(seen, w.starts[0][o]);
    if (seen < stop && kernels.any_nan(x + seen * w.size[1], (stop - seen) * w.size[1])) return false;
    seen = std::max(seen, stop);
    for (Index r = 0; r < run.rows; ++r) {
      const Index at = (w.starts[0][o] + (w.last ? run.rows - 1 - r : r)) * w.size[1];
      rows[r] = x + at;
      pairs[r] = t == nullptr ? x + at : t + at;  // not read without tangents
    }
    kernel(rows, pairs, run, best, payload);
    const Index from = o * w.outputs[1];
    for (Index i = 0; i < w.outputs[1]; ++i) out[from + i] = best[starts[i]];
    if (tangents != nullptr)
      for (Index i = 0; i < w.outputs[1]; ++i) tangents[from + i] = payload[starts[i]];
    if (winners != nullptr)
      for (Index i = 0; i < w.outputs[1]; ++i) winners[from + i] = offset_at(payload + starts[i]);
  }
  return true;
}

// How many windows can hold one cell.
Index most_holders(const Index* starts, Index outputs, Index extent) {
  Index most = 1;
  for (Index o = 0, first = 0; o < outputs; ++o) {
    while (starts[o] - starts[first] >= extent) ++first;
    most = std::max(most, o - first + 1);
  }
  return most;
}

// Windows for a pullback: an axis may have padding and dilation.
struct PulledWindows {
  Index size[2], kernel[2], dilation[2], outputs[2];
  const Index* starts[2];
  bool magnitudes;

  Index extent(int axis) const { return (kernel[axis] - 1) * dilation[axis] + 1; }
};

// Sums of a few rows of cells: those that windows still reach. The others are finished.
template <class T>
class Pull {
 public:
  Pull(const PulledWindows& w, const std::uint8_t* winners, const T* g, T* dx, GivenScratch& scratch)
      : w_(w), winners_(winners), g_(g), dx_(dx), band_(std::min(w.extent(0), w.size[0])) {
    // A margin on both sides, for windows without a winner that begin or end in the padding.
    const Index outputs = w.outputs[1];
    margin_ = outputs == 0 ? 0 : std::max<Index>(0, -w.starts[1][0]);
    step_ = margin_ + std::max(w.size[1], outputs == 0 ? 0 : w.starts[1][outputs - 1] + w.extent(1));
    sums_ = room<double>(scratch, band_ * step_);
    std::fill_n(sums_, band_ * step_, 0.0);
  }

  bool run() {
    GivenTerms terms;
    if (!kernels_of<T>().measure(g_, w_.outputs[0] * w_.outputs[1], terms)) return false;
    const bool careful = !exact(terms) || (w_.magnitudes ? terms.zero : terms.negative_zero);
    if (w_.magnitudes) return careful ? rows<true, true>() : rows<true, false>();
    return careful ? rows<false, true>() : rows<false, false>();
  }

 private:
  // Whether no sum loses anything in double: all terms are multiples of the smallest one's last bit.
  bool exact(const GivenTerms& terms) const {
    if constexpr (std::is_same_v<T, double>) return false;
    const Index meeting = most_holders(w_.starts[0], w_.outputs[0], w_.extent(0)) *
                          most_holders(w_.starts[1], w_.outputs[1], w_.extent(1));
    const int top = static_cast<int>(terms.largest >> 23), bottom = static_cast<int>(terms.smallest >> 23);
    return top - std::max(bottom, 1) + 24 + std::bit_width(static_cast<std::uint64_t>(meeting)) <= 53;
  }

  // Careful: an error of an addition or a term that is -0 refuses the plane.
  template <bool Magnitudes, bool Careful>
  bool rows() {
    const Index columns = w_.kernel[1], outputs = w_.outputs[1];
    const Index* const starts = w_.starts[1];
    double* const sums = sums_;
    Index done = 0;
    double lost = 0;
    for (Index r = 0; r < w_.outputs[0]; ++r) {
      const Index first = w_.starts[0][r];
      for (; done < std::min(first, w_.size[0]); ++done) write_sums(done);
      Index position[256];
      for (Index y = 0, code = 0, row = first; y < w_.kernel[0]; ++y, row += w_.dilation[0]) {
        const Index from = (row < 0 || row >= w_.size[0] ? 0 : row % band_ * step_) + margin_;
        for (Index c = 0; c < columns; ++c) position[code++] = from + c * w_.dilation[1];
      }
      const std::uint8_t* const winners = winners_ + r * outputs;
      const T* const g = g_ + r * outputs;
      for (Index o = 0; o < outputs; ++o) {
        const Index code = winners[o];
        auto term = static_cast<double>(g[o]);
        if constexpr (Magnitudes) {
          constexpr double factor[4] = {1, 0, -1, 0};
          term *= factor[code >> 6];
        }
        double& target = sums[starts[o] + position[Magnitudes ? code & (kNoWinner - 1) : code]];
        if constexpr (Careful) {
          const bool counts = !Magnitudes || (code & kNoWinner) == 0;
          if (counts && std::bit_cast<std::uint64_t>(term) == std::uint64_t{1} << 63) return false;
          const TwoDoubles sum = two_sum(target, term);
          target = sum.high;
          lost += std::abs(sum.low);
        } else {
          target += term;
        }
      }
    }
    if (lost != 0) return false;
    for (; done < w_.size[0]; ++done) write_sums(done);
    return true;
  }

  void write_sums(Index row) {
    kernels_of<T>().write_sums(sums_ + row % band_ * step_ + margin_, dx_ + row * w_.size[1], w_.size[1]);
  }

  const PulledWindows& w_;
  const std::uint8_t* winners_;
  const T* g_;
  T* dx_;
  Index band_, margin_ = 0, step_ = 0;
  double* sums_;
};

template <class F>
auto with_type(DType dtype, const F& f) {
  return dtype == DType::f32 ? f(float{}) : f(double{});
}

// Sliding windows over planes, for magnitudes.
class Sliding {
 public:
  explicit Sliding(std::span<const PatchAxis> axes)
      : rows_(axes.size() == 2 ? axes[0] : PatchAxis{1, 1, 1, 1, 0, 1}), columns_(axes.back()) {
    for (Index o = 0; o < rows_.outputs; ++o) starts_[0].push_back(o * rows_.stride - rows_.before);
    for (Index o = 0; o < columns_.outputs; ++o) starts_[1].push_back(o * columns_.stride - columns_.before);
  }

  Index cells() const { return rows_.size * columns_.size; }
  Index windows() const { return rows_.outputs * columns_.outputs; }
  PulledWindows pulled() const {
    return {{rows_.size, columns_.size}, {rows_.kernel, columns_.kernel}, {rows_.dilation, columns_.dilation},
            {rows_.outputs, columns_.outputs}, {starts_[0].data(), starts_[1].data()}, true};
  }

  // One plane; false if it is left out. One of `tangents` and `winners` is null.
  template <class T>
  bool plane(const T* x, const T* t, T* out, T* tangents, std::uint8_t* winners, GivenScratch& scratch) const {
    const GivenKernels<T>& kernels = kernels_of<T>();
    const auto kernel = tangents != nullptr ? kernels.magnitude_tangents : kernels.magnitude_offsets;
    const Index extent = (rows_.kernel - 1) * rows_.dilation + 1, band = std::min(extent, rows_.size);
    const Index positions = (columns_.outputs - 1) * columns_.stride + 1;
    const Index reach = positions + (columns_.kernel - 1) * columns_.dilation;  // the padded row, as far as windows go
    const Index step = columns_.before + std::max(columns_.size, reach) + kSlack;
    T* const sizes = room<T>(scratch, (2 * band + 2) * step);
    T* const pairs = sizes + band * step;
    T *const best = pairs + band * step, *const payload = best + step;
    std::fill_n(sizes, 2 * band * step, std::numeric_limits<T>::quiet_NaN());
    GivenRun run;
    run.positions = positions;
    run.columns = columns_.kernel;
    run.step = columns_.dilation;
    run.row_offset = columns_.kernel;
    const RowKernels& take = select_row_kernels();
    Index ready = 0;
    for (Index o = 0; o < rows_.outputs; ++o) {
      const Index start = starts_[0][static_cast<std::size_t>(o)];
      for (ready = std::max(ready, start); ready < std::min(start + extent, rows_.size); ++ready) {
        const Index to = ready % band * step + columns_.before, from = ready * columns_.size;
        if (kernels.magnitudes(x + from, t == nullptr ? nullptr : t + from, sizes + to, pairs + to, columns_.size))
          return false;
      }
      const T* rows[kMostRows];
      const T* beside[kMostRows];
      run.rows = 0;
      for (Index r = 0; r < rows_.kernel; ++r) {
        const Index row = start + r * rows_.dilation;
        if (row < 0 || row >= rows_.size) continue;
        if (run.rows == 0) run.offset = r * columns_.kernel;
        rows[run.rows] = sizes + row % band * step;
        beside[run.rows++] = pairs + row % band * step;
      }
      if (kernel(rows, beside, run, best, payload)) return false;
      const Index at = o * columns_.outputs;
      take.take_every(best, columns_.stride, out + at, columns_.outputs, sizeof(T));
      if (tangents != nullptr) {
        take.take_every(payload, columns_.stride, tangents + at, columns_.outputs, sizeof(T));
      } else {
        for (Index i = 0; i < columns_.outputs; ++i) winners[at + i] = offset_at(payload + i * columns_.stride);
      }
    }
    return true;
  }

 private:
  PatchAxis rows_, columns_;
  std::vector<Index> starts_[2];
};

// Every plane by `work(plane, scratch)`; the planes for which it is false, in order.
template <class Work>
std::vector<Index> each_plane(Index cells, Index planes, const Work& work) {
  std::vector<Index> left;
  std::mutex mutex;
  const Index grain = std::max<Index>(1, (Index{1} << 14) / std::max<Index>(1, cells));
  parallel_for(planes, grain, [&](Index begin, Index end) {
    GivenScratch scratch;
    std::vector<Index> own;
    for (Index p = begin; p < end; ++p)
      if (!work(p, scratch)) own.push_back(p);
    count_engine(Engine::max_given, end - begin - static_cast<Index>(own.size()));
    const std::lock_guard lock(mutex);
    left.insert(left.end(), own.begin(), own.end());
  });
  std::sort(left.begin(), left.end());
  return left;
}

// Whether there is one window, over all cells.
bool is_whole(std::span<const PatchAxis> axes) {
  return std::all_of(axes.begin(), axes.end(), [](const PatchAxis& axis) {
    return axis.outputs == 1 && axis.before == 0 && axis.dilation == 1 && axis.kernel == axis.size;
  });
}

Index cells_of(std::span<const PatchAxis> axes) {
  Index cells = 1;
  for (const PatchAxis& axis : axes) cells *= axis.size;
  return cells;
}

// One window over each plane. The largest magnitudes and either their tangents or their positions, ~position if the
// cell is negative; 0 where a plane is left out.
template <class T>
std::vector<Index> whole_planes(Index cells, Index planes, const T* x, const T* t, T* out, T* tangents,
                                std::int64_t* winners) {
  return each_plane(cells, planes, [&](Index p, GivenScratch&) {
    const Index position = kernels_of<T>().largest(x + p * cells, cells);
    if (winners != nullptr) winners[p] = 0;
    if (position < 0) return false;
    const T winner = x[p * cells + position];
    out[p] = std::abs(winner);
    if (winners != nullptr) winners[p] = winner < 0 ? ~position : position;
    if (tangents != nullptr) tangents[p] = winner < 0 ? -t[p * cells + position] : t[p * cells + position];
    return true;
  });
}

template <class T>
void pull_whole(Index cells, Index planes, const std::int64_t* winners, const T* g, T* dx) {
  each_plane(cells, planes, [&](Index p, GivenScratch&) {
    const auto term = static_cast<double>(g[p]);
    const Index position = winners[p] < 0 ? ~winners[p] : winners[p];
    const std::vector<Quotient> own{{winners[p] < 0 ? -term : term, 1}};
    std::memset(dx + p * cells, 0, static_cast<std::size_t>(cells) * sizeof(T));
    dx[p * cells + position] = sum_of_quotients<T>(own);
    return true;
  });
}

// A plane whose sums a double does not hold: the terms of every cell in the exact accumulator.
template <class T>
void pull_exactly(const PulledWindows& w, const std::uint8_t* winners, const T* g, T* dx) {
  std::vector<std::pair<Index, double>> terms;
  for (Index r = 0; r < w.outputs[0]; ++r)
    for (Index o = 0; o < w.outputs[1]; ++o) {
      const Index i = r * w.outputs[1] + o, code = winners[i], offset = code & (kNoWinner - 1);
      if ((code & kNoWinner) != 0) continue;
      const Index row = w.starts[0][r] + offset / w.kernel[1] * w.dilation[0];
      const Index column = w.starts[1][o] + offset % w.kernel[1] * w.dilation[1];
      const auto term = static_cast<double>(g[i]);
      terms.emplace_back(row * w.size[1] + column, (code & kNegativeWinner) != 0 ? -term : term);
    }
  std::sort(terms.begin(), terms.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::fill_n(dx, w.size[0] * w.size[1], T{});
  std::vector<Quotient> own;
  for (std::size_t begin = 0, end = 0; begin < terms.size(); begin = end) {
    own.clear();
    for (; end < terms.size() && terms[end].first == terms[begin].first; ++end) own.push_back({terms[end].second, 1});
    dx[terms[begin].first] = sum_of_quotients<T>(own);
  }
}

}  // namespace

bool given_windows_apply(const GivenWindows& windows, DType dtype) {
  return (dtype == DType::f32 || dtype == DType::f64) && windows.kernel[0] * windows.kernel[1] <= 256 &&
         windows.kernel[0] > 0 && windows.kernel[1] > 0;
}

bool given_maxima(const GivenWindows& windows, DType dtype, const char* x, const char* t, char* out, char* tangents,
                  std::uint8_t* winners, GivenScratch& scratch) {
  const bool done = with_type(dtype, [&]<class T>(T) {
    return maxima<T>(windows, reinterpret_cast<const T*>(x), reinterpret_cast<const T*>(t), reinterpret_cast<T*>(out),
                     reinterpret_cast<T*>(tangents), winners, scratch);
  });
  if (done) count_engine(Engine::max_given);
  return done;
}

bool given_pullback(const GivenWindows& w, DType dtype, const std::uint8_t* winners, const char* g, char* dx,
                    GivenScratch& scratch) {
  const PulledWindows pulled{{w.size[0], w.size[1]},       {w.kernel[0], w.kernel[1]},   {1, 1},
                             {w.outputs[0], w.outputs[1]}, {w.starts[0], w.starts[1]}, false};
  return with_type(dtype, [&]<class T>(T) {
    return Pull<T>(pulled, winners, reinterpret_cast<const T*>(g), reinterpret_cast<T*>(dx), scratch).run();
  });
}

bool magnitudes_apply(std::span<const PatchAxis> axes, DType dtype) {
  if (dtype != DType::f32 && dtype != DType::f64) return false;
  if (is_whole(axes)) return cells_of(axes) > 0;
  if (axes.empty() || axes.size() > 2) return false;
  Index cells = 1;
  for (const PatchAxis& axis : axes) {
    // Far steps would make long rows and bands.
    if (axis.size < 1 || axis.outputs < 1 || axis.kernel > 32 || axis.dilation > 64 || axis.before > 4096) return false;
    if (axis.stride > axis.size + axis.before) return false;
    cells *= axis.kernel;
  }
  return cells <= 32;  // a separable maximum is quicker for larger windows
}

std::vector<Index> magnitude_tangents(std::span<const PatchAxis> axes, Index planes, const ArrayView& x,
                                      const ArrayView& t, const ArrayView& out, const ArrayView& tangents) {
  if (is_whole(axes))
    return with_type(x.dtype, [&]<class T>(T) {
      return whole_planes<T>(cells_of(axes), planes, x.as<const T>(), t.as<const T>(), out.as<T>(), tangents.as<T>(),
                             nullptr);
    });
  const Sliding sliding(axes);
  const Index cells = sliding.cells(), windows = sliding.windows();
  return with_type(x.dtype, [&]<class T>(T) {
    return each_plane(cells, planes, [&](Index p, GivenScratch& scratch) {
      return sliding.plane<T>(x.as<const T>() + p * cells, t.as<const T>() + p * cells, out.as<T>() + p * windows,
                              tangents.as<T>() + p * windows, nullptr, scratch);
    });
  });
}

DType winner_type(std::span<const PatchAxis> axes) { return is_whole(axes) ? DType::i64 : DType::u8; }

std::vector<Index> magnitude_winners(std::span<const PatchAxis> axes, Index planes, const ArrayView& x,
                                     const ArrayView& out, const ArrayView& winners) {
  if (is_whole(axes))
    return with_type(x.dtype, [&]<class T>(T) {
      return whole_planes<T>(cells_of(axes), planes, x.as<const T>(), nullptr, out.as<T>(), nullptr,
                             winners.as<std::int64_t>());
    });
  const Sliding sliding(axes);
  const Index cells = sliding.cells(), windows = sliding.windows();
  return with_type(x.dtype, [&]<class T>(T) {
    return each_plane(cells, planes, [&](Index p, GivenScratch& scratch) {
      std::uint8_t* const own = winners.as<std::uint8_t>() + p * windows;
      if (sliding.plane<T>(x.as<const T>() + p * cells, nullptr, out.as<T>() + p * windows, nullptr, own, scratch))
        return true;
      std::fill_n(own, windows, kNoWinner);
      return false;
    });
  });
}

void magnitude_pullback(std::span<const PatchAxis> axes, Index planes, const ArrayView& winners, const ArrayView& g,
                        const ArrayView& dx) {
  if (is_whole(axes))
    return with_type(dx.dtype, [&]<class T>(T) {
      pull_whole<T>(cells_of(axes), planes, winners.as<const std::int64_t>(), g.as<const T>(), dx.as<T>());
    });
  const Sliding sliding(axes);
  const Index cells = sliding.cells(), windows = sliding.windows();
  const PulledWindows pulled = sliding.pulled();
  with_type(dx.dtype, [&]<class T>(T) {
    return each_plane(cells, planes, [&](Index p, GivenScratch& scratch) {
      const T* const from = g.as<const T>() + p * windows;
      T* const to = dx.as<T>() + p * cells;
      const std::uint8_t* const own = winners.as<const std::uint8_t>() + p * windows;
      if (!Pull<T>(pulled, own, from, to, scratch).run()) pull_exactly<T>(pulled, own, from, to);
      return true;
    });
  });
}

}  // namespace halfulp
