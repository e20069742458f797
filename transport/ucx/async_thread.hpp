#pragma once

#include <functional>

namespace godwit::transport::ucx {

/// Runs `what` on the thread of this process on which UCX accepts connections and reads what their callers say first,
/// and returns after it: none of that happens meanwhile, for any fabric. On the caller's thread where the system has
/// no file descriptor left for it.
///
/// For what must not be interrupted by it. UCX 1.13.1 frees a listener that accepted connections refer to; where the
/// first word over one of them comes between that and the end of the worker, the process would crash.
void run_on_async_thread(const std::function<void()>& what);

} // namespace godwit::transport::ucx
