// What of cuda/csrc needs no card, with stand-ins for libtorch: the end of a capture, and who is asked for unused
// tensors when.
#include "../csrc/capture.h"
#include "../csrc/pressure.h"

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

#define CHECK(x) \
  if (!(x)) printf("line %d: %s\n", __LINE__, #x), exit(1)

struct Graph {
  bool fails = false, ends = false, empty = false;
  std::string log;
  void capture_end() {
    log += "end ";
    if (fails) throw std::runtime_error("operation not permitted when stream is capturing");
    ends = true;
  }
  bool ended() const { return ends; }
  void end_allocation() {
    log += "allocation ";
    if (empty) throw std::runtime_error("endAllocatePool: not currently recording to mempool_id");
  }
  void release_pool() { log += "pool "; }
  void end_generators() { log += "generators "; }
};

void captures() {
  Graph good;
  gospml::end_capture(good);
  CHECK(good.log == "end ");
  for (bool empty : {false, true}) {
    Graph bad;
    bad.fails = true, bad.empty = empty;
    std::string error;
    try {
      gospml::end_capture(bad);
    } catch (const std::exception& e) { error = e.what(); }
    CHECK(error == "operation not permitted when stream is capturing"); // the first error, not what came after
    CHECK(bad.log == "end allocation pool generators ");
  }
}

void rate() {
  using namespace std::chrono_literals;
  gospml::Pressure p;
  int collections = 0;
  std::vector<uint64_t> unused;
  bool running = true;
  std::thread other([&] {
    for (;;) {
      p.wait();
      if (!running) return;
      collections++;
      p.bring(unused.data(), unused.size());
    }
  });
  const auto start = gospml::Pressure::Clock::now();
  std::vector<uint64_t> handles;
  const gospml::Room plenty{60, 64}, little{6, 64}, none{0, 64};
  while (!p.ask(none, start, handles)) std::this_thread::yield(); // until the other side listens
  CHECK(collections == 1);
  // A program that grows: libtorch asks before each of its cudaMallocs.
  for (int i = 0; i < 10000; i++) CHECK(!p.ask(plenty, start + 1s, handles));
  CHECK(collections == 1);
  // Little room and nothing to find: ten searches a second.
  for (int i = 0; i < 1000; i++) p.ask(little, start + 1s + i * 1ms, handles);
  CHECK(collections >= 10 && collections <= 12);
  // Where a search finds something, the next may too.
  unused = {7};
  const int before = collections;
  for (int i = 0; i < 5; i++) p.ask(little, start + 10s + i * 1ms, handles), handles.clear();
  CHECK(collections == before + 5);
  // Nothing left: always.
  unused.clear();
  for (int i = 0; i < 5; i++) p.ask(none, start + 20s, handles);
  CHECK(collections == before + 10);
  running = false;
  p.ask(none, start + 30s, handles);
  other.join();
}

int main() {
  captures();
  rate();
  puts("ok");
}
