#include "halfulp/unpool.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/pair_kernels.hpp"
#include "base/stage.hpp"
#include "base/visit_bits.hpp"
#include "halfulp/engines.hpp"
#include "halfulp/parallel.hpp"

namespace halfulp {
namespace {

constexpr Index kItemsPerThread = Index{1} << 15;

Index grain_of(Index units, Index items) {
  return std::max<Index>(1, kItemsPerThread * units / std::max<Index>(1, items));
}

// Planes of values and of cells.
struct Planes {
  Index planes = 1, positions = 1, cells = 1;
  Index rows = 0, columns = 0, height = 0, width = 0;  // 0 unless there are two axes

  Planes(int ndim, const Sizes& values, const Sizes& out) {
    const int leading = values.size() - ndim;
    for (int a = 0; a < leading; ++a) planes *= values[a];
    for (int a = leading; a < values.size(); ++a) {
      positions *= values[a];
      cells *= out[a];
    }
    if (ndim != 2) return;
    rows = values[leading];
    columns = values[leading + 1];
    height = out[leading];
    width = out[leading + 1];
  }

  // Whether there is a window of two by two cells for each value.
  bool pairs() const {
    return rows > 0 && positions > 0 && 2 * rows <= height && 2 * columns <= width && cells < Index{0x7fffffff};
  }
};

// Writes a plane of values that stay in windows of two by two cells, row by row.
class PairWriter {
 public:
  PairWriter(const Planes& planes, const ArrayView& values, const ArrayView& out)
      : p_(planes),
        item_(static_cast<Index>(item_size(out.dtype))),
        values_(values.data),
        out_(out.data),
        stage_(streams(out), 2 * planes.width * item_) {}

  void operator()(Index plane, const std::uint8_t* codes) {
    const Index bytes = p_.width * item_, used = 2 * p_.columns * item_;
    const char* values = values_ + plane * p_.positions * item_;
    char* out = out_ + plane * p_.cells * item_;
    for (Index row = 0; row < p_.rows; ++row) {
      char* const upper = stage_.row(out, 2 * bytes);
      char* const lower = upper + bytes;
      select_pair_kernels().place(values, codes, upper, lower, p_.columns, item_);
      std::memset(upper + used, 0, static_cast<std::size_t>(bytes - used));
      std::memset(lower + used, 0, static_cast<std::size_t>(bytes - used));
      values += p_.columns * item_;
      codes += p_.columns;
      out += 2 * bytes;
    }
    std::memset(out, 0, static_cast<std::size_t>((p_.cells - 2 * p_.rows * p_.width) * item_));
  }
  void finish() { stage_.finish(); }

 private:
  const Planes& p_;
  Index item_;
  const char* values_;
  char* out_;
  Stage stage_;
};

// The planes [begin, end) one after the other.
class Placer {
 public:
  Placer(const Planes& planes, const Placing& placing, Placed* placed)
      : p_(planes), placing_(placing), placed_(placed), values_(planes, placing.values, placing.out) {
    if (placing.tangents != nullptr) tangents_.emplace_back(planes, *placing.tangents, *placing.out_tangents);
    if (placed == nullptr) codes_.resize(static_cast<std::size_t>(planes.positions));
  }

  // The position in the plane of an index that is no cell and not -1; -1 if there is none.
  Index operator()(Index plane) {
    if (p_.pairs() && in_pairs(plane)) return -1;
    finish();
    Index refused = -1;
    visit_bits(placing_.values.dtype, [&]<class U>(U) {
      refused = anywhere<U>(plane, placing_.values, placing_.out);
      if (refused < 0 && placing_.tangents != nullptr)
        anywhere<U>(plane, *placing_.tangents, *placing_.out_tangents);
    });
    if (refused < 0 && placed_ != nullptr) keep(plane);
    return refused;
  }
  void finish() {
    values_.finish();
    for (PairWriter& writer : tangents_) writer.finish();
  }

 private:
  const Index* indices(Index plane) const { return placing_.indices.as<const Index>() + plane * p_.positions; }

  bool in_pairs(Index plane) {
    std::uint8_t* const codes = placed_ == nullptr ? codes_.data() : placed_->codes.data() + plane * p_.positions;
    if (!select_pair_kernels().codes(indices(plane), p_.rows, p_.columns, p_.width, codes)) return false;
    values_(plane, codes);
    for (PairWriter& writer : tangents_) writer(plane, codes);
    return true;
  }

  template <class U>
  Index anywhere(Index plane, const ArrayView& values, const ArrayView& out) const {
    const U* const value = values.as<const U>() + plane * p_.positions;
    const Index* const index = indices(plane);
    U* const target = out.as<U>() + plane * p_.cells;
    std::memset(target, 0, static_cast<std::size_t>(p_.cells) * sizeof(U));
    for (Index i = 0; i < p_.positions; ++i) {
      if (static_cast<std::uint64_t>(index[i]) < static_cast<std::uint64_t>(p_.cells)) target[index[i]] = value[i];
      else if (index[i] != -1) return i;
    }
    return -1;
  }

  void keep(Index plane) {
    std::vector<Index>& kept = placed_->cells[static_cast<std::size_t>(plane)];
    kept.assign(indices(plane), indices(plane) + p_.positions);
    owner_.resize(static_cast<std::size_t>(p_.cells));
    for (Index i = 0; i < p_.positions; ++i)
      if (const Index cell = kept[static_cast<std::size_t>(i)]; cell >= 0) owner_[static_cast<std::size_t>(cell)] = i;
    for (Index i = 0; i < p_.positions; ++i) {
      Index& cell = kept[static_cast<std::size_t>(i)];
      if (cell >= 0 && owner_[static_cast<std::size_t>(cell)] != i) cell = -1;
    }
  }

  const Planes& p_;
  const Placing& placing_;
  Placed* placed_;
  PairWriter values_;
  std::vector<PairWriter> tangents_;
  std::vector<std::uint8_t> codes_;
  std::vector<Index> owner_;  // the position that was placed last in a cell
};

}  // namespace

Index place(const Placing& placing, Placed* placed) {
  const Planes p(placing.ndim, placing.values.shape, placing.out.shape);
  count_engine(Engine::unpool);
  if (placed != nullptr) {
    *placed = {{}, {}, placing.ndim, placing.values.shape, placing.out.shape};
    placed->codes.resize(static_cast<std::size_t>(p.pairs() ? p.planes * p.positions : 0));
    placed->cells.resize(static_cast<std::size_t>(p.planes));
  }
  const Index none = p.planes * p.positions;
  std::atomic<Index> refused{none};
  parallel_for(p.planes, grain_of(p.planes, placing.out.count() + none), [&](Index begin, Index end) {
    Placer placer(p, placing, placed);
    for (Index plane = begin; plane < end; ++plane) {
      const Index wrong = placer(plane);
      if (wrong < 0) continue;
      Index first = refused.load();
      while (plane * p.positions + wrong < first &&
             !refused.compare_exchange_weak(first, plane * p.positions + wrong)) {
      }
    }
    placer.finish();
  });
  return refused.load() == none ? -1 : refused.load();
}

void pick(const Placed& placed, const ArrayView& cells, const ArrayView& out) {
  const Planes p(placed.ndim, placed.values, placed.out);
  const auto item = static_cast<Index>(item_size(out.dtype));
  const auto in_pairs = [&](Index plane) {
    for (Index row = 0; row < p.rows; ++row) {
      const char* const upper = cells.data + (plane * p.cells + 2 * row * p.width) * item;
      const Index at = plane * p.positions + row * p.columns;
      select_pair_kernels().pick(upper, upper + p.width * item, placed.codes.data() + at, out.data + at * item,
                                 p.columns, item);
    }
  };
  visit_bits(out.dtype, [&]<class U>(U) {
    parallel_for(p.planes, grain_of(p.planes, 2 * out.count() + cells.count()), [&](Index begin, Index end) {
      for (Index plane = begin; plane < end; ++plane) {
        const std::vector<Index>& kept = placed.cells[static_cast<std::size_t>(plane)];
        if (kept.empty()) {
          in_pairs(plane);
          continue;
        }
        const U* const source = cells.as<const U>() + plane * p.cells;
        U* target = out.as<U>() + plane * p.positions;
        for (const Index cell : kept) *target++ = cell < 0 ? U{0} : source[cell];
      }
    });
  });
}

}  // namespace halfulp
