// reply_masks.hpp: the masks of the requests of an engine, on their way to the device. A request
// with a mask waits for a grant before it samples. With a grammar it needs another one after each
// token, unless the device has found the next mask by itself, along an edge. Where it did not, the
// grammar is asked, and the edge is learned. Both schedulers use it.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "driver/mask_worker.hpp"
#include "engine/mask_rows.hpp"

namespace attacca::engine {

/// The driver's thread calls it.
class ReplyMasks {
 public:
  /// Rows of an engine: one for each request, and as many for masks that edges lead to.
  static constexpr std::uint32_t kSpareRows = 512;

  explicit ReplyMasks(std::uint32_t rows) : rows_(rows) {}

  struct Edge {
    std::uint32_t from;
    std::int32_t token;
  };
  /// A request may go on with the mask in row `params.mask` of its sampling, or has failed.
  struct Grant {
    driver::JobPtr job;
    driver::MaskPtr mask;      // to be written to the row; null: it is there
    std::optional<Edge> edge;  // to the row
    bool loops = false;        // an edge of all plain tokens leads from the row to itself
    std::string error;         // the reason of a failure
  };

  /// Asks for the first grant of a request. REQUIRES: it has a mask.
  void admit(driver::JobPtr job);
  /// Takes a committed token of a request with a grammar, and the mask that the sampler found for
  /// the next one. False: it found none, and the request waits for a grant.
  bool advance(const driver::JobPtr& job, std::int32_t token, std::uint32_t next);
  /// The request has ended.
  void release(driver::Job& job);
  /// All rows and edges are lost. Of these jobs, some of which may be null, returns those whose
  /// grants are void; they get others.
  std::vector<driver::JobPtr> start_over(const std::vector<driver::JobPtr>& jobs);

  /// Whether somebody waits for a grant.
  bool has_open() const { return worker_.has_open() || !wanted_.empty(); }
  /// Waits until all masks are computed, or until patience ends.
  void wait(std::chrono::microseconds patience) { worker_.wait(patience); }
  /// The grants that can be given now, each once.
  std::vector<Grant> take();

  /// No row is free. The caller takes all edges from the device, and then calls `forget_edges`.
  bool must_forget_edges() const { return is_full_; }
  void forget_edges();
  void end_step() { rows_.end_step(); }
  void end_all_steps() { rows_.end_all_steps(); }

  std::uint64_t followed() const { return followed_; }
  std::uint64_t awaited() const { return awaited_; }

 private:
  struct Wanted {
    driver::MaskWorker::Ready ready;
    std::optional<std::int32_t> token;  // that led to the mask
  };
  std::optional<Grant> grant(const Wanted& wanted);

  MaskRows rows_;
  driver::MaskWorker worker_;
  std::deque<Wanted> wanted_;  // their masks are computed
  bool is_full_ = false;
  bool is_forgetting_ = false;  // edges were forgotten, and no row is free yet
  std::uint64_t followed_ = 0, awaited_ = 0;
};

}  // namespace attacca::engine
