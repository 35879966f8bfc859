// The pullback of hard max over small sliding windows, by cells: a row of cells gathers from the rows of windows that
// hold it. Cells that are a stride apart stand alike in their windows, so each such class is a vector sum over taps.
#include <bit>
#include <cstring>

#include "halfulp/gather_kernels.hpp"
#include "halfulp/parallel.hpp"
#include "max_pullback.hpp"
#include "max_walk.hpp"
#include "row_buffer.hpp"

namespace halfulp {
namespace {

constexpr Index kMostTaps = 256;

// The windows that hold coordinate c of an outer axis.
struct Cover {
  Index output;
  Index offset;  // of the coordinate in that window
};

void covers_of(const Axis& axis, Index c, std::vector<Cover>& covers) {
  covers.clear();
  for (Index k = axis.kernel - 1; k >= 0; --k) {
    const Index from = c + axis.before - k * axis.dilation;
    if (from < 0 || from % axis.stride != 0 || from / axis.stride >= axis.output) continue;
    covers.push_back({from / axis.stride, k});
  }
}

template <class T>
class Gather final : public GatherEngine {
 public:
  // Cotangents are loaded as C, codes as the integer I that is as wide.
  static constexpr bool kDouble = std::is_same_v<T, double>;
  using C = std::conditional_t<kDouble, double, float>;
  using I = std::conditional_t<kDouble, std::int64_t, std::int32_t>;

  Gather(const MaxPlan& plan, const PullbackPlane& prototype)
      : plan_(plan), kernels_(select_gather_kernels()), last_(plan.ndim() - 1), lanes_(prototype.lanes) {
    const Axis& axis = plan.axes.back();
    ways_ = axis.stride;
    // A window reaches at most this many places to the left of a cell's own.
    reach_ = axis.dilation * (axis.kernel - 1) / axis.stride + 1;
    places_ = (axis.before + axis.size + ways_ - 1) / ways_;
    row_items_ = padded_length<C>((reach_ + std::max(places_, axis.output) + 1) * lanes_);
    rows_per_output_ = 1;
    for (int a = 1; a < last_; ++a) rows_per_output_ *= plan.axes[at(a)].output;
    most_terms_ = 1;
    for (const Axis& each : plan.axes) most_terms_ *= each.dilation * (each.kernel - 1) / each.stride + 1;
    sums_.assign(padded_length<float>(places_ * lanes_) + kRowSlack, 0.0);
    for (Index way = 0; way < ways_; ++way) narrowed_.emplace_back(padded_length<T>(places_ * lanes_) + kRowSlack, T{});
    row_.assign(padded_length<T>(axis.size * lanes_) + kRowSlack, T{});
    ways_taps_.resize(static_cast<std::size_t>(ways_));
    for (Index k = 0; k < axis.kernel; ++k)
      ways_taps_[static_cast<std::size_t>(k * axis.dilation % ways_)].push_back({k, k * axis.dilation / ways_});
  }

  bool run(const PullbackPlane& plane, Index begin, Index end) override {
    plane_ = &plane;
    if (last_ == 0) begin = 0, end = 1;
    if (!load_outputs(begin, end)) return false;
    if (last_ == 0) {
      terms_rows_.assign(1, {0, 0});
      row(plane.dx.data);
      return true;
    }
    Index cell[kMaxRank] = {};
    covers_.resize(at(last_));
    for (cell[0] = begin; cell[0] < end; ++cell[0]) rows_of(0, cell);
    return true;
  }

 private:
  struct Tap {
    Index offset;  // in the window
    Index shift;   // places that the window's own lies to the left of the cell's
  };
  struct TermRow {
    Index row;   // of the loaded outputs
    Index code;  // what the outer axes contribute to it
  };

  static std::size_t at(int axis) noexcept { return static_cast<std::size_t>(axis); }

  // All rows of cells further in than axis a.
  void rows_of(int a, Index* cell) {
    covers_of(plan_.axes[at(a)], cell[a], covers_[at(a)]);
    if (a + 1 < last_) {
      for (cell[a + 1] = 0; cell[a + 1] < plan_.axes[at(a) + 1].size; ++cell[a + 1]) rows_of(a + 1, cell);
      return;
    }
    terms_rows_.assign(1, {-first_output_, 0});
    for (int b = 0; b < last_; ++b) {
      std::vector<TermRow>& wider = wider_rows_;
      wider.clear();
      const Index outputs = b + 1 < last_ ? plan_.axes[at(b) + 1].output : 1;
      for (const TermRow& term : terms_rows_)
        for (const Cover& cover : covers_[at(b)])
          wider.push_back({(term.row + cover.output) * outputs,
                           (term.code + cover.offset) * plan_.axes[at(b) + 1].kernel});
      std::swap(terms_rows_, wider);
    }
    row(plane_->dx.data + walk::position(cell, plane_->dx.strides, last_));
  }

  // Loads the outputs whose windows meet cells [begin, end) of the first axis; false if their range is too wide.
  bool load_outputs(Index begin, Index end) {
    Index first = 0, stop = 1;
    if (last_ > 0) {
      const Axis& axis = plan_.axes[0];
      const Index reach = axis.extent();
      first = std::max<Index>(0, (begin + axis.before - reach + axis.stride) / axis.stride);
      first = begin + axis.before - reach + 1 <= 0 ? 0 : first;
      stop = std::min(axis.output, (end - 1 + axis.before) / axis.stride + 1);
      first = std::min(first, stop);
    }
    first_output_ = first;
    const Index rows = (stop - first) * rows_per_output_;
    const Index items = row_items_ * rows + kRowSlack;
    // Places beside the outputs have a code that nothing asks for.
    if (items > capacity_) {
      g_.assign(items, C{});
      codes_.assign(items, -1);
      capacity_ = items;
    }
    ExponentRange range;
    Index output[kMaxRank] = {first};
    for (Index r = 0; r < rows; ++r) {
      load_row(output, r, range);
      for (int a = last_ - 1; a >= 0; --a) {
        if (++output[a] < plan_.axes[at(a)].output || a == 0) break;
        output[a] = 0;
      }
    }
    return exact(range);
  }

  void load_row(const Index* output, Index r, ExponentRange& range) {
    const Index n = plan_.axes.back().output * lanes_;
    C* g = g_.data() + r * row_items_ + reach_ * lanes_;
    I* codes = codes_.data() + r * row_items_ + reach_ * lanes_;
    load_values(plane_->cotangent.data + walk::position(output, plane_->cotangent.strides, last_), g);
    load_codes(plane_->winners.data + walk::position(output, plane_->winners.strides, last_), codes);
    if constexpr (kDouble) kernels_.range_f64(g, n, range);
    else kernels_.range_f32(g, n, range);
  }

  void load_values(const char* source, C* target) {
    const Index places = plan_.axes.back().output, stride = plane_->cotangent.strides[last_];
    const auto run = [](const char* from, C* to, Index n) {
      if constexpr (is_half_pair<T, C>) widen_run(reinterpret_cast<const T*>(from), to, n);
      else std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(T));
    };
    if (stride == static_cast<Index>(sizeof(T)) * lanes_) return run(source, target, places * lanes_);
    for (Index o = 0; o < places; ++o) run(source + o * stride, target + o * lanes_, lanes_);
  }

  void load_codes(const char* source, I* target) {
    const Index places = plan_.axes.back().output, stride = plane_->winners.strides[last_];
    const int bytes = static_cast<int>(plane_->winner_bytes);
    const auto run = [&](const char* from, I* to, Index n) {
      if constexpr (kDouble) kernels_.codes_64(from, bytes, to, n);
      else kernels_.codes_32(from, bytes, to, n);
    };
    if (stride == bytes * lanes_) return run(source, target, places * lanes_);
    for (Index o = 0; o < places; ++o) run(source + o * stride, target + o * lanes_, lanes_);
  }

  // Whether every sum of these terms is exact in double, or, for double terms, in two doubles: the bits of all terms and
  // sums lie in a window that fits.
  bool exact(const ExponentRange& range) const noexcept {
    if (range.largest == 0 || most_terms_ <= 1) return true;
    constexpr int fraction = kDouble ? 52 : 23;
    constexpr Index special = kDouble ? 2047 : 255;
    const auto high = static_cast<Index>(range.largest >> fraction);
    const auto low = static_cast<Index>((range.smallest + 1) >> fraction);
    if (high == special) return false;  // an infinity or NaN
    const Index growth = std::bit_width(static_cast<std::uint64_t>(most_terms_));
    if constexpr (kDouble)  // and no partial sum may overflow
      return most_terms_ <= 2 || (high - low + 2 * growth <= 48 && high + growth < special);
    else return (std::is_same_v<T, float> && most_terms_ <= 2) || high - low + growth + format_of<T>::precision <= 53;
  }

  // One row of dx from the rows of outputs in terms_rows_.
  void row(char* target) {
    const Axis& axis = plan_.axes.back();
    for (Index way = 0; way < ways_; ++way) {
      collect(way);
      T* narrowed = narrowed_[static_cast<std::size_t>(way)].data();
      if (ids_.empty()) {
        std::memset(static_cast<void*>(narrowed), 0, static_cast<std::size_t>(places_ * lanes_) * sizeof(T));
        continue;
      }
      add_up(narrowed);
    }
    const Index stride = plane_->dx.strides[last_];
    const bool dense = stride == static_cast<Index>(sizeof(T)) * lanes_;
    T* row = dense ? reinterpret_cast<T*>(target) : row_.data();
    assemble_row(row, axis);
    if (!dense) write_row<T, T>(row, target, stride, axis.size, lanes_);
  }

  // The taps through which cells of class `way` (their padded coordinate modulo the stride) are held.
  void collect(Index way) {
    const auto& taps = ways_taps_[static_cast<std::size_t>(way)];
    const std::size_t count = terms_rows_.size() * taps.size();
    ids_.resize(count);
    term_g_.resize(count);
    term_codes_.resize(count);
    std::size_t t = 0;
    for (const TermRow& term : terms_rows_) {
      for (const Tap& tap : taps) {
        const Index at = term.row * row_items_ + (reach_ - tap.shift) * lanes_;
        term_g_[t] = g_.data() + at;
        term_codes_[t] = codes_.data() + at;
        ids_[t++] = static_cast<I>(term.code + tap.offset);
      }
    }
  }

  // The sums of the collected terms, rounded to T.
  void add_up(T* target) {
    const auto count = static_cast<int>(ids_.size());
    const Index n = places_ * lanes_;
    const auto add = [&](auto kernel, auto* out) {
      kernel(term_g_.data(), term_codes_.data(), ids_.data(), count, out, n);
    };
    if constexpr (kDouble) {
      add(count > 2 ? kernels_.f64_pair : kernels_.f64, target);
    } else if constexpr (std::is_same_v<T, float>) {
      add(count > 2 ? kernels_.f32_exact : kernels_.f32, target);
    } else {
      add(kernels_.f32_exact_wide, sums_.data());
      if constexpr (std::is_same_v<T, Float16>) kernels_.narrow_f16(sums_.data(), target, n);
      else kernels_.narrow_bf16(sums_.data(), target, n);
    }
  }

  // Puts the classes back in order.
  void assemble_row(T* row, const Axis& axis) {
    const auto source = [&](Index w) {
      const Index padded = w + axis.before;
      return narrowed_[static_cast<std::size_t>(padded % ways_)].data() + padded / ways_ * lanes_;
    };
    if (ways_ == 1) {
      std::memcpy(static_cast<void*>(row), source(0), static_cast<std::size_t>(axis.size * lanes_) * sizeof(T));
    } else if (ways_ == 2 && lanes_ == 1) {
      interleave(source(0), source(1), row, axis.size);
    } else {
      for (Index w = 0; w < axis.size; ++w)
        std::memcpy(static_cast<void*>(row + w * lanes_), source(w), static_cast<std::size_t>(lanes_) * sizeof(T));
    }
  }

  void interleave(const T* a, const T* b, T* target, Index n) {
    if constexpr (sizeof(T) == 2)
      kernels_.interleave_2(reinterpret_cast<const std::uint16_t*>(a), reinterpret_cast<const std::uint16_t*>(b),
                            reinterpret_cast<std::uint16_t*>(target), n);
    else if constexpr (sizeof(T) == 4)
      kernels_.interleave_4(reinterpret_cast<const std::uint32_t*>(a), reinterpret_cast<const std::uint32_t*>(b),
                            reinterpret_cast<std::uint32_t*>(target), n);
    else
      kernels_.interleave_8(reinterpret_cast<const std::uint64_t*>(a), reinterpret_cast<const std::uint64_t*>(b),
                            reinterpret_cast<std::uint64_t*>(target), n);
  }

  const MaxPlan& plan_;
  const GatherKernels& kernels_;
  int last_;
  Index lanes_, ways_ = 1, reach_ = 0, places_ = 0, row_items_ = 0, rows_per_output_ = 1, most_terms_ = 1;
  Index first_output_ = 0, capacity_ = 0;
  RowBuffer<C> g_;
  RowBuffer<I> codes_;
  RowBuffer<double> sums_;
  std::vector<RowBuffer<T>> narrowed_;
  RowBuffer<T> row_;
  std::vector<std::vector<Cover>> covers_;
  std::vector<TermRow> terms_rows_, wider_rows_;
  std::vector<std::vector<Tap>> ways_taps_;
  std::vector<const C*> term_g_;
  std::vector<const I*> term_codes_;
  std::vector<I> ids_;
  const PullbackPlane* plane_ = nullptr;
};

}  // namespace

std::unique_ptr<GatherEngine> make_gather(const MaxPlan& plan, const PullbackPlane& plane) {
  if (plan.many_winners() || plan.window_cells > kMostTaps || plane.winner_bytes > 2) return nullptr;
  for (const Axis& axis : plan.axes)
    if (axis.adaptive || axis.output == 0 || axis.padded() > 4 * axis.size + 4096) return nullptr;
  return visit_float(plane.dtype, [&](auto tag) -> std::unique_ptr<GatherEngine> {
    return std::make_unique<Gather<decltype(tag)>>(plan, plane);
  });
}

}  // namespace halfulp
