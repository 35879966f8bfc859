// Copies the source cells that a tile needs into a slab, converted to the type of the sums, zeros in the padding.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

#include "conv/plan.hpp"
#include "conv/elements.hpp"
#include "simd/compiler.hpp"
#include "base/convert_kernels.hpp"
#include "base/visit_bits.hpp"
#include "halfulp/memory_pool.hpp"

namespace halfulp::conv {

// How sums are formed: plainly; in double with a bound that decides; as twofold sums with a bound that decides.
enum class Mode { fast, wide, twofold };

template <class S>
const ProductKernels<S>& product_kernels(const ConvKernels& kernels, Mode mode) {
  if constexpr (std::is_same_v<S, float>) return kernels.single;
  else return mode == Mode::twofold ? kernels.twofold : kernels.wide;
}

// Rounds sums to the output's type: float64 from sums in double, the others from sums in float.
template <class S>
void store_fast(const S* sums, Index n, const Outputs& out) {
  if constexpr (std::is_same_v<S, double>) {
    std::copy_n(sums, n, out.as<double>());
  } else {
    const DType dtype = out.type->dtype;
    if (dtype == DType::f16) select_convert_kernels().to_f16(sums, out.as<Float16>(), n);
    else if (dtype == DType::bf16) select_convert_kernels().to_bf16(sums, out.as<BFloat16>(), n);
    else std::copy_n(sums, n, out.as<float>());
  }
}

// out[i * stride] = in[i], nothing between.
inline void copy_spread(const ConvKernels& kernels, const Elements& in, Index n, Index stride, const Outputs& out) {
  if (stride == 1) std::memcpy(out.at, in.at, static_cast<std::size_t>(n * in.type->size));
  else if (in.type->dtype == DType::f32) kernels.spread_f32(in.as<float>(), n, stride, out.as<float>());
  else visit_bits(in.type->dtype, [&]<class Bits>(Bits) {
    for (Index i = 0; i < n; ++i) out.as<Bits>()[i * stride] = in.as<Bits>()[i];
  });
}

// n rounded up to an odd number of 64-byte lines: walking along rows that far apart does not fall into one cache set.
template <class S>
Index odd_lines(Index n) {
  constexpr Index line = 64 / sizeof(S);
  return (ceil_div(n, line) | 1) * line;
}

// Asks for the n elements that lie `ahead` elements after `run`: a run of a later channel is too far away for the
// processor to foresee.
inline void prefetch(const Elements& run, Index ahead, Index n) {
  const Index size = run.type->size;
  const auto first = reinterpret_cast<std::uintptr_t>(run.at) + static_cast<std::uintptr_t>(ahead * size);
  prefetch_bytes(reinterpret_cast<const void*>(first), n * size);
}

// Runs of cells, one per channel, that are brought into the second-level cache little by little while something else is
// computed: cells to be staged, or to be written.
struct Ahead {
  const std::byte* data = nullptr;
  Index stride = 0, bytes = 0, channels = 0;  // from one run to the next, of a run, runs
  Index lines = 0, channel = 0, at = 0;       // fetched at a time, next run, next byte of it

  Ahead() = default;
  Ahead(const Elements& first, Index run_stride, Index cells, Index runs)
      : data(first.at), stride(run_stride * first.type->size), bytes(cells * first.type->size), channels(runs) {}
  template <class S>
  Ahead(const S* first, Index n)
      : data(reinterpret_cast<const std::byte*>(first)), bytes(n * static_cast<Index>(sizeof(S))), channels(1) {}

  // All of it in `parts` parts.
  void share(Index parts) { lines = ceil_div(ceil_div(bytes, kLine) * channels, std::max<Index>(1, parts)); }

  void fetch() {
    for (Index i = 0; i < lines && channel < channels; ++i) {
      prefetch_bytes_for_later(data + channel * stride + at, 1);
      at += kLine;
      if (at < bytes) continue;
      at = 0;
      ++channel;
    }
  }

 private:
  static constexpr Index kLine = 64;
};

// Where a slab keeps cell i of channel c: at i * cell + c * channel. Channels are innermost where they are innermost in
// the source, so that both sides are read and written in runs.
struct SlabLayout {
  Index cell = 1;
  Index channel = 0;
  bool channels_inside = false;

  template <class S>
  static SlabLayout of(Index cells, Index channels, bool channels_inside) {
    if (channels_inside) return {channels, 1, true};
    return {1, odd_lines<S>(cells), false};
  }
};

template <class S>
class Stager {
 public:
  Stager(const SlabPlan& plan, const SourcePlanes& source) : plan_(plan), source_(source) {}

  // Channels [0, channels) from `data` on.
  void stage(const Elements& data, Index channels, const SlabLayout& layout, S* slab) {
    layout_ = layout;
    if (layout.channels_inside) {
      channels_ = channels;
      stage_axis(0, data, slab);
      return;
    }
    for (Index c = 0; c < channels; ++c) {
      ahead_ = c + 2 < channels ? 2 * source_.channel : 0;
      stage_axis(0, data + c * source_.channel, slab + c * layout.channel);
    }
  }

 private:
  void stage_axis(std::size_t axis, const Elements& data, S* slab) const {
    const Index from = source_.spatial[axis];
    const bool last = axis + 1 == plan_.axes().size();
    const Index to = plan_.stride(static_cast<int>(axis)) * layout_.cell;
    for (const Segment& segment : plan_.axes()[axis].segments) {
      const Index low = segment.low, high = segment.high;
      S* out = slab + segment.begin * to;
      for (Index i = 0; i < low * to; ++i) out[i] = S(0);
      for (Index i = high * to; i < segment.count * to; ++i) out[i] = S(0);
      if (high == low) continue;
      Elements in = data + (segment.source + low * segment.step) * from;
      if (last && !layout_.channels_inside) {
        if (ahead_ != 0 && segment.step * from == 1) prefetch(in, ahead_, high - low);
        in.load(segment.step * from, high - low, out + low);
        continue;
      }
      for (Index i = low; i < high; ++i, in += segment.step * from) {
        if (last) in.load(1, channels_, out + i * to);
        else stage_axis(axis + 1, in, out + i * to);
      }
    }
  }

  const SlabPlan& plan_;
  const SourcePlanes& source_;
  SlabLayout layout_;
  Index channels_ = 0;
  Index ahead_ = 0;  // from a channel to the one that is prefetched
};

// Memory of one thread, kept between its tasks and, by the pool, between calls; aligned to cache lines. New memory
// holds zeros if `Zeroed` (a slab is read a little beyond its cells), anything otherwise.
template <class S, bool Zeroed = false>
class Buffer {
  static_assert(std::is_trivially_copyable_v<S>);

 public:
  S* at_least(Index n) {
    if (size_ < n || size_ == 0) {
      const Index size = std::max<Index>(n, 1);
      storage_.reset();
      size_ = 0;
      // No less than the pool keeps: aligned memory from the system costs more than a small product.
      const std::size_t bytes = std::max(static_cast<std::size_t>(size) * sizeof(S), memory_pool::kSmallestScratch);
      storage_.reset(static_cast<S*>(memory_pool::take(bytes, memory_pool::Use::scratch)));
      if (storage_ == nullptr) throw std::bad_alloc();
      size_ = size;
      if constexpr (Zeroed) std::fill_n(storage_.get(), size, S{});
    }
    return storage_.get();
  }

 private:
  struct Give {
    void operator()(S* block) const noexcept { memory_pool::give(block); }
  };
  std::unique_ptr<S, Give> storage_;
  Index size_ = 0;
};

}  // namespace halfulp::conv
