// Normalisation over groups, see halfulp/normalize.hpp. Every group is evaluated in double first (float64 in pairs of
// doubles); what that leaves undecided is evaluated again in pairs.
#include "normalize/normalize_kernels.hpp"

#include <cmath>
#include <limits>

#include "normalize/kernels/decide.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

template <class T, class Real>
class Group {
  using R = RealTraits<Real>;
  static constexpr double u = R::unit;

 public:
  Group(const NormProblem& problem, Index group)
      : p_(&problem),
        group_(group),
        x_(static_cast<const T*>(problem.x)),
        n_(static_cast<double>(problem.cells())),
        given_(problem.mean != nullptr) {}

  // False if this kind of number cannot be trusted with these cells.
  bool prepare_moments() {
    if (p_->mean != nullptr) {
      pivot_ = number(static_cast<const T*>(p_->mean)[group_]);
      const double v = number(static_cast<const T*>(p_->variance)[group_]);
      const Real whole = real<Real>(v) + real<Real>(p_->eps);
      if (!in_range(pivot_) || !in_range(v)) return false;
      return finish_moments(whole, 0.0);
    }
    const Index head = p_->inner < 64 ? p_->inner : 64;
    const T* first = x_ + p_->start(group_, 0);
    bool equal = true;
    double sum = 0;
    for (Index i = 0; i < head; ++i) {
      sum += number(first[i]);
      equal = equal && number(first[i]) == number(first[0]);
    }
    pivot_ = equal ? number(first[0]) : static_cast<double>(static_cast<float>(sum / static_cast<double>(head)));
    if (!std::isfinite(pivot_)) pivot_ = number(first[0]);
    for (int attempt = 0; attempt < 2; ++attempt) {
      moments();
      if (!std::isfinite(size_of(q_))) return false;
      if (sizeof(Real) != sizeof(double) && !(largest_ < kLargest && (q_zero() || size_of(q_) > kSmallest)))
        return false;
      const double mean = size_of(d_) / n_;
      if (mean * mean <= size_of(q_) / n_ / 2 || attempt == 1) break;
      pivot_ += R::high(d_) / n_;
      if (sizeof(T) < sizeof(double)) pivot_ = static_cast<double>(static_cast<float>(pivot_));
    }
    const double k = sum_error<Real>(p_->cells());
    delta_ = d_ / real<Real>(n_);
    const double mean = size_of(delta_), square = size_of(q_) / n_;
    delta_error_ = k * std::sqrt(square) * (1 + 0x1p-20) + 2 * u * mean;
    const Real variance = q_ / real<Real>(n_) + negated(delta_ * delta_);
    const double error = k * square + 2.1 * mean * delta_error_ + delta_error_ * delta_error_ +
                         6 * u * (square + mean * mean);
    return eps_free_ || finish_moments(variance + real<Real>(p_->eps), error);
  }

  // The sums that a derivative needs: of h and of h c, h being t or w t.
  bool prepare_derivative() {
    if (p_->t == nullptr || p_->mean != nullptr) return true;
    projections();
    if (!std::isfinite(h_size_) || !std::isfinite(hc_size_)) return false;
    if (sizeof(Real) != sizeof(double) && !(h_size_ < kLargest && hc_size_ < kLargest)) return false;
    const double k = sum_error<Real>(p_->cells());
    const double c_error = delta_error_ + u * size_of(delta_);
    h_mean_ = h_ / real<Real>(n_);
    const Real square = r_ * r_;
    q_slope_ = square * (hc_ / real<Real>(n_));
    const double hc_error = (k * hc_size_ + h_size_ * c_error * 1.01) / n_;
    const double slope = size_of(q_slope_);
    slope_error_ = size_of(square) * hc_error * 1.01 + slope * (2 * rho_ + 8 * u);
    constant_error_ = (k * h_size_ / n_) + slope * c_error * 1.01 + 6 * u * size_of(h_mean_);
    return true;
  }

  // (1 - momentum) old + momentum s
  Real statistic(double& error) const {
    Real s = real<Real>(pivot_) + delta_;
    double own = delta_error_ + 2 * u * size_of(s);
    if (p_->squares) {
      const Real total = q_ + negated(d_ * delta_);
      const double k = sum_error<Real>(p_->cells()), left = n_ - static_cast<double>(p_->correction);
      s = total / real<Real>(left);
      own = (k * size_of(q_) + 2.1 * size_of(d_) * delta_error_ + n_ * delta_error_ * delta_error_ +
             6 * u * (size_of(q_) + size_of(d_) * size_of(delta_))) / left + 4 * u * size_of(s);
    }
    if (p_->old == nullptr) {
      error = own;
      return s;
    }
    const double before = number(static_cast<const T*>(p_->old)[group_]);
    const Real kept = difference(1.0, p_->momentum, static_cast<Real*>(nullptr)) * real<Real>(before);
    const Real added = s * real<Real>(p_->momentum);
    error = own * std::fabs(p_->momentum) * 1.01 + 8 * u * (size_of(kept) + size_of(added));
    return kept + added;
  }
  // The moments, without what a normalisation needs of them.
  bool prepare_statistics() {
    eps_free_ = true;
    return prepare_moments();
  }

  HALFULP_ALWAYS_INLINE Real centred(T x) const {
    return difference(number(x), pivot_, static_cast<Real*>(nullptr)) + negated(delta_);
  }

  // w c r + b
  HALFULP_ALWAYS_INLINE Real value(T x, double w, double b, double& error) const {
    const Real c = centred(x);
    const Real y = c * r_ * real<Real>(w) + real<Real>(b);
    error = std::fabs(w) * (size_of(c) * alpha_ + beta_) + 6 * u * size_of(y);
    return y;
  }
  // r (h - mean(h) - c slope), before r: its error without r's own
  template <bool Given>
  HALFULP_ALWAYS_INLINE Real bent(T x, Real h, double& error) const {
    if constexpr (Given) {  // whatever x is
      error = 8 * u * size_of(h);
      return h;
    }
    const Real c = centred(x);
    const Real bracket = h + negated(h_mean_) + negated(c * q_slope_);
    const double size = size_of(c);
    error = constant_error_ + size * (slope_error_ + 8 * u * size_of(q_slope_)) + 8 * u * size_of(h);
    return bracket;
  }
  Real product(double t, double w) const { return real<Real>(t) * real<Real>(w); }
  template <bool Given>
  HALFULP_ALWAYS_INLINE Real cotangent(T x, double g, double w, double& error) const {
    const Real bracket = bent<Given>(x, product(g, w), error);
    const Real y = bracket * r_;
    error = error * size_of(r_) * 1.02 + size_of(y) * (rho_ + 6 * u);
    return y;
  }
  Real tangent(T x, double t, double w, double dw, double db, double& error) const {
    const Real bracket = given_ ? bent<true>(x, real<Real>(t), error) : bent<false>(x, real<Real>(t), error);
    const Real first = bracket * r_ * real<Real>(w);
    const Real c = centred(x);
    const Real second = c * r_ * real<Real>(dw);
    const Real y = first + second + real<Real>(db);
    error = error * size_of(r_) * std::fabs(w) * 1.02 + size_of(first) * (rho_ + 8 * u) +
            std::fabs(dw) * (size_of(c) * alpha_ + beta_) + 8 * u * (size_of(first) + size_of(second) + size_of(y));
    return y;
  }
  // g c r, for the cotangent of a weight
  HALFULP_ALWAYS_INLINE Real share(T x, double g, double& error) const {
    const Real c = centred(x);
    error = std::fabs(g) * (size_of(c) * alpha_ + beta_);
    return c * r_ * real<Real>(g);
  }

 private:
  static bool in_range(double x) {
    const double size = std::fabs(x);
    return sizeof(Real) == sizeof(double) ? std::isfinite(x) : size == 0 || (size > kSmallest && size < kLargest);
  }
  bool q_zero() const { return R::high(q_) == 0; }

  bool finish_moments(Real whole, double error) {
    const double size = R::high(whole);
    if (!(size > 0) || !std::isfinite(size)) return false;
    const double relative = error / size + 4 * u;
    if (!(relative < 0.01)) return false;
    r_ = real<Real>(1.0) / root(whole);
    rho_ = 0.52 * relative + 6 * u;
    alpha_ = size_of(r_) * (rho_ + 10 * u) * 1.01;
    beta_ = size_of(r_) * (delta_error_ + 2 * u * size_of(delta_)) * 1.02;
    return true;
  }

  void moments() {
    if constexpr (sizeof(Real) == sizeof(double)) {
      Pair d{0.0, 0.0}, q{0.0, 0.0};
      for (Index run = 0; run < p_->runs(); ++run) {
        const T* x = x_ + p_->start(group_, run);
        const double pivot = pivot_;
        for (Index at = 0; at < p_->inner; at += kBlock) {
          const Index stop = p_->inner - at < kBlock ? p_->inner - at : kBlock, whole = stop / kLanes16 * kLanes16;
          Lanes ds, qs;
          for (Index i = 0; i < whole; i += kLanes16)
            for (int l = 0; l < kLanes16; ++l) {
              const double c = number(x[at + i + l]) - pivot;
              ds.lane[l] += c;
              qs.lane[l] += c * c;
            }
          for (Index i = whole; i < stop; ++i) {
            const double c = number(x[at + i]) - pivot;
            ds.lane[i - whole] += c;
            qs.lane[i - whole] += c * c;
          }
          d = with(d, ds.sum());
          q = with(q, qs.sum());
        }
      }
      d_ = d.high;
      q_ = q.high;
    } else {
      d_ = q_ = Real{0.0, 0.0};
      largest_ = 0;
      for (Index run = 0; run < p_->runs(); ++run) {
        const T* x = x_ + p_->start(group_, run);
        for (Index i = 0; i < p_->inner; ++i) {
          const Real c = difference(number(x[i]), pivot_, static_cast<Real*>(nullptr));
          const double size = std::fabs(c.high);
          // A difference whose square loses bits is left to others.
          largest_ = size > largest_ ? size : largest_;
          if (size != 0 && size < kSmallest) largest_ = INFINITY;
          if (!std::isfinite(c.high)) largest_ = INFINITY;
          d_ = d_ + c;
          q_ = q_ + c * c;
        }
      }
    }
  }

  double factor(Index run_channel_weight) const {
    return p_->weight == nullptr ? 1.0 : number(static_cast<const T*>(p_->weight)[run_channel_weight]);
  }

  void projections() {
    const T* t = static_cast<const T*>(p_->t);
    const bool weighted = p_->work == NormWork::cotangent && p_->weight != nullptr;
    h_size_ = hc_size_ = 0;
    Pair h{0.0, 0.0}, hc{0.0, 0.0};
    const Index per_channel = p_->per_cell ? p_->inner : p_->inner / p_->channels;
    const Index pieces = p_->per_cell ? 1 : p_->channels;
    const Index channel0 = (p_->joint ? group_ : group_ % p_->groups) * p_->channels;
    for (Index run = 0; run < p_->runs(); ++run)
      for (Index piece = 0; piece < pieces; ++piece) {
        const Index start = p_->start(group_, run) + piece * per_channel;
        const double w = weighted && !p_->per_cell ? factor(channel0 + piece) : 1.0;
        const T* ws = weighted && p_->per_cell ? static_cast<const T*>(p_->weight) : nullptr;
        if constexpr (sizeof(Real) == sizeof(double)) {
          for (Index at = 0; at < per_channel; at += kBlock) {
            const Index stop = per_channel - at < kBlock ? per_channel - at : kBlock;
            project(x_ + start + at, t + start + at, ws == nullptr ? nullptr : ws + at, w, stop, h, hc);
          }
        } else {
          for (Index i = 0; i < per_channel; ++i) {
            const Real c = centred(x_[start + i]);
            const Real f = product(number(t[start + i]), ws == nullptr ? w : number(ws[i]));
            if (!in_range(f.high)) h_size_ = INFINITY;
            h = h + f;
            hc = hc + f * c;
            h_size_ += std::fabs(f.high);
            hc_size_ += std::fabs(f.high * c.high);
          }
        }
      }
    if constexpr (sizeof(Real) == sizeof(double)) {
      h_ = h.high;
      hc_ = hc.high;
    } else {
      h_ = h;
      hc_ = hc;
    }
    h_size_ *= 1.0 + 0x1p-20;
    hc_size_ *= 1.0 + 0x1p-20;
  }

  void project(const T* x, const T* t, const T* ws, double w, Index n, Pair& h, Pair& hc) {
    Lanes hs, hcs, sizes, c_sizes;
    const double delta = R::high(delta_), pivot = pivot_;
    const auto each = [&](auto factor) {
      const auto add = [&](Index i, int l) {
      const double c = (number(x[i]) - pivot) - delta;
      const double f = number(t[i]) * factor(i);
      hs.lane[l] += f;
      hcs.lane[l] += f * c;
      sizes.lane[l] += std::fabs(f);
      c_sizes.lane[l] += std::fabs(f * c);
      };
      const Index whole = n / kLanes16 * kLanes16;
      for (Index i = 0; i < whole; i += kLanes16)
        for (int l = 0; l < kLanes16; ++l) add(i + l, l);
      for (Index i = whole; i < n; ++i) add(i, static_cast<int>(i - whole));
    };
    if (ws == nullptr) each([w](Index) { return w; });
    else each([ws](Index i) { return number(ws[i]); });
    h = with(h, hs.sum());
    hc = with(hc, hcs.sum());
    h_size_ += sizes.sum();
    hc_size_ += c_sizes.sum();
  }

  const NormProblem* p_;
  Index group_;
  const T* x_;
  double n_;
  bool given_;
  double pivot_ = 0, largest_ = 0;
  bool eps_free_ = false;
  Real d_{}, q_{}, delta_{}, r_{};
  double delta_error_ = 0, rho_ = 0, alpha_ = 0, beta_ = 0;
  Real h_{}, hc_{}, h_mean_{}, q_slope_{};
  double h_size_ = 0, hc_size_ = 0, slope_error_ = 0, constant_error_ = 0;
};

// One cell: (value, error).
template <class T, class Real>
struct Cell {
  const Group<T, Real>& group;
  const NormProblem& p;
  inline Real operator()(NormWork work, Index at, double w, double b, double dw, double db, double& error) const {
    const T x = static_cast<const T*>(p.x)[at];
    const double t = p.t == nullptr ? 0.0 : number(static_cast<const T*>(p.t)[at]);
    if (work == NormWork::value) return group.value(x, w, b, error);
    if (work == NormWork::cotangent)
      return p.mean != nullptr ? group.template cotangent<true>(x, t, w, error)
                               : group.template cotangent<false>(x, t, w, error);
    return group.tangent(x, t, w, dw, db, error);
  }
};

template <class T>
double or_else(const void* array, Index i, double otherwise) {
  return array == nullptr ? otherwise : number(static_cast<const T*>(array)[i]);
}

template <class T>
class Evaluation {
 public:
  Evaluation(const NormProblem& p, Index group, const NormReport& report) : p_(p), group_(group), report_(report) {}

  void run() {
    if constexpr (sizeof(T) == sizeof(double)) {
      precise();
      return;
    }
    Group<T, double> quick(p_, group_);
    if (!quick.prepare_moments() || !quick.prepare_derivative()) return precise();
    Index unsure = 0;
    each_run([&](Index start, Index n, Index weight, bool cellwise) {
      if (p_.work == NormWork::value) unsure += values(quick, start, n, weight, cellwise);
      else if (p_.work == NormWork::cotangent) unsure += cotangents(quick, start, n, weight, cellwise);
      else unsure += tangents(quick, start, n, weight, cellwise);
    });
    if (unsure > 0) precise(&quick);
  }

 private:
  // A cell that is no finite number makes all of its group NaN, and so does a NaN among the tangents.
  bool not_a_number() {
    if (p_.mean != nullptr) return false;
    const T *x = static_cast<const T*>(p_.x), *t = static_cast<const T*>(p_.t);
    double sum = 0;
    for (Index run = 0; run < p_.runs(); ++run) {
      const Index start = p_.start(group_, run);
      for (Index i = 0; i < p_.inner; ++i) sum += number(x[start + i]) * 0.0;
      if (t != nullptr)
        for (Index i = 0; i < p_.inner; ++i) {
          const double v = number(t[start + i]);
          sum += v != v ? v : 0.0;
        }
    }
    if (sum == 0) return false;
    for (Index run = 0; run < p_.runs(); ++run)
      for (Index i = 0; i < p_.inner; ++i)
        static_cast<T*>(p_.out)[p_.start(group_, run) + i] = round_to<T>(std::numeric_limits<double>::quiet_NaN());
    return true;
  }

  template <class F>
  void each_run(F&& body) {
    const Index pieces = p_.per_cell ? 1 : p_.channels, length = p_.inner / pieces;
    const Index channel0 = (p_.joint ? group_ : group_ % p_.groups) * p_.channels;
    for (Index run = 0; run < p_.runs(); ++run)
      for (Index piece = 0; piece < pieces; ++piece)
        body(p_.start(group_, run) + piece * length, length, p_.per_cell ? 0 : channel0 + piece, p_.per_cell);
  }

  template <class Body>
  static Index loop(T* out, Index n, Body&& body) {
    Index unsure = 0;
    for (Index i = 0; i < n; ++i) {
      double error;
      const double y = body(i, error);
      unsure += decide(y, error, out[i]) ? 0 : 1;
    }
    return unsure;
  }

  Index values(const Group<T, double>& group, Index start, Index n, Index weight, bool cellwise) {
    const T* x = static_cast<const T*>(p_.x) + start;
    T* out = static_cast<T*>(p_.out) + start;
    const T *ws = static_cast<const T*>(p_.weight), *bs = static_cast<const T*>(p_.bias);
    const Group<T, double> g = group;
    if (cellwise && ws != nullptr && bs != nullptr)
      return loop(out, n, [=](Index i, double& e) { return g.value(x[i], number(ws[i]), number(bs[i]), e); });
    if (cellwise && ws != nullptr)
      return loop(out, n, [=](Index i, double& e) { return g.value(x[i], number(ws[i]), 0.0, e); });
    if (cellwise && bs != nullptr)
      return loop(out, n, [=](Index i, double& e) { return g.value(x[i], 1.0, number(bs[i]), e); });
    const double w = cellwise ? 1.0 : or_else<T>(p_.weight, weight, 1.0);
    const double b = cellwise ? 0.0 : or_else<T>(p_.bias, weight, 0.0);
    return loop(out, n, [=](Index i, double& e) { return g.value(x[i], w, b, e); });
  }

  Index cotangents(const Group<T, double>& group, Index start, Index n, Index weight, bool cellwise) {
    const T* x = static_cast<const T*>(p_.x) + start;
    const T* t = static_cast<const T*>(p_.t) + start;
    T* out = static_cast<T*>(p_.out) + start;
    const T* ws = static_cast<const T*>(p_.weight);
    const Group<T, double> g = group;
    if (cellwise && ws != nullptr)
      return loop(out, n, [=](Index i, double& e) {
        return g.template cotangent<false>(x[i], number(t[i]), number(ws[i]), e);
      });
    const double w = cellwise ? 1.0 : or_else<T>(p_.weight, weight, 1.0);
    if (p_.mean != nullptr)
      return loop(out, n, [=](Index i, double& e) { return g.template cotangent<true>(x[i], number(t[i]), w, e); });
    return loop(out, n, [=](Index i, double& e) { return g.template cotangent<false>(x[i], number(t[i]), w, e); });
  }

  Index tangents(const Group<T, double>& group, Index start, Index n, Index weight, bool cellwise) {
    Index unsure = 0;
    for (Index i = 0; i < n; ++i) {
      double error;
      const double y = one(group, start + i, cellwise ? i : weight, error);
      unsure += decide(y, error, static_cast<T*>(p_.out)[start + i]) ? 0 : 1;
    }
    return unsure;
  }

  template <class Real>
  Real one(const Group<T, Real>& group, Index at, Index weight, double& error) const {
    const Cell<T, Real> cell{group, p_};
    return cell(p_.work, at, or_else<T>(p_.weight, weight, 1.0), or_else<T>(p_.bias, weight, 0.0),
                or_else<T>(p_.d_weight, weight, 0.0), or_else<T>(p_.d_bias, weight, 0.0), error);
  }

  // In pairs: all cells, or those that `quick` left undecided.
  void precise(const Group<T, double>* quick = nullptr) {
    Group<T, Pair> group(p_, group_);
    const bool good = group.prepare_moments() && group.prepare_derivative();
    if (!good && not_a_number()) return;
    T* out = static_cast<T*>(p_.out);
    each_run([&](Index start, Index n, Index weight, bool cellwise) {
      for (Index i = 0; i < n; ++i) {
        const Index at = start + i, own = cellwise ? i : weight;
        if (quick != nullptr) {
          double error;
          const double y = one(*quick, at, own, error);
          if (decide(y, error, out[at])) continue;
        }
        if (good) {
          double error;
          const Pair y = one(group, at, own, error);
          if (in_reach(own, at) && decide(y, error, out[at])) continue;
        }
        if (p_.work == NormWork::value && std::isnan(number(static_cast<const T*>(p_.x)[at])))
          out[at] = round_to<T>(std::numeric_limits<double>::quiet_NaN());
        else report_.add(report_.list, at);
      }
    });
  }

  // Whether pairs neither overflow nor lose bits with this cell's factors.
  bool in_reach(Index weight, Index at) const {
    const double all[] = {or_else<T>(p_.weight, weight, 1.0), or_else<T>(p_.bias, weight, 0.0),
                          or_else<T>(p_.d_weight, weight, 0.0), or_else<T>(p_.d_bias, weight, 0.0),
                          or_else<T>(p_.t, at, 0.0)};
    for (const double x : all) {
      const double size = std::fabs(x);
      if (size != 0 && !(size > kSmallest && size < kLargest)) return false;
    }
    return true;
  }

  const NormProblem& p_;
  Index group_;
  const NormReport& report_;
};

// The groups that share a weight, and the cells of each: body(group, first cell, count).
template <class F>
void sharing(const NormProblem& p, Index weight, F&& body) {
  if (p.per_cell) {
    for (Index group = 0; group < p.group_count(); ++group) body(group, p.start(group, 0) + weight, Index{1});
    return;
  }
  const Index length = p.inner / p.channels, group = weight / p.channels, piece = weight % p.channels;
  for (Index block = 0; block < p.blocks; ++block) {
    const Index which = p.joint ? group : block * p.groups + group;
    body(which, (block * p.groups + group) * p.inner + piece * length, length);
  }
}

template <class T, class Real>
bool weight_sum(const NormProblem& p, Index weight, T& result) {
  const T *x = static_cast<const T*>(p.x), *g = static_cast<const T*>(p.t);
  Real total{};
  double error = 0, size = 0;
  bool good = true;
  Index terms = 0, last = -1;
  Group<T, Real> current(p, 0);
  sharing(p, weight, [&](Index group, Index start, Index n) {
    if (!good) return;
    if (group != last) {
      current = Group<T, Real>(p, group);
      good = current.prepare_moments();
      last = group;
    }
    for (Index i = start; good && i < start + n; ++i) {
      double own;
      const double factor = number(g[i]);
      const double reach = std::fabs(factor);
      if (sizeof(Real) != sizeof(double) && reach != 0 && !(reach > kSmallest && reach < kLargest)) good = false;
      const Real share = current.share(x[i], factor, own);
      total = total + share;
      error += own;
      size += size_of(share);
    }
    terms += n;
  });
  if (!good) return false;
  error += size * (static_cast<double>(terms) * 0x1p-14 + 32) * RealTraits<Pair>::unit;
  return std::isfinite(error) && decide(total, error * (1 + 0x1p-20), result);
}

// Batch norm in double: one group for a weight, in blocks.
template <class T>
bool joint_weight(const NormProblem& p, Index weight, T& result) {
  const T *x = static_cast<const T*>(p.x), *g = static_cast<const T*>(p.t);
  Group<T, double> group(p, weight);
  if (!group.prepare_moments()) return false;
  Pair total{0.0, 0.0};
  double errors = 0, sizes = 0;
  for (Index block = 0; block < p.blocks; ++block) {
    const Index start = p.start(weight, block);
    for (Index at = 0; at < p.inner; at += kBlock) {
      const Index n = p.inner - at < kBlock ? p.inner - at : kBlock, whole = n / kLanes16 * kLanes16;
      Lanes sum, error, size;
      const Group<T, double> own = group;
      const auto add = [&](Index i, int l) {
        double e;
        const double share = own.share(x[start + at + i], number(g[start + at + i]), e);
        sum.lane[l] += share;
        error.lane[l] += e;
        size.lane[l] += std::fabs(share);
      };
      for (Index i = 0; i < whole; i += kLanes16)
        for (int l = 0; l < kLanes16; ++l) add(i + l, l);
      for (Index i = whole; i < n; ++i) add(i, static_cast<int>(i - whole));
      total = with(total, sum.sum());
      errors += error.sum();
      sizes += size.sum();
    }
  }
  const double error = (errors + sizes * sum_error<double>(0)) * (1 + 0x1p-20);
  return std::isfinite(error) && decide(total.high + total.low, error, result);
}

template <class T>
void weights_of(const NormProblem& p, Index begin, Index end, const NormReport& report) {
  T* out = static_cast<T*>(p.out);
  for (Index weight = begin; weight < end; ++weight) {
    if constexpr (sizeof(T) < sizeof(double))
      if (p.joint && joint_weight<T>(p, weight, out[weight])) continue;
    if (!weight_sum<T, Pair>(p, weight, out[weight])) report.add(report.list, weight);
  }
}

// Layer norm in double: many columns at a time.
constexpr Index kColumns = 1024;

template <class T>
void columns_of(const NormProblem& p, Index begin, Index end, const NormReport& report) {
  const T *x = static_cast<const T*>(p.x), *g = static_cast<const T*>(p.t);
  T* out = static_cast<T*>(p.out);
  const Index width = end - begin;
  double high[kColumns] = {}, low[kColumns] = {}, errors[kColumns] = {}, sizes[kColumns] = {};
  bool good = sizeof(T) < sizeof(double);
  for (Index at = 0; good && at < p.group_count(); at += 32) {
    double sum[kColumns] = {};
    const Index stop = at + 32 < p.group_count() ? at + 32 : p.group_count();
    for (Index row = at; row < stop; ++row) {
      Group<T, double> group(p, row);
      good = good && group.prepare_moments();
      const Group<T, double> own = group;
      const T *xs = x + row * p.inner + begin, *gs = g + row * p.inner + begin;
      for (Index j = 0; j < width; ++j) {
        double e;
        const double share = own.share(xs[j], number(gs[j]), e);
        sum[j] += share;
        errors[j] += e;
        sizes[j] += std::fabs(share);
      }
    }
    for (Index j = 0; j < width; ++j) {
      const Pair total = with(Pair{high[j], low[j]}, sum[j]);
      high[j] = total.high;
      low[j] = total.low;
    }
  }
  for (Index j = 0; j < width; ++j) {
    const double error = (errors[j] + sizes[j] * sum_error<double>(0)) * (1 + 0x1p-20);
    if (good && std::isfinite(error) && decide(high[j] + low[j], error, out[begin + j])) continue;
    if (!weight_sum<T, Pair>(p, begin + j, out[begin + j])) report.add(report.list, begin + j);
  }
}

template <class T, class Real>
bool statistic_of(const NormProblem& p, Index which) {
  Group<T, Real> group(p, which);
  if (!group.prepare_statistics()) return false;
  if (p.old != nullptr) {
    const double before = std::fabs(number(static_cast<const T*>(p.old)[which]));
    if (before != 0 && !(before > kSmallest && before < kLargest)) return false;
  }
  double error;
  const Real y = group.statistic(error);
  return std::isfinite(error) && decide(y, error * (1 + 0x1p-20), static_cast<T*>(p.out)[which]);
}

void statistic(const NormProblem& problem, Index which, const NormReport& report) {
  visit_float(problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (sizeof(T) < sizeof(double))
      if (statistic_of<T, double>(problem, which)) return;
    if (!statistic_of<T, Pair>(problem, which)) report.add(report.list, which);
  });
}

void group(const NormProblem& problem, Index which, const NormReport& report) {
  visit_float(problem.dtype, [&](auto zero) { Evaluation<decltype(zero)>(problem, which, report).run(); });
}

void weights(const NormProblem& problem, Index begin, Index end, const NormReport& report) {
  visit_float(problem.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (!problem.per_cell) return weights_of<T>(problem, begin, end, report);
    for (Index at = begin; at < end; at += kColumns)
      columns_of<T>(problem, at, at + kColumns < end ? at + kColumns : end, report);
  });
}

}  // namespace

const NormKernels& norm_kernels() {
  static const NormKernels table{group, weights, statistic};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
