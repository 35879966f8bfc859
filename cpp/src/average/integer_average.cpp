#include "halfulp/integer_average.hpp"

#include <atomic>
#include <cstring>
#include <limits>

#include "average/axis_windows.hpp"
#include "average/integer_kernels.hpp"
#include "average/integer_rounding.hpp"
#include "base/stream_kernels.hpp"
#include "halfulp/engines.hpp"
#include "halfulp/error.hpp"
#include "halfulp/interrupt.hpp"
#include "halfulp/parallel.hpp"

namespace halfulp {
namespace {

constexpr Index kChunk = 8192;  // outputs of a row that are done at once

// The position of an integer type in the tables of the kernels; those of 64 bits have pairs only.
constexpr int kNarrowTypes = 6;
int position_of(DType dtype) {
  switch (dtype) {
    case DType::i8: return 0;
    case DType::i16: return 1;
    case DType::i32: return 2;
    case DType::u8: case DType::boolean: return 3;
    case DType::u16: return 4;
    case DType::u32: return 5;
    case DType::i64: return 6;
    default: return 7;
  }
}

// Outputs of the row that lie `stride` apart and have `taps` cells each.
struct Run {
  Index begin, end, first, stride, taps;
};

// Outputs of the row with one factor of the divisor.
struct Share {
  Index begin, end, counted;
};

// Outputs [begin, end) of the row, which use the cells [low, high).
struct Chunk {
  Index begin, end, low, high;
  std::vector<Run> runs;
  std::vector<Share> shares;
};

struct Problem {
  std::vector<Chunk> chunks;
  std::vector<AxisWindows> outer;
  AxisWindows row;
  Index inner = 1;  // neighbours of the row's items that are pooled side by side
  const char* in;
  char* out;
  DType in_type, out_type;
  Index divisor = 0;
  const IntegerRows* rows = nullptr;  // null: 64-bit integers
  Index sum_bytes = 8;
  bool contained = false;  // every mean fits the output type
  Index next = 0;          // bytes from the rows of an output to those of the next outer one
  bool stream = false;     // the arrays are larger than the caches
  bool quick = false;      // sums are below 2^51 and divisors below 2^26
};

// The scratch of one thread.
struct Scratch {
  std::vector<char> gathered, sums, windows, high_windows, finished;
  std::vector<Index> wide;
  std::vector<const void*> rows;
  OuterWindow window;
};

void grow(std::vector<char>& bytes, Index size) {
  if (static_cast<Index>(bytes.size()) < size) bytes.resize(static_cast<std::size_t>(size));
}
void grow(std::vector<Index>& items, Index size) {
  if (static_cast<Index>(items.size()) < size) items.resize(static_cast<std::size_t>(size));
}

void copy_strided(const char* source, Index source_stride, char* target, Index target_stride, Index item, Index n) {
  const auto run = [&]<class T>(T) {
    for (Index i = 0; i < n; ++i) {
      T value;
      std::memcpy(&value, source + i * source_stride, sizeof value);
      std::memcpy(target + i * target_stride, &value, sizeof value);
    }
  };
  switch (item) {
    case 1: return run(std::uint8_t{});
    case 2: return run(std::uint16_t{});
    case 4: return run(std::uint32_t{});
    case 8: return run(std::uint64_t{});
    default:
      for (Index i = 0; i < n; ++i)
        std::memcpy(target + i * target_stride, source + i * source_stride, static_cast<std::size_t>(item));
  }
}

class Worker {
 public:
  explicit Worker(const Problem& p)
      : p_(p),
        item_(static_cast<Index>(item_size(p.in_type))),
        out_item_(static_cast<Index>(item_size(p.out_type))) {}

  // The outputs of a chunk for the outer output `flat`. Returns the first place, in items of the chunk, whose value
  // does not fit, or -1.
  Index run(Index flat, const Chunk& chunk) {
    outer_window(p_.outer, flat, s_.window);
    const AxisWindows& row = p_.row;
    const Index begin = chunk.begin, end = chunk.end;
    first_ = chunk.low;
    const Index cells = std::max<Index>(0, chunk.high - chunk.low);
    const bool empty = cells == 0 || s_.window.rows.empty();
    char* out = p_.out + s_.window.out_offset + begin * row.out_stride;
    const Index items = (end - begin) * p_.inner;
    const bool direct = p_.inner == 1 ? row.out_stride == out_item_ : row.out_stride == p_.inner * out_item_;
    if (!direct) grow(s_.finished, items * out_item_);
    char* target = direct ? out : s_.finished.data();
    const Index wrong = empty ? zeros(target, items) : compute(chunk, cells, target);
    if (!direct) copy_strided(target, p_.inner * out_item_, out, row.out_stride, p_.inner * out_item_, end - begin);
    return wrong;
  }

 private:
  Index zeros(char* target, Index items) {
    std::memset(target, 0, static_cast<std::size_t>(items * out_item_));
    return -1;
  }

  // The rows of the window as pointers to contiguous cells.
  void gather(Index cells) {
    const Index bytes = cells * p_.inner * item_;
    const Index count = static_cast<Index>(s_.window.rows.size());
    const bool direct = p_.row.in_stride == p_.inner * item_ || cells == 1;
    s_.rows.resize(static_cast<std::size_t>(count));
    if (!direct) grow(s_.gathered, bytes * count);
    for (Index r = 0; r < count; ++r) {
      const char* source = p_.in + s_.window.rows[static_cast<std::size_t>(r)] + first_ * p_.row.in_stride;
      if (!direct) {
        char* target = s_.gathered.data() + r * bytes;
        copy_strided(source, p_.row.in_stride, target, p_.inner * item_, p_.inner * item_, cells);
        source = target;
      }
      s_.rows[static_cast<std::size_t>(r)] = source;
    }
  }

  Index compute(const Chunk& chunk, Index cells, char* target) {
    gather(cells);
    const Index begin = chunk.begin, end = chunk.end, count = static_cast<Index>(s_.rows.size());
    const Run& run = chunk.runs.front();
    if (p_.contained && p_.in_type == p_.out_type && p_.inner == 1 && chunk.runs.size() == 1 &&
        run.taps == 2 && p_.row.step == 1 && run.stride == 2 && (count == 1 || count == 2 || count == 4) &&
        chunk.shares.size() == 1 && s_.window.counted * chunk.shares.front().counted == 2 * count) {
      select_integer_kernels().pairs[position_of(p_.in_type)](s_.rows.data(), count, target, end - begin, p_.stream,
                                                                p_.chunks.size() == 1 ? p_.next : 0);
      return -1;
    }
    if (p_.rows == nullptr) return compute_wide(chunk, cells, target);
    grow(s_.sums, cells * p_.inner * p_.sum_bytes);
    p_.rows->accumulate(s_.rows.data(), count, s_.sums.data(), cells * p_.inner);
    const char* const sums = sum_windows(chunk, s_.sums.data(), p_.sum_bytes, p_.rows->windows, s_.windows);
    return divide(chunk, [&](Index o, Index n, Index divisor) {
      const char* from = sums + (o - begin) * p_.inner * p_.sum_bytes;
      char* to = target + (o - begin) * p_.inner * out_item_;
      if (p_.quick && divisor > 0) {
        if (p_.contained && p_.in_type == p_.out_type) return p_.rows->mean(from, divisor, to, n), Index{-1};
        if (p_.out_type == DType::f32)
          return p_.rows->mean_float(from, divisor, reinterpret_cast<float*>(to), n), Index{-1};
        if (p_.out_type == DType::f64)
          return p_.rows->mean_double(from, divisor, reinterpret_cast<double*>(to), n), Index{-1};
      }
      grow(s_.wide, n);
      p_.rows->widen(from, s_.wide.data(), n);
      return visit(p_.out_type, [&]<class T>(T) {
        return round_means<T>(nullptr, s_.wide.data(), divisor, reinterpret_cast<T*>(to), n);
      });
    });
  }

  // 64-bit integers: the two halves of the sums apart.
  Index compute_wide(const Chunk& chunk, Index cells, char* target) {
    constexpr Index kBytes = static_cast<Index>(sizeof(Index));
    const Index items = cells * p_.inner;
    grow(s_.sums, 2 * items * kBytes);
    auto* const parts = reinterpret_cast<Index*>(s_.sums.data());
    select_integer_kernels().split(s_.rows.data(), static_cast<Index>(s_.rows.size()), p_.in_type == DType::i64, parts,
                                   parts + items, items);
    const auto windows = select_integer_kernels().rows[2][2].windows;
    const auto part_of = [&](const Index* part, std::vector<char>& to) {
      return reinterpret_cast<const Index*>(
          sum_windows(chunk, reinterpret_cast<const char*>(part), kBytes, windows, to));
    };
    const Index *const high = part_of(parts, s_.high_windows), *const low = part_of(parts + items, s_.windows);
    return divide(chunk, [&](Index o, Index n, Index divisor) {
      const Index from = (o - chunk.begin) * p_.inner;
      char* to = target + from * out_item_;
      return visit(p_.out_type, [&]<class T>(T) {
        return round_means<T>(high + from, low + from, divisor, reinterpret_cast<T*>(to), n);
      });
    });
  }

  // Sums of cells, of `bytes` each, along the row: those of the chunk's windows.
  const char* sum_windows(const Chunk& chunk, const char* sums, Index bytes, decltype(IntegerRows::windows) windows,
                          std::vector<char>& to) const {
    if (p_.row.plain) return sums;
    const Index item = p_.inner * bytes;
    grow(to, (chunk.end - chunk.begin) * item);
    for (const Run& part : chunk.runs) {
      const Index n = part.end - part.begin;
      char* const out = to.data() + (part.begin - chunk.begin) * item;
      if (part.taps == 0) std::memset(out, 0, static_cast<std::size_t>(n * item));
      else windows(sums + (part.first - first_) * item, part.stride, p_.row.step, part.taps, p_.inner, out, n);
    }
    return to.data();
  }

  // Calls f(output, items, divisor) on runs of outputs with the same divisor; the first place that does not fit.
  template <class F>
  Index divide(const Chunk& chunk, F f) const {
    Index wrong = -1;
    for (const Share& share : chunk.shares) {
      const Index divisor = p_.divisor != 0 ? p_.divisor : std::max<Index>(s_.window.counted * share.counted, 1);
      const Index found = f(share.begin, (share.end - share.begin) * p_.inner, divisor);
      if (found >= 0 && wrong < 0) wrong = (share.begin - chunk.begin) * p_.inner + found;
    }
    return wrong;
  }

  const Problem& p_;
  const Index item_, out_item_;
  Index first_ = 0;
  Scratch s_;
};

// The axes as outer ones, a row, and items side by side within the row.
void arrange(Problem& p, std::vector<AxisWindows> lines, Index item, Index out_item) {
  const auto contiguous = [&](const AxisWindows& line) {
    return line.in_stride == item && line.out_stride == out_item;
  };
  if (lines.size() >= 2 && lines.back().plain && contiguous(lines.back()) && lines.back().size <= 64 &&
      !lines[lines.size() - 2].plain) {
    p.inner = lines.back().size;
    lines.pop_back();
  }
  if (lines.empty()) {
    p.row.in_stride = item;
    p.row.out_stride = out_item;
  } else {
    p.row = std::move(lines.back());
    lines.pop_back();
  }
  p.outer = std::move(lines);
  if (!p.outer.empty() && p.outer.back().outputs > 1)
    p.next = (p.outer.back().first_of(1) - p.outer.back().first_of(0)) * p.outer.back().in_stride;
}

// Sums fit a width if the largest of them does; 64-bit integers have their own way.
void choose_sums(Problem& p, Index cells) {
  const int position = position_of(p.in_type);
  if (position >= kNarrowTypes) return;
  const int bits = 8 * static_cast<int>(item_size(p.in_type));
  const auto& table = select_integer_kernels().rows[position];
  const int width = bits == 8 && cells <= 128 ? 0 : bits < 32 && cells <= Index{1} << (31 - bits) ? 1 : 2;
  p.rows = &table[width];
  p.sum_bytes = Index{2} << width;
  p.quick = cells < (Index{1} << 26) && cells < Index{1} << (51 - bits);
}

Chunk chunk_of(const AxisWindows& row, Index begin, Index end) {
  Chunk chunk{begin, end, row.plain ? begin : row.size, row.plain ? end : 0, {}, {}};
  for (Index o = begin; o < end && !row.plain; ++o) {
    if (row.count_of(o) == 0) continue;
    chunk.low = std::min(chunk.low, row.first_of(o));
    chunk.high = std::max(chunk.high, row.first_of(o) + (row.count_of(o) - 1) * row.step + 1);
  }
  for (Index o = begin; o < end;) {
    Index next = o + 1;
    const Index taps = row.count_of(o), first = row.first_of(o);
    const Index stride = next < end ? row.first_of(next) - first : std::max<Index>(1, taps);
    while (next < end && row.count_of(next) == taps && row.first_of(next) == first + (next - o) * stride) ++next;
    chunk.runs.push_back({o, next, taps == 0 ? chunk.low : first, next - o == 1 ? 2 : stride, taps});
    o = next;
  }
  for (Index o = begin; o < end;) {
    Index next = o + 1;
    while (next < end && row.counted_of(next) == row.counted_of(o)) ++next;
    chunk.shares.push_back({o, next, row.counted_of(o)});
    o = next;
  }
  return chunk;
}

// The flat index (row-major) of an output by its byte offset among the outputs.
Index flat_index(const ArrayView& out, Index offset) {
  std::vector<int> order;
  for (int i = 0; i < out.ndim(); ++i) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return out.strides[a] > out.strides[b]; });
  Sizes place = out.shape;
  for (const int axis : order) {
    place[axis] = out.shape[axis] == 1 ? 0 : offset / out.strides[axis];
    offset -= place[axis] * (out.shape[axis] == 1 ? 0 : out.strides[axis]);
  }
  Index flat = 0;
  for (int i = 0; i < out.ndim(); ++i) flat = flat * out.shape[i] + place[i];
  return flat;
}

}  // namespace

Index average_integers(const std::string& name, std::span<const Axis> axes, bool count_include_pad, Index divisor,
                       const ArrayView& in, const ArrayView& out) {
  if (out.count() == 0) return -1;
  count_engine(Engine::average_integers);
  Problem p;
  std::vector<AxisWindows> lines = merged_windows(axes, count_include_pad, in, out);
  Index cells = 1, real = 1;
  for (const AxisWindows& line : lines) {
    const Index widest = std::max<Index>(1, line.widest()), most = std::max<Index>(1, line.most());
    if (cells > (Index{1} << 62) / widest || real >= (Index{1} << 31) / most)
      throw Error(ErrorKind::shape, name, "a window of 2**31 integers or more", "the sum must fit its parts", "I7");
    cells *= widest;
    real *= most;
  }
  arrange(p, std::move(lines), static_cast<Index>(item_size(in.dtype)), static_cast<Index>(item_size(out.dtype)));
  p.in = in.data;
  p.out = out.data;
  p.in_type = in.dtype;
  p.out_type = out.dtype;
  p.divisor = divisor;
  p.contained = divisor == 0;
  p.stream = in.count() * static_cast<Index>(item_size(in.dtype)) >= kStreamBytes;
  choose_sums(p, cells);
  if (divisor <= -(Index{1} << 26) || divisor >= (Index{1} << 26)) p.quick = false;
  Index outer = 1;
  for (const AxisWindows& line : p.outer) outer *= line.outputs;
  for (Index o = 0; o < p.row.outputs; o += kChunk)
    p.chunks.push_back(chunk_of(p.row, o, std::min(o + kChunk, p.row.outputs)));
  const Index chunks = static_cast<Index>(p.chunks.size());
  const Index work = std::max<Index>(1, std::min(p.row.outputs, kChunk) * p.inner) * real;
  std::atomic<Index> wrong{std::numeric_limits<Index>::max()};
  parallel_for(outer * chunks, std::max<Index>(1, (Index{1} << 15) / work), [&](Index begin, Index end) {
    Worker worker(p);
    unsigned calls = 0;
    for (Index i = begin; i < end; ++i) {
      if (work > (Index{1} << 18)) poll_interrupts();
      else poll_interrupts_seldom(calls);
      const Chunk& chunk = p.chunks[static_cast<std::size_t>(i % chunks)];
      const Index found = worker.run(i / chunks, chunk);
      if (found < 0) continue;
      OuterWindow window;
      outer_window(p.outer, i / chunks, window);
      const Index offset = window.out_offset + (chunk.begin + found / p.inner) * p.row.out_stride +
                           (found % p.inner) * static_cast<Index>(item_size(p.out_type));
      const Index flat = flat_index(out, offset);
      Index known = wrong.load();
      while (flat < known && !wrong.compare_exchange_weak(known, flat)) {}
    }
    if (p.stream) select_stream_kernels().finish();
  });
  const Index first = wrong.load();
  return first == std::numeric_limits<Index>::max() ? -1 : first;
}

}  // namespace halfulp
