// reply_masks.cpp: from computed masks to grants.
#include "engine/reply_masks.hpp"

#include <utility>

namespace attacca::engine {

using kernels::SamplingParams;

void ReplyMasks::admit(driver::JobPtr job) {
  job->awaits_mask = true;
  wanted_.push_back({{.job = std::move(job), .mask = {}, .error = {}}, {}});
}

bool ReplyMasks::advance(const driver::JobPtr& job, std::int32_t token, std::uint32_t next) {
  SamplingParams& params = job->sampling.params;
  const bool is_found = params.follows_edges && next < SamplingParams::kUnknownMask;
  if (is_found) {
    rows_.move(std::exchange(params.mask, next), next);
    job->has_own_mask = false;
  }
  job->awaits_mask = !is_found;
  worker_.send(job, token, !is_found);
  ++(is_found ? followed_ : awaited_);
  return is_found;
}

void ReplyMasks::release(driver::Job& job) {
  std::uint32_t& mask = job.sampling.params.mask;
  if (mask < SamplingParams::kUnknownMask) rows_.release(mask);
  mask = SamplingParams::kAllTokens;
}

std::vector<driver::JobPtr> ReplyMasks::start_over(const std::vector<driver::JobPtr>& jobs) {
  std::vector<driver::JobPtr> again;
  for (const driver::JobPtr& job : jobs) {
    if (!job || !job->sampling.allowed) continue;
    const std::uint32_t row = std::exchange(job->sampling.params.mask, SamplingParams::kAllTokens);
    if (job->awaits_mask) continue;
    job->sampling.allowed = rows_.mask(row);
    job->sampling.loops = false;  // it is learned again
    admit(job);
    again.push_back(job);
  }
  rows_ = MaskRows(rows_.size());
  is_full_ = is_forgetting_ = false;
  return again;
}

std::vector<ReplyMasks::Grant> ReplyMasks::take() {
  for (driver::MaskWorker::Ready& ready : worker_.take()) {
    const std::int32_t token = ready.token;
    wanted_.push_back({std::move(ready), token});
  }
  std::vector<Grant> grants;
  for (; !wanted_.empty(); wanted_.pop_front()) {
    if (wanted_.front().ready.job->entry == driver::Job::kNoEntry) continue;  // it has ended
    std::optional<Grant> next = grant(wanted_.front());
    if (!next) {
      is_full_ = !is_forgetting_;
      break;
    }
    is_full_ = is_forgetting_ = false;
    grants.push_back(std::move(*next));
  }
  return grants;
}

/// Nothing: no row is free.
std::optional<ReplyMasks::Grant> ReplyMasks::grant(const Wanted& wanted) {
  driver::Job& job = *wanted.ready.job;
  if (!wanted.ready.error.empty())
    return Grant{wanted.ready.job, nullptr, {}, false, wanted.ready.error};
  const driver::MaskPtr& mask = wanted.token ? wanted.ready.mask : job.sampling.allowed;
  const std::optional<MaskRows::Row> row = rows_.take(mask);
  if (!row) return std::nullopt;
  SamplingParams& params = job.sampling.params;
  const bool loops = wanted.token ? wanted.ready.loops : job.sampling.loops;
  Grant grant{wanted.ready.job, row->is_new ? mask : nullptr, {}, loops, {}};
  if (loops) rows_.add_edge(row->row, row->row);
  job.awaits_mask = false;
  if (wanted.token && wanted.ready.sharing == driver::MaskSharing::edge && !job.has_own_mask &&
      params.mask < SamplingParams::kUnknownMask) {
    grant.edge = {params.mask, *wanted.token};
    rows_.add_edge(params.mask, row->row);
  }
  if (wanted.token) job.has_own_mask = wanted.ready.sharing == driver::MaskSharing::own;
  if (params.mask < SamplingParams::kUnknownMask) rows_.release(params.mask);
  params.mask = row->row;
  return grant;
}

void ReplyMasks::forget_edges() {
  rows_.forget_edges();
  is_full_ = false;
  is_forgetting_ = true;
}

}  // namespace attacca::engine
