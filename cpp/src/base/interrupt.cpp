#include "halfulp/interrupt.hpp"

namespace halfulp {
namespace {

thread_local InterruptScope* current = nullptr;
constexpr std::chrono::milliseconds kInterval{50};
constexpr unsigned long long kFree = 4;  // looks that cost no clock: a small call has no more

}  // namespace

InterruptScope::InterruptScope(Ask ask) noexcept
    : ask_(ask), owner_(std::this_thread::get_id()), outer_(current) {
  current = this;
}

InterruptScope::~InterruptScope() { current = outer_; }

void InterruptScope::look() {
  if (ended_.load(std::memory_order_relaxed)) throw Interrupted();
  if (std::this_thread::get_id() != owner_) return;
  if (++looks_ <= kFree) return;
  const auto now = std::chrono::steady_clock::now();
  if (looks_ == kFree + 1) last_ = now;  // the interval begins
  if (now - last_ < kInterval) return;
  last_ = now;
  try {
    ask_();
  } catch (...) {
    ended_.store(true, std::memory_order_relaxed);
    throw;
  }
}

InterruptScope* current_interrupt_scope() noexcept { return current; }

JoinInterruptScope::JoinInterruptScope(InterruptScope* scope) noexcept : before_(current) { current = scope; }
JoinInterruptScope::~JoinInterruptScope() { current = before_; }

void poll_interrupts() {
  if (current != nullptr) current->look();
}

}  // namespace halfulp
