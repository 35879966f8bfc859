// The end of Python waits for the calls that run on other threads.
//
// A thread of XLA or a daemon thread may be inside a kernel when the interpreter ends. Python up to 3.13 ends a thread
// that then asks for the lock, by unwinding its stack: the process aborts at the first frame of C++ that may not throw.
// So every call is counted, and a function registered with `atexit` waits until none runs.
#pragma once

namespace halfulp::bindings {

// One call into the core. `admitted()` is false once the end of Python has begun.
class CallInFlight {
 public:
  CallInFlight() noexcept;
  ~CallInFlight();
  CallInFlight(const CallInFlight&) = delete;
  CallInFlight& operator=(const CallInFlight&) = delete;

  bool admitted() const noexcept { return admitted_; }

 private:
  bool admitted_;
};

// Registers the function that waits. Call it once, when the module is made.
void wait_for_calls_at_exit();

}  // namespace halfulp::bindings
