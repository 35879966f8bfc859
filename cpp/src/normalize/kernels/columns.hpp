// Sums over rows and outputs where a vector holds neighbouring columns: groups along the last axis (batch norm of
// channels-last images and of plain rows), and the weights of layer norm. For kernels only.
#pragma once

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

// Rows that are added in two chains before they are added to pairs.
constexpr Index kSumRows = 2 * kSteps;

template <class T, bool Projections>
void last_sums_of(const NormProblem& p, Index begin, Index end, const ColumnSums& sums) {
  const T *x = static_cast<const T*>(p.x), *t = static_cast<const T*>(p.t);
  const Index width = p.groups;
  for (Index row = begin; row < end; row += kSumRows) {
    const Index stop = row + kSumRows < end ? row + kSumRows : end;
    each_columns(width, [&](Index j, const auto& read) HALFULP_INLINE_LAMBDA {
      const Doubles pivot = load(sums.pivot + j);
      Doubles first[2]{}, second[2]{}, hh[2]{}, cc[2]{};
      const auto add = [&](Index at, int chain) HALFULP_INLINE_LAMBDA {
        prefetch_line(x + at + kSumRows * width);
        if constexpr (Projections) prefetch_line(t + at + kSumRows * width);
        const Doubles c = read(x + at, 0.0) - pivot;
        if constexpr (Projections) {
          const Doubles h = read(t + at, 0.0);
          first[chain] += h;
          second[chain] = multiply_add(h, c, second[chain]);
          hh[chain] = multiply_add(h, h, hh[chain]);
          cc[chain] = multiply_add(c, c, cc[chain]);
        } else {
          first[chain] += c;
          second[chain] = multiply_add(c, c, second[chain]);
        }
      };
      Index r = row;
      for (; r + 2 <= stop; r += 2) {
        add(r * width + j, 0);
        add((r + 1) * width + j, 1);
      }
      if (r < stop) add(r * width + j, 0);
      add_to(sums.first + j, sums.first_low + j, Doubles(first[0] + first[1]));
      add_to(sums.second + j, sums.second_low + j, Doubles(second[0] + second[1]));
      const Doubles* const most = Projections ? hh : second;
      store(sums.most + j, max_first(load(sums.most + j), max_first(most[0], most[1])));
      if constexpr (Projections) {
        store(sums.squares + j, Doubles(load(sums.squares + j) + (hh[0] + hh[1])));
        store(sums.other_squares + j, Doubles(load(sums.other_squares + j) + (cc[0] + cc[1])));
      }
    });
  }
}

// Layer norm, n = c r - delta r: the sums of g and g n over some rows.
template <class T>
void add_rows_of(const NormProblem& p, Index begin, Index end, const ColumnSums& sums) {
  const T *x = static_cast<const T*>(p.x), *g = static_cast<const T*>(p.t);
  double pivot[kRowBlock], scale[kRowBlock], shift[kRowBlock];
  const Index rows = end - begin;
  for (Index r = 0; r < rows; ++r) {
    const GroupMoments& m = p.moments[begin + r];
    pivot[r] = m.pivot;
    scale[r] = m.scale;
    shift[r] = -(m.delta * m.scale);
  }
  each_columns(p.inner, [&](Index j, const auto& read) HALFULP_INLINE_LAMBDA {
    Doubles first{}, second{}, gg{}, nn{};
    for (Index r = 0; r < rows; ++r) {
      const Index at = (begin + r) * p.inner + j;
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
template <class T>
void cell_weights_of(const NormProblem& p, Index begin, Index end, const ColumnSums& sums, const NormReport& weights,
                     const NormReport& biases) {
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
      T& out = static_cast<T*>(p.weight_out)[j];
      if (good == 0 || !decide(sums.second[j] + sums.second_low[j], error, out)) weights.add(weights.list, j);
    }
    if (p.bias_out != nullptr) {
      T& out = static_cast<T*>(p.bias_out)[j];
      if (!decide(sums.first[j] + sums.first_low[j], sizes * k, out)) biases.add(biases.list, j);
    }
  }
}

// The same of channels, whose sums are in problem.sums, one for each group and channel.
template <class T>
void channel_weights_of(const NormProblem& p, Index begin, Index end, const NormReport& weights,
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
      T& out = static_cast<T*>(p.weight_out)[weight];
      const double y = sum.high + sum.low;
      if (good == 0 || !decide(y, error + 4 * kUnit * std::fabs(y), out)) weights.add(weights.list, weight);
    }
    if (p.bias_out != nullptr) {
      T& out = static_cast<T*>(p.bias_out)[weight];
      if (!decide(plain.high + plain.low, plain_error * 1.01, out)) biases.add(biases.list, weight);
    }
  }
}

// Groups along the last axis: their forms, one array for each coefficient.
template <class T>
struct LastForms {
  const NormProblem& p;
  Index padded;
  double* const f;  // 8 arrays of `padded` numbers
  double *pivot = f, *across = f + padded, *along = f + 2 * padded, *constant = f + 3 * padded;
  double *across_error = f + 4 * padded, *along_error = f + 5 * padded, *constant_error = f + 6 * padded;
  double* bound = f + 7 * padded;

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
    if (!good || !real || p.mean != nullptr) return;
    const double most = p.t == nullptr ? 0.0 : p.sums[j].most;
    bound[j] = enough(form.template error<Rule::both>(p.moments[j].largest, most, 0.0, 0.0, 0.0, 0.0));
  }

  Form form(Index j) const {
    const GroupMoments& m = p.moments[j];
    const double w = or_else<T>(p.weight, j, 1.0), n = static_cast<double>(p.cells());
    if (p.work == NormWork::value) return value_form(m, w, or_else<T>(p.bias, j, 0.0));
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
      return tangent_form(f, w, or_else<T>(p.d_weight, j, 0.0), or_else<T>(p.d_bias, j, 0.0));
    const Form scaled = tangent_form(f, w, 0.0, 0.0);
    f.along = scaled.along;
    f.along_error = scaled.along_error;
    return f;
  }

  bool equal_column(Index j) const {
    const T* t = static_cast<const T*>(p.t) + j;
    const double first = number(t[0]);
    for (Index r = 0; r < p.cells(); ++r)
      if (number(t[r * p.groups]) != first) return false;
    return std::isfinite(first);
  }
};

template <class T, bool bounded, bool with_cells, bool with_tangents>
class LastRows {
 public:
  LastRows(const NormProblem& p, const LastForms<T>& f, const NormReport& report) : p_(p), f_(f), report_(report) {}

  void all(Index begin, Index end) {
    constexpr Index tall = 32;
    const Index width = p_.groups;
    const T *const x = static_cast<const T*>(p_.x), *const tangents = static_cast<const T*>(p_.t);
    T* const target = static_cast<T*>(p_.out);
    for (Index row = begin; row < end; row += tall) {
      const Index stop = row + tall < end ? row + tall : end;
      each_columns(width, [&](Index j, const auto& read) HALFULP_INLINE_LAMBDA {
        const Doubles pivot = load(f_.pivot + j), across = load(f_.across + j), along = load(f_.along + j);
        const Doubles constant = load(f_.constant + j), bound = load(f_.bound + j);
        const Doubles across_error = load(f_.across_error + j), along_error = load(f_.along_error + j);
        Ends<T> ends;
        for (Index r = row; r < stop; ++r) {
          const Index at = r * width + j;
          Doubles y = constant, error = bound;
          if constexpr (with_cells) prefetch_line(x + at + tall * width);
          if constexpr (with_tangents) prefetch_line(tangents + at + tall * width);
          if constexpr (with_cells) {
            const Doubles c = read(x + at, 0.0) - pivot;
            y = multiply_add(c, across, y);
            if constexpr (!bounded) error = multiply_add(magnitude(c), across_error, error);
          }
          if constexpr (with_tangents) {
            const Doubles t = read(tangents + at, 0.0);
            y = multiply_add(t, along, y);
            if constexpr (!bounded) error = multiply_add(magnitude(t), along_error, error);
          }
          if constexpr (!bounded) ends.require_finite(y);
          T* const out = target + at;
          if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(read)>, WholeVector>)
            ends.put_first(out, Doubles(y - error), Doubles(y + error), read.count());
          else if constexpr (bounded) ends.put_within(out, y, error);
          else ends.put(out, Doubles(y - error), Doubles(y + error));
        }
        if (ends.differ()) check(row, stop, j, read.count());
      });
    }
  }

 private:
  __attribute__((noinline)) void check(Index row, Index stop, Index first, Index count) {
    for (Index r = row; r < stop; ++r)
      for (Index j = first; j < first + count; ++j) {
        const Index at = r * p_.groups + j;
        double y = f_.constant[j], error = f_.constant_error[j];
        if constexpr (with_cells) {
          const double c = number(static_cast<const T*>(p_.x)[at]) - f_.pivot[j];
          y = multiply_add(c, f_.across[j], y);
          error += std::fabs(c) * f_.across_error[j];
        }
        if constexpr (with_tangents) {
          const double t = number(static_cast<const T*>(p_.t)[at]);
          y = multiply_add(t, f_.along[j], y);
          error += std::fabs(t) * f_.along_error[j];
        }
        if (!decide(y, error, static_cast<T*>(p_.out)[at])) report_.add(report_.list, at);
      }
  }

  const NormProblem& p_;
  const LastForms<T>& f_;
  const NormReport& report_;
};

template <class T>
void last_outputs_of(const NormProblem& p, double* forms, Index begin, Index end, const NormReport& report) {
  const LastForms<T> f{p, padded_width(p.groups), forms};
  const bool given = p.mean != nullptr;
  if (p.work == NormWork::value) {
    if (given) return LastRows<T, false, true, false>(p, f, report).all(begin, end);
    return LastRows<T, true, true, false>(p, f, report).all(begin, end);
  }
  if (given && p.work == NormWork::cotangent) return LastRows<T, false, false, true>(p, f, report).all(begin, end);
  if (p.t == nullptr) return LastRows<T, false, true, false>(p, f, report).all(begin, end);
  if (given) return LastRows<T, false, true, true>(p, f, report).all(begin, end);
  LastRows<T, true, true, true>(p, f, report).all(begin, end);
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
