// A group in pairs of doubles: float64, and what double leaves undecided. The bounds are those of form.hpp with a unit
// of 2^-90. For kernels only.
#pragma once

#include "normalize/kernels/form.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

inline Pair pair_of(double x) { return {x, 0.0}; }

// Whether pairs neither overflow nor lose bits with this number.
inline bool in_range(double x) {
  const double size = std::fabs(x);
  return size == 0 || (size > kSmallest && size < kLargest);
}

class PairGroup {
  static constexpr double u = RealTraits<Pair>::unit;

 public:
  PairGroup(const NormProblem& problem, Index group)
      : p_(&problem),
        group_(group),
        n_(static_cast<double>(problem.cells())),
        k_((n_ * 0x1p-14 + 16) * u) {}

  // False if pairs cannot be trusted with these cells.
  bool prepare_moments() { return sum_moments() && finish(); }

  // The moments without the scale.
  bool prepare_statistics() { return sum_moments(); }

  // The sums that a derivative needs: of h and of h c, h being t or w t.
  bool prepare_derivative() {
    if (p_->t == nullptr || p_->mean != nullptr) return true;
    if (!project()) return false;
    const double c_error = delta_error_ + u * std::fabs(delta_.high);
    h_mean_ = h_ / pair_of(n_);
    const Pair square = r_ * r_;
    slope_ = square * (hc_ / pair_of(n_));
    const double hc_error = (k_ * hc_size_ + h_size_ * c_error * 1.01) / n_;
    const double steep = std::fabs(slope_.high);
    slope_error_ = square.high * hc_error * 1.01 + steep * (2 * rho_ + 8 * u);
    constant_error_ = (k_ * h_size_ / n_) + steep * c_error * 1.01 + 6 * u * std::fabs(h_mean_.high);
    return true;
  }

  // (1 - momentum) old + momentum s
  Pair statistic(double& error) const {
    Pair s = pair_of(pivot_) + delta_;
    double own = delta_error_ + 2 * u * std::fabs(s.high);
    if (p_->squares) {
      const double left = n_ - static_cast<double>(p_->correction), d = std::fabs(d_.high);
      s = (q_ + -(d_ * delta_)) / pair_of(left);
      own = (k_ * q_.high + 2.1 * d * delta_error_ + n_ * delta_error_ * delta_error_ +
             6 * u * (q_.high + d * std::fabs(delta_.high))) / left + 4 * u * std::fabs(s.high);
    }
    error = own;
    if (p_->old == nullptr) return s;
    const double before = number_at(p_->dtype, p_->old, group_);
    const Pair kept = difference(1.0, p_->momentum, static_cast<Pair*>(nullptr)) * pair_of(before);
    const Pair added = s * pair_of(p_->momentum);
    error = own * std::fabs(p_->momentum) * 1.01 + 8 * u * (std::fabs(kept.high) + std::fabs(added.high));
    return kept + added;
  }

  Pair centred(double x) const { return difference(x, pivot_, static_cast<Pair*>(nullptr)) + -delta_; }

  // w c r + b
  Pair value(double x, double w, double b, double& error) const {
    const Pair c = centred(x);
    const Pair y = c * r_ * pair_of(w) + pair_of(b);
    error = std::fabs(w) * (std::fabs(c.high) * alpha_ + beta_) + 6 * u * (std::fabs(y.high) + std::fabs(b));
    return y;
  }
  Pair cotangent(double x, double g, double w, double& error) const {
    const Pair y = bent(x, product_of(g, w), error) * r_;
    error = error * r_.high * 1.02 + std::fabs(y.high) * (rho_ + 6 * u);
    return y;
  }
  Pair tangent(double x, double t, double w, double dw, double db, double& error) const {
    const Pair first = bent(x, pair_of(t), error) * r_ * pair_of(w);
    const Pair c = centred(x);
    const Pair second = c * r_ * pair_of(dw);
    const Pair y = first + second + pair_of(db);
    error = error * r_.high * std::fabs(w) * 1.02 + std::fabs(first.high) * (rho_ + 8 * u) +
            std::fabs(dw) * (std::fabs(c.high) * alpha_ + beta_) +
            8 * u * (std::fabs(first.high) + std::fabs(second.high) + std::fabs(db));
    return y;
  }
  // g c r, for the cotangent of a weight
  Pair share(double x, double g, double& error) const {
    const Pair c = centred(x);
    error = std::fabs(g) * (std::fabs(c.high) * alpha_ + beta_);
    return c * r_ * pair_of(g);
  }

 private:
  bool sum_moments() {
    if (p_->mean != nullptr) {
      pivot_ = number_at(p_->dtype, p_->mean, group_ % p_->groups);
      const double v = number_at(p_->dtype, p_->variance, group_ % p_->groups);
      whole_ = pair_of(v) + pair_of(p_->eps);
      return in_range(pivot_) && in_range(v);
    }
    pivot_ = pivot_of(p_->dtype, p_->x, p_->start(group_, 0), p_->inner < 64 ? p_->inner : 64, 1);
    for (int attempt = 0; attempt < 2; ++attempt) {
      if (!moments()) return false;
      const double mean = std::fabs(d_.high) / n_;
      if (mean * mean <= q_.high / n_ / 2 || attempt == 1) break;
      pivot_ += d_.high / n_;
      if (p_->dtype != DType::f64) pivot_ = static_cast<double>(static_cast<float>(pivot_));
    }
    delta_ = d_ / pair_of(n_);
    const double mean = std::fabs(delta_.high), square = q_.high / n_;
    delta_error_ = k_ * std::sqrt(square) * (1 + 0x1p-20) + 2 * u * mean;
    whole_ = q_ / pair_of(n_) + -(delta_ * delta_) + pair_of(p_->eps);
    whole_error_ = k_ * square + 2.1 * mean * delta_error_ + delta_error_ * delta_error_ +
                   6 * u * (square + mean * mean);
    return true;
  }

  bool finish() {
    const double size = whole_.high;
    if (!(size > 0) || !std::isfinite(size)) return false;
    const double relative = whole_error_ / size + 4 * u;
    if (!(relative < 0.01)) return false;
    r_ = pair_of(1.0) / root(whole_);
    rho_ = 0.52 * relative + 6 * u;
    alpha_ = r_.high * (rho_ + 10 * u) * 1.01;
    beta_ = r_.high * (delta_error_ + 2 * u * std::fabs(delta_.high)) * 1.02;
    return true;
  }

  HALFULP_NOINLINE bool moments() {
    PairSum d, q;
    Doubles most{}, least = splat(kLargest);
    const Doubles middle = splat(-pivot_);
    CellRow<double> cells(p_->dtype, p_->x);
    for (Index run = 0; run < p_->runs(); ++run)
      in_chunks<double>(p_->dtype, p_->inner, [&](Index at, Index count) {
        const double* const x = cells.at(p_->start(group_, run) + at, count);
        each_vector(count, [&](const auto& read) HALFULP_IN_LINE {
          const VectorPair c = sum_of(read(x, pivot_), middle);
          const Doubles size = magnitude(c.high);
          most = max_first(most, size);
          least = select((size < least) & (size != Doubles{}), size, least);
          d.add(c);
          q.add(c * c);
        });
      });
    d_ = d.sum();
    q_ = q.sum();
    double smallest = kLargest;
    for (int i = 0; i < kWide; ++i) smallest = least[i] < smallest ? least[i] : smallest;
    // A difference whose square loses bits is left to others.
    return std::isfinite(q_.high) && largest_lane(most) < kLargest &&
           (p_->dtype != DType::f64 || smallest > kSmallest) && (q_.high == 0 || q_.high > kSmallest);
  }

  // The sums of h and h c, with those of their magnitudes.
  HALFULP_NOINLINE bool project() {
    const void* const weights = p_->work == NormWork::cotangent ? p_->weight : nullptr;
    const Index pieces = p_->per_cell ? 1 : p_->channels, length = p_->inner / pieces;
    const Index channel0 = (p_->joint ? group_ : group_ % p_->groups) * p_->channels;
    const bool own = p_->per_cell && weights != nullptr;
    PairSum h, hc;
    Doubles h_size{}, hc_size{}, most{}, least = splat(kLargest);
    const Doubles middle = splat(-pivot_);
    const VectorPair delta{splat(-delta_.high), splat(-delta_.low)};
    CellRow<double> cells(p_->dtype, p_->x), tangents(p_->dtype, p_->t), factors(p_->dtype, own ? weights : nullptr);
    for (Index run = 0; run < p_->runs(); ++run)
      for (Index piece = 0; piece < pieces; ++piece) {
        const Index start = p_->start(group_, run) + piece * length;
        const Doubles shared = splat(own ? 1.0 : number_or(p_->dtype, weights, channel0 + piece, 1.0));
        in_chunks<double>(p_->dtype, length, [&](Index at, Index count) {
          const double *const x = cells.at(start + at, count), *const along = tangents.at(start + at, count);
          const double* const w = own ? factors.at(at, count) : nullptr;
          each_vector(count, [&](const auto& read) HALFULP_IN_LINE {
            const VectorPair f = product_of(read(along, 0.0), own ? read(w, 0.0) : shared);
            const VectorPair c = sum_of(read(x, pivot_), middle) + delta;
            const VectorPair product = f * c;
            const Doubles size = magnitude(f.high);
            most = max_first(most, size);
            least = select((size < least) & (size != Doubles{}), size, least);
            h.add(f);
            hc.add(product);
            h_size += size;
            hc_size += magnitude(product.high);
          });
        });
      }
    h_ = h.sum();
    hc_ = hc.sum();
    double smallest = kLargest, sizes = 0, products = 0;
    for (int i = 0; i < kWide; ++i) {
      smallest = least[i] < smallest ? least[i] : smallest;
      sizes += h_size[i];
      products += hc_size[i];
    }
    h_size_ = sizes * (1 + 0x1p-18);
    hc_size_ = products * (1 + 0x1p-18);
    return h_size_ < kLargest && hc_size_ < kLargest && smallest > kSmallest;
  }

  // h - mean(h) - c slope: its error without that of r
  Pair bent(double x, Pair h, double& error) const {
    error = 8 * u * std::fabs(h.high);
    if (p_->mean != nullptr) return h;  // whatever x is
    const Pair c = centred(x);
    error += constant_error_ + std::fabs(c.high) * (slope_error_ + 8 * u * std::fabs(slope_.high));
    return h + -h_mean_ + -(c * slope_);
  }

  const NormProblem* p_;
  Index group_;
  double n_, k_, pivot_ = 0;
  Pair d_{}, q_{}, delta_{}, whole_{}, r_{};
  double delta_error_ = 0, whole_error_ = 0, rho_ = 0, alpha_ = 0, beta_ = 0;
  Pair h_{}, hc_{}, h_mean_{}, slope_{};
  double h_size_ = 0, hc_size_ = 0, slope_error_ = 0, constant_error_ = 0;
};

// Outputs of one group in pairs.
class PreciseGroup {
 public:
  PreciseGroup(const NormProblem& p, Index group, const NormReport& report) : p_(p), group_(group), report_(report) {}

  void at(const Index* positions, Index count) {
    PairGroup pairs(p_, group_);
    const bool good = prepare(pairs);
    for (Index i = 0; i < count; ++i) one(pairs, good, positions[i]);
  }
  void all() {
    PairGroup pairs(p_, group_);
    const bool good = prepare(pairs);
    if (!good && not_a_number()) return;
    for (Index run = 0; run < p_.runs(); ++run)
      for (Index i = 0; i < p_.inner; ++i) one(pairs, good, p_.start(group_, run) + i);
  }

 private:
  static bool prepare(PairGroup& pairs) { return pairs.prepare_moments() && pairs.prepare_derivative(); }

  Index weight_of(Index position) const {
    if (p_.per_cell) return position % p_.inner;
    return position / p_.inner % p_.groups * p_.channels + position % p_.inner / (p_.inner / p_.channels);
  }

  void one(const PairGroup& pairs, bool good, Index at) {
    const DType type = p_.dtype;
    const double x = number_at(type, p_.x, at);
    const Index own = weight_of(at);
    const double w = number_or(type, p_.weight, own, 1.0), b = number_or(type, p_.bias, own, 0.0);
    const double dw = number_or(type, p_.d_weight, own, 0.0), db = number_or(type, p_.d_bias, own, 0.0);
    const double t = number_or(type, p_.t, at, 0.0);
    if (good && in_range(w) && in_range(b) && in_range(dw) && in_range(db) && in_range(t)) {
      double error;
      const Pair y = p_.work == NormWork::value       ? pairs.value(x, w, b, error)
                     : p_.work == NormWork::cotangent ? pairs.cotangent(x, t, w, error)
                                                      : pairs.tangent(x, t, w, dw, db, error);
      if (decide_as(type, y, error, p_.out, at)) return;
    }
    if (p_.work == NormWork::value && std::isnan(x))
      put_as(type, std::numeric_limits<double>::quiet_NaN(), p_.out, at);
    else report_.add(report_.list, at);
  }

  // A cell that is no finite number makes all of its group NaN, and so does a NaN among the tangents.
  bool not_a_number() {
    if (p_.mean != nullptr) return false;
    double sum = 0;
    for (Index run = 0; run < p_.runs(); ++run)
      for (Index at = p_.start(group_, run), end = at + p_.inner; at < end; ++at) {
        const double v = number_or(p_.dtype, p_.t, at, 0.0);
        sum += number_at(p_.dtype, p_.x, at) * 0.0 + (v != v ? v : 0.0);
      }
    if (sum == 0) return false;
    for (Index run = 0; run < p_.runs(); ++run)
      for (Index i = 0; i < p_.inner; ++i)
        put_as(p_.dtype, std::numeric_limits<double>::quiet_NaN(), p_.out, p_.start(group_, run) + i);
    return true;
  }

  const NormProblem& p_;
  Index group_;
  const NormReport& report_;
};

// The cotangent of one weight in pairs: the sum of g c r over the cells that share it.
inline bool pair_weight(const NormProblem& p, Index weight) {
  Pair total{0.0, 0.0};
  double error = 0, size = 0;
  Index terms = 0;
  // The cells [start, start + n) of a group.
  const auto add = [&](const PairGroup& pairs, Index start, Index n) {
    terms += n;
    for (Index i = start; i < start + n; ++i) {
      double own;
      const double g = number_at(p.dtype, p.t, i);
      if (!in_range(g)) return false;
      const Pair share = pairs.share(number_at(p.dtype, p.x, i), g, own);
      total = total + share;
      error += own;
      size += std::fabs(share.high);
    }
    return true;
  };
  const Index length = p.inner / p.channels, piece = weight % p.channels;
  const Index first = p.joint ? weight : p.per_cell ? 0 : weight / p.channels;
  const Index step = p.per_cell ? 1 : p.groups;
  for (Index group = first; group < p.group_count(); group += step) {
    PairGroup pairs(p, group);
    if (!pairs.prepare_moments()) return false;
    for (Index run = 0; run < p.runs(); ++run) {
      const Index start = p.start(group, run);
      if (!(p.per_cell ? add(pairs, start + weight, 1) : add(pairs, start + piece * length, length))) return false;
    }
  }
  error += size * (static_cast<double>(terms) * 0x1p-14 + 32) * RealTraits<Pair>::unit;
  return std::isfinite(error) && decide_as(p.dtype, total, error * (1 + 0x1p-20), p.weight_out, weight);
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
