// Sums over rows and outputs where a vector holds neighbouring columns: groups along the last axis (batch norm of
// channels-last images and of plain rows), and the weights of layer norm. For kernels only.
#pragma once

#include <vector>

#include "normalize/kernels/planes.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// Calls body(first column, reader from there) for every vector of columns.
template <class Body>
HALFULP_ALWAYS_INLINE void each_columns(Index width, const Body& body) {
  Index j = 0;
  for (; j + kWide <= width; j += kWide) body(j, WholeVector{0});
  if (j < width) body(j, FirstItems{0, width - j});
}

HALFULP_ALWAYS_INLINE void add_to(double* high, double* low, const Doubles& block) {
  const VectorPair total = with(VectorPair{load(high), load(low)}, block);
  store(high, total.high);
  store(low, total.low);
}

// Some rows of an array as floats.
class FloatRows {
 public:
  FloatRows(DType dtype, const void* data, Index width, Index most)
      : dtype_(dtype), data_(data), width_(width), copy_(data != nullptr && is_half(dtype) ? most * width : 0) {}

  const float* from(Index row, Index stop) {
    if (copy_.empty()) return static_cast<const float*>(data_) + row * width_;
    widen_to(copy_.data(), dtype_, data_, row * width_, (stop - row) * width_);
    return copy_.data();
  }
  // For results: as many floats, where the type has none.
  float* scratch() { return copy_.empty() ? nullptr : copy_.data(); }

 private:
  DType dtype_;
  const void* data_;
  Index width_;
  std::vector<float> copy_;
};

// Rows that are added in two chains before they are added to pairs. No lanes are added here, so the chains may be
// longer than those of runs.
constexpr Index kSumRows = 4 * kSteps;
static_assert(kSumRows / 2 + 1 <= kLongest + 2 + 4);

template <bool Projections, bool Squares>
void last_sums_of(const NormProblem& p, Index begin, Index end, const ColumnSums& sums) {
  const Index width = p.groups;
  FloatRows cells(p.dtype, p.x, width, kSumRows), tangents(p.dtype, Projections ? p.t : nullptr, width, kSumRows);
  for (Index row = begin; row < end; row += kSumRows) {
    const Index stop = row + kSumRows < end ? row + kSumRows : end;
    const float* const x = cells.from(row, stop);
    const float* const t = Projections ? tangents.from(row, stop) : nullptr;
    each_columns(width, [&](Index j, const auto& read) HALFULP_IN_LINE {
      const Doubles pivot = load(sums.pivot + j);
      Doubles first[2]{}, second[2]{}, hh[2]{}, cc[2]{};
      const auto add = [&](Index at, int chain) HALFULP_IN_LINE {
        prefetch_line(x + at + kSumRows * width);
        if constexpr (Projections) prefetch_line(t + at + kSumRows * width);
        const Doubles c = read(x + at, 0.0) - pivot;
        if constexpr (Projections) {
          const Doubles h = read(t + at, 0.0);
          first[chain] += h;
          second[chain] = multiply_add(h, c, second[chain]);
          hh[chain] = multiply_add(h, h, hh[chain]);
          if constexpr (Squares) cc[chain] = multiply_add(c, c, cc[chain]);
        } else {
          first[chain] += c;
          second[chain] = multiply_add(c, c, second[chain]);
        }
      };
      Index r = 0;
      for (; r + 2 <= stop - row; r += 2) {
        add(r * width + j, 0);
        add((r + 1) * width + j, 1);
      }
      if (r < stop - row) add(r * width + j, 0);
      add_to(sums.first + j, sums.first_low + j, Doubles(first[0] + first[1]));
      add_to(sums.second + j, sums.second_low + j, Doubles(second[0] + second[1]));
      const Doubles* const most = Projections ? hh : second;
      store(sums.most + j, max_first(load(sums.most + j), max_first(most[0], most[1])));
      if constexpr (Projections) {
        store(sums.squares + j, Doubles(load(sums.squares + j) + (hh[0] + hh[1])));
        if constexpr (Squares) store(sums.other_squares + j, Doubles(load(sums.other_squares + j) + (cc[0] + cc[1])));
      }
    });
  }
}

// Layer norm, n = c r - delta r: the sums of g and g n over some rows.
inline void add_rows_of(const NormProblem& p, Index begin, Index end, const ColumnSums& sums) {
  FloatRows cells(p.dtype, p.x, p.inner, kRowBlock), cotangents(p.dtype, p.t, p.inner, kRowBlock);
  const float *const x = cells.from(begin, end), *const g = cotangents.from(begin, end);
  double pivot[kRowBlock], scale[kRowBlock], shift[kRowBlock];
  const Index rows = end - begin;
  for (Index r = 0; r < rows; ++r) {
    const GroupMoments& m = p.moments[begin + r];
    pivot[r] = m.pivot;
    scale[r] = m.scale;
    shift[r] = -(m.delta * m.scale);
  }
  each_columns(p.inner, [&](Index j, const auto& read) HALFULP_IN_LINE {
    Doubles first{}, second{}, gg{}, nn{};
    for (Index r = 0; r < rows; ++r) {
      const Index at = r * p.inner + j;
      const Doubles c = read(x + at, 0.0) - splat(pivot[r]), h = read(g + at, 0.0);
      const Doubles n = multiply_add(c, splat(scale[r]), splat(shift[r]));
      first += h;
      second = multiply_add(h, n, second);
      gg = multiply_add(h, h, gg);
      nn = multiply_add(n, n, nn);
    }
    add_to(sums.first + j, sums.first_low + j, first);
    add_to(sums.second + j, sums.second_low + j, second);
    store(sums.squares + j, Doubles(load(sums.squares + j) + gg));
    store(sums.other_squares + j, Doubles(load(sums.other_squares + j) + nn));
  });
}

// The cotangents of layer norm's weights. With the largest errors of all rows, |error of n| <= |n| relative + shift;
// sums of products are bounded by Cauchy and Schwarz.
inline void cell_weights_of(const NormProblem& p, Index begin, Index end, const ColumnSums& sums,
                            const NormReport& weights, const NormReport& biases) {
  double relative = 0, shift = 0, good = 1;
  const Index rows = p.group_count();
  for (Index r = 0; r < rows; ++r) {
    Form f;
    normal_part(f, p.moments[r]);
    relative = std::fmax(relative, f.scale_error / f.scale);
    shift = std::fmax(shift, f.shift_error + std::fabs(p.moments[r].delta) * f.scale_error);
    good *= p.moments[r].good;
  }
  const double k = kProjectionError * (1 + 0x1p-18), n = static_cast<double>(rows);
  for (Index j = begin; j < end; ++j) {
    const double gg = sums.squares[j] * (1 + 0x1p-20), nn = sums.other_squares[j] * (1 + 0x1p-20);
    const double sizes = std::sqrt(gg * n), products = std::sqrt(gg * nn);
    if (p.weight_out != nullptr) {
      const double error = (products * (relative + k) + sizes * shift) * 1.01;
      const double y = sums.second[j] + sums.second_low[j];
      if (good == 0 || !decide_as(p.dtype, y, error, p.weight_out, j)) weights.add(weights.list, j);
    }
    if (p.bias_out != nullptr) {
      const double y = sums.first[j] + sums.first_low[j];
      if (!decide_as(p.dtype, y, sizes * k, p.bias_out, j)) biases.add(biases.list, j);
    }
  }
}

// The same of channels, whose sums are in problem.sums, one for each group and channel.
inline void channel_weights_of(const NormProblem& p, Index begin, Index end, const NormReport& weights,
                               const NormReport& biases) {
  const double k = kProjectionError * (1 + 0x1p-18), n = static_cast<double>(p.cells());
  const double length = n / static_cast<double>(p.channels);
  for (Index weight = begin; weight < end; ++weight) {
    Pair sum{0.0, 0.0}, plain{0.0, 0.0};
    double error = 0, plain_error = 0, good = 1;
    for (Index group = weight / p.channels; group < p.group_count(); group += p.groups) {
      const GroupMoments& m = p.moments[group];
      const NormSums& s = p.sums[group * p.channels + weight % p.channels];
      const double delta = std::fabs(m.delta), squares = p.mean != nullptr ? s.cc : m.square * n;
      const double h_error = k * std::sqrt(s.hh * length) + 4 * kUnit * std::fabs(s.h);
      const double hc_error = k * std::sqrt(s.hh * squares) + 4 * kUnit * std::fabs(s.hc);
      const double centred = s.hc - m.delta * s.h, term = m.scale * centred;
      const double centred_error = hc_error + delta * h_error + m.delta_error * (std::fabs(s.h) + h_error) +
                                   4 * kUnit * (std::fabs(s.hc) + delta * std::fabs(s.h));
      error += (m.scale * centred_error + std::fabs(term) * (m.relative + 4 * kUnit)) * 1.02;
      plain_error += h_error;
      sum = with(sum, term);
      plain = plain + Pair{s.h, s.h_low};
      good *= m.good;
    }
    if (p.weight_out != nullptr) {
      const double y = sum.high + sum.low, off = error + 4 * kUnit * std::fabs(y);
      if (good == 0 || !decide_as(p.dtype, y, off, p.weight_out, weight)) weights.add(weights.list, weight);
    }
    if (p.bias_out != nullptr) {
      const double y = plain.high + plain.low;
      if (!decide_as(p.dtype, y, plain_error * 1.01, p.bias_out, weight)) biases.add(biases.list, weight);
    }
  }
}

// Groups along the last axis: their forms, one array for each coefficient.
struct LastForms {
  const NormProblem& p;
  Index padded;
  double* const f;  // 8 arrays of `padded` numbers
  double *pivot = f, *across = f + padded, *along = f + 2 * padded, *constant = f + 3 * padded;
  double *across_error = f + 4 * padded, *along_error = f + 5 * padded, *constant_error = f + 6 * padded;
  double* bound = f + 7 * padded;
  float* floats = reinterpret_cast<float*>(f + 8 * padded);  // of FloatForm: at most 8 arrays

  void fill() {
    for (Index j = 0; j < padded; ++j) put(j, j < p.groups ? form(j) : Form{}, j < p.groups);
  }

 private:
  void put(Index j, const Form& form, bool real) {
    const bool good = !real || (p.moments[j].good != 0 && form.finite());
    pivot[j] = good ? form.pivot : 0.0;
    across[j] = good ? form.across : 0.0;
    along[j] = good ? form.along : 0.0;
    constant[j] = good ? form.constant : 0.0;
    across_error[j] = good ? form.across_error : 0.0;
    along_error[j] = good ? form.along_error : 0.0;
    constant_error[j] = good ? form.constant_error : std::numeric_limits<double>::infinity();
    bound[j] = constant_error[j];
    if (p.work == NormWork::value || p.t == nullptr) put_floats<Rule::value>(j, form, good && real);
    else if (p.mean == nullptr) put_floats<Rule::both>(j, form, good && real);
    if (!good || !real || p.mean != nullptr) return;
    const double most = p.t == nullptr ? 0.0 : p.sums[j].most;
    bound[j] = enough(form.template error<Rule::both>(p.moments[j].largest, most, 0.0, 0.0, 0.0, 0.0));
  }

  // As for contiguous runs: cells are assumed to be within six standard deviations of a given mean.
  template <Rule rule>
  void put_floats(Index j, const Form& form, bool good) {
    if constexpr (FloatForm<rule>::exists) {
      FloatForm<rule> own;
      if (good) {
        const double pivot_size = std::fabs(form.pivot), t_most = rule == Rule::both ? p.sums[j].most : 0.0;
        const double c_most = p.mean != nullptr ? 2 * pivot_size + 6 / form.scale : p.moments[j].largest;
        const double x_most = p.mean != nullptr ? pivot_size + 6 / form.scale : c_most + pivot_size;
        const double error = form.template error<rule>(c_most, t_most, 0.0, 0.0, 0.0, 0.0);
        own = FloatForm<rule>(form, x_most, t_most, CellWeights{}, error);
      }
      own.put(floats + j, padded);
    }
  }

  Form form(Index j) const {
    const GroupMoments& m = p.moments[j];
    const double w = number_or(p.dtype, p.weight, j, 1.0), n = static_cast<double>(p.cells());
    if (p.work == NormWork::value) return value_form(m, w, number_or(p.dtype, p.bias, j, 0.0));
    GroupSums sums{};
    bool still = p.t == nullptr;
    if (p.t != nullptr && p.mean == nullptr) {
      const NormSums& s = p.sums[j];
      const double factor = p.work == NormWork::cotangent ? w : 1.0;
      sums = {factor * s.h, factor * s.hc, factor * factor * s.hh * (1 + 0x1p-40), s.most};
      still = n * s.hh - s.h * s.h <= n * s.hh * 0x1p-16 && equal_column(j);
      if (still || factor == 0) sums = {};
    }
    GroupMoments own = m;
    if (p.mean != nullptr) own.square = 0;
    Form f = derivative_form(own, sums, n);
    if (still) f.along = f.along_error = 0;
    if (p.work == NormWork::tangent)
      return tangent_form(f, w, number_or(p.dtype, p.d_weight, j, 0.0), number_or(p.dtype, p.d_bias, j, 0.0));
    const Form scaled = tangent_form(f, w, 0.0, 0.0);
    f.along = scaled.along;
    f.along_error = scaled.along_error;
    return f;
  }

  bool equal_column(Index j) const {
    const double first = number_at(p.dtype, p.t, j);
    for (Index r = 0; r < p.cells(); ++r)
      if (number_at(p.dtype, p.t, r * p.groups + j) != first) return false;
    return std::isfinite(first);
  }
};

template <bool with_cells, bool with_tangents>
class LastRows {
  static constexpr Index kTall = 32, kShort = 8;
  static constexpr Rule kRule = with_tangents ? Rule::both : Rule::value;

 public:
  LastRows(const NormProblem& p, const LastForms& f, const NormReport& report)
      : p_(p),
        f_(f),
        report_(report),
        cells_(p.dtype, with_cells ? p.x : nullptr, p.groups, kTall),
        tangents_(p.dtype, with_tangents ? p.t : nullptr, p.groups, kTall),
        results_(p.dtype, p.out, p.groups, kTall) {}

  void all(Index begin, Index end) {
    for (Index row = begin; row < end; row += kTall) band(row, row + kTall < end ? row + kTall : end);
  }

 private:
  void band(Index row, Index stop) {
    const Index width = p_.groups, rows = stop - row;
    const float* const x = with_cells ? cells_.from(row, stop) : nullptr;
    const float* const tangents = with_tangents ? tangents_.from(row, stop) : nullptr;
    const bool half = is_half(p_.dtype);
    float* const out = half ? results_.scratch() : static_cast<float*>(p_.out) + row * width;
    const bool floats = FloatForm<kRule>::exists && with_cells && !(with_tangents && p_.mean != nullptr);
    if (floats && width >= kLanes<float>) float_columns(x, tangents, row, rows, out);
    else columns(x, tangents, row, rows, 0, width, out);
    if (half)
      narrow_floats(p_.dtype, out, rows * width, p_.out, row * width,
                    [&](Index i) { one(row * width + i, i % width); });
  }

  // Columns [first, end) in double.
  HALFULP_NOINLINE void columns(const float* x, const float* tangents, Index row, Index rows, Index first,
                                         Index end, float* out) {
    const Index width = p_.groups;
    double x_most = 0, t_most = 0;
    const bool given = p_.mean != nullptr;
    if (given) {  // nobody has looked at the cells yet
      if (with_cells) x_most = largest_magnitude(x, rows * width);
      if (with_tangents) t_most = largest_magnitude(tangents, rows * width);
      if (!std::isfinite(x_most + t_most)) return leave(row, rows, first, end - first, out);
    }
    each_columns(end - first, [&](Index column, const auto& read) HALFULP_IN_LINE {
      const Index j = first + column;
      const Doubles pivot = load(f_.pivot + j), across = load(f_.across + j), along = load(f_.along + j);
      const Doubles constant = load(f_.constant + j);
      Doubles bound = load(f_.bound + j);
      if (given) {
        const Doubles c_most = splat(x_most) + magnitude(pivot);
        bound = multiply_add(c_most, load(f_.across_error + j), bound);
        bound = max_first(multiply_add(splat(t_most), load(f_.along_error + j), bound), splat(0x1p-150));
      }
      Ends<float> ends;
      for (Index at = j; at < rows * width; at += width) {
        Doubles y = constant;
        if constexpr (with_cells) {
          prefetch_line(x + at + kTall * width);
          y = multiply_add(Doubles(read(x + at, 0.0) - pivot), across, y);
        }
        if constexpr (with_tangents) {
          prefetch_line(tangents + at + kTall * width);
          y = multiply_add(read(tangents + at, 0.0), along, y);
        }
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(read)>, WholeVector>)
          ends.put_within(out + at, y, bound);
        else ends.put_first(out + at, Doubles(y - bound), Doubles(y + bound), read.count());
      }
      if (ends.differ()) leave(row, rows, j, read.count(), out);
    });
  }
  // In float32 arithmetic, some rows of some columns at a time; these once more in double if one is undecided.
  void float_columns(const float* x, const float* tangents, Index row, Index rows, float* out) {
    constexpr Index lanes = kLanes<float>;
    constexpr int together = kVectorBytes == 64 ? 4 : 2;
    const Index width = p_.groups;
    for (Index r = 0; r < rows; r += kShort) {
      const Index count = rows - r < kShort ? rows - r : kShort;
      for (Index column = 0; column < width; column += lanes) {
        const Index j = column + lanes <= width ? column : width - lanes;  // the last vector once more, up to the end
        const FloatForm<kRule> form(f_.floats + j, f_.padded);
        WordVector odd{}, beyond{};
        Index i = 0;
        for (; i + together <= count; i += together)
          float_rows<together>(form, x, tangents, (r + i) * width + j, out, odd, beyond);
        for (; i < count; ++i) float_rows<1>(form, x, tangents, (r + i) * width + j, out, odd, beyond);
        if (any_bit(odd | form.exponents(beyond)))
          columns(x + r * width, with_tangents ? tangents + r * width : nullptr, row + r, count, j, j + lanes,
                  out + r * width);
      }
    }
  }
  template <int count>
  HALFULP_ALWAYS_INLINE void float_rows(const FloatForm<kRule>& form, const float* x, const float* tangents, Index at,
                                        float* out, WordVector& odd, WordVector& beyond) const {
    const Index width = p_.groups;
    FloatVector cells[count], t[count]{}, none[count]{}, results[count];
    const CellBias bias[count];
HALFULP_UNROLL(8)
    for (int i = 0; i < count; ++i) {
      prefetch_line(x + at + (i + kTall) * width);
      cells[i] = load(x + at + i * width);
      if constexpr (with_tangents) {
        prefetch_line(tangents + at + (i + kTall) * width);
        t[i] = load(tangents + at + i * width);
      }
    }
    form.template values<with_tangents>(cells, t, none, bias, results, odd, beyond);
HALFULP_UNROLL(8)
    for (int i = 0; i < count; ++i) store(out + at + i * width, results[i]);
  }
  // Cells that go on one by one.
  void leave(Index row, Index rows, Index first, Index count, float* out) {
    if (!is_half(p_.dtype)) return check(row, row + rows, first, count);
    for (Index r = 0; r < rows; ++r)
      for (Index i = 0; i < count; ++i) out[r * p_.groups + first + i] = undecided_float(p_.dtype);
  }

  HALFULP_NOINLINE void check(Index row, Index stop, Index first, Index count) {
    for (Index r = row; r < stop; ++r)
      for (Index j = first; j < first + count; ++j) one(r * p_.groups + j, j);
  }
  void one(Index at, Index j) {
    double y = f_.constant[j], error = f_.constant_error[j];
    if constexpr (with_cells) {
      const double c = number_at(p_.dtype, p_.x, at) - f_.pivot[j];
      y = multiply_add(c, f_.across[j], y);
      error += std::fabs(c) * f_.across_error[j];
    }
    if constexpr (with_tangents) {
      const double t = number_at(p_.dtype, p_.t, at);
      y = multiply_add(t, f_.along[j], y);
      error += std::fabs(t) * f_.along_error[j];
    }
    if (!decide_as(p_.dtype, y, error, p_.out, at)) report_.add(report_.list, at);
  }

  const NormProblem& p_;
  const LastForms& f_;
  const NormReport& report_;
  FloatRows cells_, tangents_, results_;
};

inline void last_outputs_of(const NormProblem& p, double* forms, Index begin, Index end, const NormReport& report) {
  const LastForms f{p, padded_width(p.groups), forms};
  const bool cells = p.work != NormWork::cotangent || p.mean == nullptr;
  const bool tangents = p.work != NormWork::value && p.t != nullptr;
  if (!tangents) return LastRows<true, false>(p, f, report).all(begin, end);
  if (!cells) return LastRows<false, true>(p, f, report).all(begin, end);
  LastRows<true, true>(p, f, report).all(begin, end);
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
