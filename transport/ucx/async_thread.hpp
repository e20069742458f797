#pragma once

#include <functional>

namespace godwit::transport::ucx {

/// Runs `what` on the thread of this process on which UCX accepts connections and reads what their callers say first,
/// and returns after it: for whoever's own thread has ended, none of that happens meanwhile.
///
/// For what must not be interrupted by it. UCX 1.13.1 frees a listener that accepted connections refer to; where the
/// first word over one of them comes between that and the end of the worker, the process would crash.
///
/// That thread must exist, as it does while there is a listener: UCX may abort the process where it cannot start it.
/// Not to be called on it. `what` must not throw. Where the system has no file descriptor left it runs on the caller's.
void run_on_async_thread(const std::function<void()>& what);

} // namespace godwit::transport::ucx
