// The meeting of the allocator, which finds little room, and a thread of Go that looks for unused tensors. Apart from
// libtorch, so that a test can run it.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace gospml {

// What can still be had of a device, in bytes.
struct Room {
  int64_t free = 0, total = 0;
};

class Pressure {
 public:
  using Clock = std::chrono::steady_clock;

  // Has the other side look for unused tensors and waits for its answer, a second at most. False where nobody was
  // asked: there is room, a search was just now and found nothing, or nobody listens.
  bool ask(Room room, Clock::time_point now, std::vector<uint64_t>& handles) {
    std::unique_lock<std::mutex> lock(m_);
    if (!listening_ || !worth(room, now)) return false;
    asked_at_ = now;
    const uint64_t mine = ++question_;
    asked_.notify_all();
    waiting_++;
    const bool came = answered_.wait_for(lock, std::chrono::seconds(1), [&] { return answer_ >= mine; });
    waiting_--;
    if (!came) return false;
    handles.swap(handles_);
    found_ = !handles.empty();
    return true;
  }

  // Blocks until somebody asks.
  int wait() {
    std::unique_lock<std::mutex> lock(m_);
    listening_ = true;
    asked_.wait(lock, [&] { return question_ > seen_; });
    seen_ = question_;
    return 1;
  }

  // Answers; what comes back nobody waits for any more.
  std::vector<uint64_t> bring(const uint64_t* handles, size_t n) {
    std::vector<uint64_t> late;
    std::lock_guard<std::mutex> lock(m_);
    handles_.insert(handles_.end(), handles, handles + n);
    answer_ = seen_;
    if (!waiting_) late.swap(handles_);
    answered_.notify_all();
    return late;
  }

 private:
  // A search is worth its time where less than an eighth is free, and, where the last one found nothing, not more than
  // ten times a second. Where almost nothing is free, what is asked for next may end with out of memory: always.
  bool worth(Room room, Clock::time_point now) const {
    if (room.free > room.total / 8) return false;
    if (room.free <= room.total / 64) return true;
    return found_ || now - asked_at_ >= std::chrono::milliseconds(100);
  }

  std::mutex m_;
  std::condition_variable asked_, answered_;
  uint64_t question_ = 0, seen_ = 0, answer_ = 0;
  bool listening_ = false, found_ = true;
  int waiting_ = 0;
  Clock::time_point asked_at_{};
  std::vector<uint64_t> handles_;
};

} // namespace gospml
