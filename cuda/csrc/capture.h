// How a capture ends. Apart from libtorch, so that a test can have it fail.
#pragma once

namespace gospml {

// Ends a graph's capture. Where that throws, what it has taken is given back before the error goes on: the allocator's
// pool, without which memory is never freed again, and the random generators, which else stay in the capture.
template <class Graph>
void end_capture(Graph& g) {
  try {
    g.capture_end();
  } catch (...) {
    if (!g.ended()) {
      const auto each = [](auto&& f) {
        try {
          f();
        } catch (...) { // it was given back already
        }
      };
      each([&] { g.end_allocation(); });
      each([&] { g.release_pool(); });
      each([&] { g.end_generators(); });
    }
    throw;
  }
}

} // namespace gospml
