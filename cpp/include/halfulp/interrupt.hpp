// Long computations can be interrupted: they ask now and then whether the caller wants to go on.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <thread>

namespace halfulp {

// Thrown on the other threads of a computation whose caller was interrupted.
struct Interrupted : std::exception {
  const char* what() const noexcept override { return "interrupted"; }
};

// A computation that can be interrupted. `ask`, called on the thread that made the scope and at most every 50 ms,
// throws to end it.
class InterruptScope {
 public:
  using Ask = void (*)();
  explicit InterruptScope(Ask ask) noexcept;
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  void look();

 private:
  Ask ask_;
  std::thread::id owner_;
  unsigned long long looks_ = 0;
  std::chrono::steady_clock::time_point last_;
  std::atomic<bool> ended_{false};
  InterruptScope* outer_;
};

// The scope that the current thread computes for; null if there is none.
InterruptScope* current_interrupt_scope() noexcept;

// Makes a worker compute for the scope of another thread.
class JoinInterruptScope {
 public:
  explicit JoinInterruptScope(InterruptScope* scope) noexcept;
  ~JoinInterruptScope();
  JoinInterruptScope(const JoinInterruptScope&) = delete;
  JoinInterruptScope& operator=(const JoinInterruptScope&) = delete;

 private:
  InterruptScope* before_;
};

// Throws if the computation is to end. Some 30 ns: for units of work of microseconds at least.
void poll_interrupts();

// The same for units of nanoseconds: looks once in 256 calls.
inline void poll_interrupts_seldom(unsigned& calls) {
  if ((++calls & 255u) == 0) poll_interrupts();
}

}  // namespace halfulp
