// Softmax and its logarithm with derivatives, in rows and in columns, in every float type, against long double with a
// bound of its error: what is decided must be one of the roundings that the bound allows, which is nearly always one.
#include "halfulp/softmax.hpp"

#include <algorithm>

#include "drawn.hpp"
#include "halfulp/engines.hpp"

using namespace halfulp;
using namespace halfulp::tests;

namespace {

// NaN, or within `error` of the value.
struct Expected {
  long double value = 0, error = 0;
};

template <class T>
bool is_rounding(T found, const Expected& e) {
  if (std::isnan(e.value)) return is_nan(found);
  if (e.value == 0 && e.error == 0) return same(found, T{});
  if (std::isinf(e.value)) return static_cast<long double>(widened(found)) == e.value;
  // A half type is rounded by way of double: the ends are further apart than that changes.
  const long double margin = sizeof(T) == 8 ? e.error : e.error + std::fabs(e.value) * 0x1p-50L;
  const T low = round_to<T>(static_cast<double>(e.value - margin));
  const T high = round_to<T>(static_cast<double>(e.value + margin));
  if (same(low, high)) return same(found, low);
  return widened(low) <= widened(found) && widened(found) <= widened(high);
}

// The results of one row or column: `work` 0 value, 1 tangent, 2 cotangent.
std::vector<Expected> reference(int work, bool logarithm, const std::vector<double>& x, const std::vector<double>& t) {
  const std::size_t n = x.size();
  long double top = -INFINITY, total = 0, steps = static_cast<long double>(n) + 8;
  bool good = true;
  for (std::size_t i = 0; i < n; ++i) {
    top = std::max(top, static_cast<long double>(x[i]));
    good = good && x[i] < INFINITY && (work == 0 || std::isfinite(t[i]));  // false for NaN
  }
  if (!good || std::isinf(top)) return std::vector<Expected>(n, {NAN, 0});
  std::vector<long double> d(n), e(n), size(n);
  for (std::size_t i = 0; i < n; ++i) {
    d[i] = x[i] - top;
    e[i] = std::exp(d[i]);
    size[i] = std::isinf(d[i]) ? 0.0L : std::fabs(d[i]);
    total += e[i];
  }
  long double sum = 0, sizes = 0, plain = 0, plain_sizes = 0;  // of p t; of t
  for (std::size_t i = 0; i < n && work > 0; ++i) {
    sum += e[i] / total * t[i];
    sizes += e[i] / total * std::fabs(t[i]) * (steps + size[i]);
    plain += t[i];
    plain_sizes += std::fabs(t[i]);
  }
  constexpr long double unit = 0x1p-62L;
  std::vector<Expected> out;
  for (std::size_t i = 0; i < n; ++i) {
    const long double p = e[i] / total, own = work > 0 ? t[i] : 0.0L, log = std::log(total);
    // exp() below the exponents of long double: its zero stands for a number of either sign
    const long double lost = e[i] == 0 && !std::isinf(d[i]) ? 0x1p-1100L : 0.0L;
    if (logarithm && work == 0) out.push_back({d[i] - log, std::isinf(d[i]) ? 0 : (size[i] + log + steps) * unit});
    else if (work == 0) out.push_back({p, p * (size[i] + steps) * unit + lost});
    else if (!logarithm)
      out.push_back({p * (own - sum), p * (size[i] + steps) * (std::fabs(own) + sizes) * unit + lost});
    else if (work == 1) out.push_back({own - sum, (std::fabs(own) + sizes) * unit});
    else out.push_back({own - p * plain, (std::fabs(own) + p * plain_sizes * (size[i] + steps)) * unit + lost});
  }
  return out;
}

Index decided = 0, left_over = 0;  // of plain numbers

template <class T>
void check_outputs(const SoftmaxProblem& p, const std::vector<T>& x, const std::vector<T>& t, const std::vector<T>& out,
                   const std::vector<Index>& undecided, bool plain) {
  for (Index line = 0; line < p.outer * p.inner; ++line) {
    const auto at = [&](Index i) {
      return static_cast<std::size_t>((line / p.inner * p.length + i) * p.inner + line % p.inner);
    };
    std::vector<double> cells, along;
    for (Index i = 0; i < p.length; ++i) {
      cells.push_back(widened(x[at(i)]));
      along.push_back(widened(t[at(i)]));
    }
    const std::vector<Expected> expected = reference(static_cast<int>(p.work), p.logarithm, cells, along);
    for (Index i = 0; i < p.length; ++i) {
      const bool open = std::find(undecided.begin(), undecided.end(), static_cast<Index>(at(i))) != undecided.end();
      CHECK(open || is_rounding(out[at(i)], expected[static_cast<std::size_t>(i)]));
      if (plain && p.length > 1) ++(open ? left_over : decided);
    }
  }
}

template <class T>
void check_case(std::uint64_t seed) {
  Random random(seed);
  SoftmaxProblem p;
  p.dtype = dtype_of<T>;
  p.outer = random.between(1, 5);
  p.inner = random.one_in(2) ? 1 : random.between(2, 37);
  p.length = random.one_in(5) ? random.between(1, 3) : random.between(4, p.inner == 1 ? 150 : 40);
  p.logarithm = random.one_in(2);
  const auto kind = static_cast<Numbers>(random.below(kNumbers));
  const auto others = kind == Numbers::plain ? kind : static_cast<Numbers>(random.below(kNumbers));
  describe("seed", seed, "dtype", name_of(dtype_of<T>), "isa", name_of(current_isa()), "threads", num_threads(),
           "outer", p.outer, "length", p.length, "inner", p.inner, "logarithm", p.logarithm, "numbers",
           static_cast<int>(kind), "tangents", static_cast<int>(others));
  const auto count = static_cast<std::size_t>(p.outer * p.length * p.inner);
  std::vector<T> x(count), t(count), out(count), again(count), copy(count);
  for (T& item : x) item = drawn<T>(random, kind);
  for (T& item : t) item = drawn<T>(random, others);
  p.x = x.data();
  for (const SoftmaxWork work : {SoftmaxWork::value, SoftmaxWork::tangent, SoftmaxWork::cotangent}) {
    p.work = work;
    p.t = work == SoftmaxWork::value ? nullptr : t.data();
    p.out = out.data();
    check_outputs(p, x, t, out, softmax(p), kind == Numbers::plain);
  }
  // A value that keeps its exponentials, and a pullback that reads them.
  std::vector<double> kept(static_cast<std::size_t>(softmax_kept_size(p)));
  if (kept.empty()) return;
  SoftmaxProblem value = p, pullback = p;
  value.work = SoftmaxWork::value;
  value.t = nullptr;
  value.kept = pullback.kept = kept.data();
  value.copy = copy.data();
  value.out = pullback.out = again.data();
  check_outputs(value, x, t, again, softmax(value), false);
  CHECK(std::memcmp(copy.data(), x.data(), count * sizeof(T)) == 0);
  check_outputs(pullback, x, t, again, softmax(pullback), false);
}

}  // namespace

int main() {
  everywhere([] {
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
      check_case<float>(seed);
      check_case<double>(seed);
      check_case<Float16>(seed);
      check_case<BFloat16>(seed);
    }
  });
  describe("decided", decided, "left over", left_over);
  CHECK(left_over * 1000 < decided);
  CHECK(units_of(Engine::softmax) > 0);
  return failures() == 0 ? 0 : 1;
}
