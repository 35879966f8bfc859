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
  Gather(const MaxPlan& plan, const PullbackPlane& prototype)
      : plan_(plan), kernels_(select_gather_kernels()), last_(plan.ndim() - 1), lanes_(prototype.lanes) {
    const Axis& axis = plan.axes.back();
    ways_ = axis.stride;
    // A window reaches at most this many places to the left of a cell's own.
    reach_ = axis.dilation * (axis.kernel - 1) / axis.stride + 1;
    places_ = (axis.before + axis.size + ways_ - 1) / ways_;
    row_items_ = padded_length<double>((reach_ + std::max(places_, axis.output) + 1) * lanes_);
    rows_per_output_ = 1;
    for (int a = 1; a < last_; ++a) rows_per_output_ *= plan.axes[at(a)].output;
    most_terms_ = 1;
    for (const Axis& each : plan.axes) most_terms_ *= each.dilation * (each.kernel - 1) / each.stride + 1;
    sums_.assign(padded_length<double>(places_ * lanes_) + kRowSlack, 0.0);
    for (Index way = 0; way < ways_; ++way) narrowed_.emplace_back(padded_length<T>(places_ * lanes_) + kRowSlack, T{});
    row_.assign(padded_length<T>(axis.size * lanes_) + kRowSlack, T{});
    staged_.assign(padded_length<float>(axis.output * lanes_) + kRowSlack, 0.0f);
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
      std::vector<TermRow> wider;
      const Index outputs = b + 1 < last_ ? plan_.axes[at(b) + 1].output : 1;
      for (const TermRow& term : terms_rows_)
        for (const Cover& cover : covers_[at(b)])
          wider.push_back({(term.row + cover.output) * outputs,
                           (term.code + cover.offset) * plan_.axes[at(b) + 1].kernel});
      terms_rows_ = std::move(wider);
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
      g_.assign(items, 0.0);
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
    double* g = g_.data() + r * row_items_ + reach_ * lanes_;
    std::int64_t* codes = codes_.data() + r * row_items_ + reach_ * lanes_;
    load_values(plane_->cotangent.data + walk::position(output, plane_->cotangent.strides, last_), g);
    load_codes(plane_->winners.data + walk::position(output, plane_->winners.strides, last_), codes);
    kernels_.range(g, n, range);
  }

  void load_values(const char* source, double* target) {
    const Index places = plan_.axes.back().output, stride = plane_->cotangent.strides[last_];
    const auto item = static_cast<Index>(sizeof(T));
    if (stride == item * lanes_) return widen(reinterpret_cast<const T*>(source), target, places * lanes_);
    for (Index o = 0; o < places; ++o) widen(reinterpret_cast<const T*>(source + o * stride), target + o * lanes_, lanes_);
  }

  void widen(const T* source, double* target, Index n) {
    if constexpr (std::is_same_v<T, double>) {
      std::memcpy(target, source, static_cast<std::size_t>(n) * sizeof(double));
    } else if constexpr (std::is_same_v<T, float>) {
      kernels_.widen_f32(source, target, n);
    } else {
      widen_run(source, staged_.data(), n);
      kernels_.widen_f32(staged_.data(), target, n);
    }
  }

  void load_codes(const char* source, std::int64_t* target) {
    const Index places = plan_.axes.back().output, stride = plane_->winners.strides[last_];
    const auto run = [&](const char* from, std::int64_t* to, Index n) {
      if (plane_->winner_bytes == 1) kernels_.codes_8(reinterpret_cast<const std::uint8_t*>(from), to, n);
      else kernels_.codes_16(reinterpret_cast<const std::uint16_t*>(from), to, n);
    };
    if (stride == plane_->winner_bytes * lanes_) return run(source, target, places * lanes_);
    for (Index o = 0; o < places; ++o) run(source + o * stride, target + o * lanes_, lanes_);
  }

  // Whether every sum of these terms is exact in double, or, for double terms, in two doubles: the bits of all terms and
  // sums lie in a window that fits.
  bool exact(const ExponentRange& range) const noexcept {
    if (range.largest == 0 || most_terms_ <= 1) return true;
    const auto high = static_cast<Index>(range.largest >> 52), low = static_cast<Index>((range.smallest + 1) >> 52);
    if (high == 2047) return false;
    const Index growth = std::bit_width(static_cast<std::uint64_t>(most_terms_));
    if constexpr (std::is_same_v<T, double>) return most_terms_ <= 2 || high - low + 2 * growth <= 48;
    else return high - low + growth + format_of<T>::precision <= 53;
  }

  // One row of dx from the rows of outputs in terms_rows_.
  void row(char* target) {
    const Axis& axis = plan_.axes.back();
    const Index n = padded_length<double>(places_ * lanes_);
    for (Index way = 0; way < ways_; ++way) {
      collect(way);
      T* narrowed = narrowed_[static_cast<std::size_t>(way)].data();
      if (ids_.empty()) {
        std::memset(static_cast<void*>(narrowed), 0, static_cast<std::size_t>(places_ * lanes_) * sizeof(T));
        continue;
      }
      double* sums = std::is_same_v<T, double> ? reinterpret_cast<double*>(narrowed) : sums_.data();
      const bool wide = std::is_same_v<T, double> && ids_.size() > 2;
      (wide ? kernels_.sum_wide : kernels_.sum)(term_g_.data(), term_codes_.data(), ids_.data(),
                                               static_cast<int>(ids_.size()), sums, n);
      narrow(narrowed);
    }
    const Index stride = plane_->dx.strides[last_];
    const bool dense = stride == static_cast<Index>(sizeof(T)) * lanes_;
    T* row = dense ? reinterpret_cast<T*>(target) : row_.data();
    assemble_row(row, axis);
    if (!dense) write_row<T, T>(row, target, stride, axis.size, lanes_);
  }

  // The taps through which cells of class `way` (their padded coordinate modulo the stride) are held.
  void collect(Index way) {
    const Axis& axis = plan_.axes.back();
    ids_.clear();
    term_g_.clear();
    term_codes_.clear();
    for (const TermRow& term : terms_rows_) {
      for (Index k = 0; k < axis.kernel; ++k) {
        const Index shift = k * axis.dilation - way;
        if (shift % ways_ != 0) continue;
        const Index at = term.row * row_items_ + (reach_ - shift / ways_) * lanes_;
        term_g_.push_back(g_.data() + at);
        term_codes_.push_back(codes_.data() + at);
        ids_.push_back(term.code + k);
      }
    }
  }

  void narrow(T* target) {
    const Index n = places_ * lanes_;
    if constexpr (std::is_same_v<T, float>) kernels_.narrow_f32(sums_.data(), target, n);
    else if constexpr (std::is_same_v<T, Float16>) kernels_.narrow_f16(sums_.data(), target, n);
    else if constexpr (std::is_same_v<T, BFloat16>) kernels_.narrow_bf16(sums_.data(), target, n);
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
  RowBuffer<double> g_, sums_;
  RowBuffer<std::int64_t> codes_;
  std::vector<RowBuffer<T>> narrowed_;
  RowBuffer<T> row_;
  RowBuffer<float> staged_;
  std::vector<std::vector<Cover>> covers_;
  std::vector<TermRow> terms_rows_;
  std::vector<const double*> term_g_;
  std::vector<const std::int64_t*> term_codes_;
  std::vector<std::int64_t> ids_;
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
