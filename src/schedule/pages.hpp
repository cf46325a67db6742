// pages.hpp: pages of the KV pool, counted by the block tables that hold them, and the prefix
// cache: full pages found again by their content, and idle ones evicted least recently used first.
//
// A cached page is identified by its parent page and its own tokens, both compared in full: a hash
// collision costs a comparison, never a wrong page. The parent's number is enough to stand for the
// whole prefix, because a parent outlives its children: every table that holds a page holds its
// parent before it, and a table is given back from its end, so children become idle, and are
// evicted, first.
#pragma once

#include "schedule/state.hpp"

namespace attacca::schedule::detail {

ATTACCA_HD inline std::uint32_t hash_of(std::uint32_t parent, const std::int32_t* tokens,
                                        std::uint32_t count) {
  std::uint64_t hash = (parent + 1ull) * 0x9e3779b97f4a7c15ull;
  for (std::uint32_t at = 0; at < count; ++at) {
    hash = (hash ^ static_cast<std::uint32_t>(tokens[at])) * 0xd6e8feb86659fd93ull;
    hash ^= hash >> 32;
  }
  return static_cast<std::uint32_t>(hash);
}

/// The cached page with these tokens after `parent`, or kNone.
ATTACCA_HD inline std::uint32_t find_page(const State& state, std::uint32_t parent,
                                          const std::int32_t* tokens, std::uint32_t hash) {
  std::uint32_t page = state.buckets[hash & state.bucket_mask];
  for (; page != kNone; page = state.pages[page].next_in_bucket) {
    if (state.pages[page].hash != hash || state.pages[page].parent != parent) continue;
    const std::int32_t* content = state.content(page);
    std::uint32_t same = 0;
    while (same < state.limits.page_size && content[same] == tokens[same]) ++same;
    if (same == state.limits.page_size) break;
  }
  return page;
}

ATTACCA_HD inline void remember_page(State& state, std::uint32_t page, std::uint32_t parent,
                                     const std::int32_t* tokens, std::uint32_t hash) {
  std::uint32_t& bucket = state.buckets[hash & state.bucket_mask];
  state.pages[page] = {state.pages[page].references, 1, parent, hash, bucket};
  bucket = page;
  for (std::uint32_t at = 0; at < state.limits.page_size; ++at)
    state.content(page)[at] = tokens[at];
}

ATTACCA_HD inline void forget_page(State& state, std::uint32_t page) {
  std::uint32_t* link = &state.buckets[state.pages[page].hash & state.bucket_mask];
  while (*link != page) link = &state.pages[*link].next_in_bucket;
  *link = state.pages[page].next_in_bucket;
  state.pages[page].is_cached = 0;
}

/// Takes a free page, else evicts an idle one; kNone if every page is in use.
ATTACCA_HD ATTACCA_NOINLINE inline std::uint32_t take_page(State& state) {
  std::uint32_t page = state.free_pages.pop_back();
  if (page == kNone) {
    page = state.idle_pages.pop_front();
    if (page == kNone) return kNone;
    forget_page(state, page);
    ++state.statistics.evictions;
  }
  state.pages[page].references = 1;
  return page;
}

/// Counts one more table that holds a cached page.
ATTACCA_HD inline void share_page(State& state, std::uint32_t page) {
  if (state.pages[page].references++ == 0) state.idle_pages.remove(page);
}

ATTACCA_HD inline void release_page(State& state, std::uint32_t page) {
  if (--state.pages[page].references > 0) return;
  if (state.pages[page].is_cached)
    state.idle_pages.push_back(page);
  else
    state.free_pages.push_back(page);
}

/// Gives a slot's pages back from the last to the first.
ATTACCA_HD inline void release_table(State& state, std::uint32_t slot) {
  const std::int32_t* table = state.table(slot);
  state.slots[slot].told = 0;
  while (state.slots[slot].pages > 0)
    release_page(state, static_cast<std::uint32_t>(table[--state.slots[slot].pages]));
}

/// The page before `index` in a table.
ATTACCA_HD inline std::uint32_t parent_of(const std::int32_t* table, std::uint32_t index) {
  return index == 0 ? kNone : static_cast<std::uint32_t>(table[index - 1]);
}

/// Looks up cached pages that continue the first `index` pages of a table, writes them to the table
/// and returns where they end. Takes no references. Stops before a page with a position whose
/// logits are wanted.
ATTACCA_HD ATTACCA_NOINLINE inline std::uint32_t match_pages(const State& state,
                                                             std::uint32_t entry,
                                                             std::int32_t* table,
                                                             std::uint32_t index) {
  const std::uint32_t page_size = state.limits.page_size;
  for (; (index + 1) * page_size <= state.entries[entry].wanted; ++index) {
    const std::int32_t* tokens = state.history(entry) + index * page_size;
    const std::uint32_t parent = parent_of(table, index);
    const std::uint32_t page = find_page(state, parent, tokens, hash_of(parent, tokens, page_size));
    if (page == kNone) break;
    table[index] = static_cast<std::int32_t>(page);
  }
  return index;
}

/// Takes references to the pages that `match_pages` wrote to a running request's table.
ATTACCA_HD inline void adopt_pages(State& state, std::uint32_t entry, std::uint32_t end) {
  Entry& e = state.entries[entry];
  Slot& slot = state.slots[e.slot];
  for (; slot.pages < end; ++slot.pages) {
    share_page(state, static_cast<std::uint32_t>(state.table(e.slot)[slot.pages]));
    e.computed += state.limits.page_size;
    state.statistics.shared += state.limits.page_size;
  }
}

/// Enters a page that has become full into the prefix cache. If an equal page was cached meanwhile,
/// the table takes that one instead, so equal prefixes are the same pages.
ATTACCA_HD ATTACCA_NOINLINE inline void cache_page(State& state, std::uint32_t entry,
                                                   std::uint32_t index) {
  const std::int32_t* tokens = state.history(entry) + index * state.limits.page_size;
  const std::uint32_t slot = state.entries[entry].slot;
  std::int32_t* table = state.table(slot);
  const auto mine = static_cast<std::uint32_t>(table[index]);
  const std::uint32_t parent = parent_of(table, index);
  const std::uint32_t hash = hash_of(parent, tokens, state.limits.page_size);
  const std::uint32_t other = find_page(state, parent, tokens, hash);
  if (other == kNone) {
    remember_page(state, mine, parent, tokens, hash);
  } else {
    share_page(state, other);
    table[index] = static_cast<std::int32_t>(other);
    if (state.slots[slot].told > index) state.slots[slot].told = index;
    release_page(state, mine);
    ++state.statistics.merged;
  }
}

}  // namespace attacca::schedule::detail
