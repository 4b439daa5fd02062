// Are the kernel tests good? Plants classic bugs one by one and demands that a test fails for each.
//
//   kernel_mutants             the tests with no bug planted, then with each one; fails if a bug survives
//   kernel_mutants NAME        with that bug planted, as an ordinary GoogleTest program
//   kernel_mutants --list      the bugs
//
// Each bug runs in a process of its own, on the tests of its kernel, up to the first that fails.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <string_view>

#include "cuda/simt/mutant.h"

namespace {

struct Mutant {
  const char* name;
  const char* what;
  const char* tests;  ///< a GoogleTest filter
};

constexpr std::array mutants = {
    Mutant{"sum_without_barrier", "missing barrier: partial sums are read before all are written", "Norm.*"},
    Mutant{"sum_leaves_scratch_in_use", "missing barrier: scratch memory is reused while others read it", "Norm.*"},
    Mutant{"sum_with_narrow_shuffle", "wrong shuffle width", "Norm.*"},
    Mutant{"sum_of_half_a_warp", "a reduction that ends a step early", "Norm.*"},
    Mutant{"exclusive_sum_is_inclusive", "off-by-one prefix sum", "TopK.*"},
    Mutant{"load_of_unmasked_tail", "unmasked tail of a load", "Norm.*"},
    Mutant{"store_of_unmasked_tail", "unmasked tail of a store", "Norm.*"},
    Mutant{"mean_over_padded_row", "the padded length taken for the length", "Norm.*"},
    Mutant{"rope_factors_without_barrier", "missing barrier after a shared table is filled", "Norm.*"},
    Mutant{"masked_row_times_zero", "0 · NaN for a masked row", "Norm.*"},
    Mutant{"negative_zero_below_zero", "-0 sorts below +0", "TopK.*:Router.*"},
    Mutant{"maximum_takes_the_other_lane", "a maximum that takes the neighbour's value", "Router.*"},
    Mutant{"router_scores_without_syncwarp", "missing __syncwarp before lanes read each other's scores", "Router.*"},
    Mutant{"ballot_with_half_a_mask", "wrong warp mask", "Router.*"},
    Mutant{"dispatch_counts_not_cleared", "shared memory not cleared", "Dispatch.*"},
    Mutant{"dispatch_counts_without_atomics", "lost updates: a plain increment of shared memory", "Dispatch.*"},
    Mutant{"dispatch_places_move_too_early", "missing barrier before a running total moves on", "Dispatch.*"},
    Mutant{"last_expert_not_dispatched", "skipped expert: the last one counts as idle", "Dispatch.*"},
    Mutant{"first_choice_skipped", "skipped expert: a token's first choice is left out", "Experts.*"},
    Mutant{"stale_accumulator", "an accumulator that keeps what it had", "Linear.*"},
    Mutant{"partial_sums_without_barrier", "missing barrier before warps' sums are added", "Linear.*"},
    Mutant{"streamed_row_too_many", "off-by-one tile edge: a row beyond the matrix is stored", "Linear.*"},
    Mutant{"tiled_token_too_many", "off-by-one tile edge: a token beyond the batch is stored", "Linear.*"},
    Mutant{"tile_waits_for_too_few_copies", "an asynchronous copy is not waited for", "Linear.Tiled*"},
    Mutant{"tile_without_barrier", "missing barrier after an asynchronous copy", "Linear.Tiled*"},
    Mutant{"tile_overtakes_its_ring", "a copy into the buffer that is being read", "Linear.Tiled*"},
    Mutant{"histogram_of_the_last_pass", "a histogram that is not cleared between passes", "TopK.*"},
    Mutant{"histogram_without_atomics", "lost updates: a plain increment of shared memory", "TopK.*"},
    Mutant{"found_bin_without_barrier", "missing barrier after one warp's result", "TopK.*"},
    Mutant{"scans_share_a_storage", "race: a double buffer that does not alternate", "TopK.*"},
    Mutant{"key_too_many", "an index one beyond the row counts", "TopK.*"},
    Mutant{"bin_off_by_one", "> for >= in a search", "TopK.*"},
    Mutant{"index_key_without_syncwarp", "missing __syncwarp before lanes read their pairs", "Indexer.Keys*"},
    Mutant{"score_of_a_future_key", "causal limit off by one", "Indexer.Scores*"},
    Mutant{"score_of_half_a_quad", "a reduction that leaves out half of the lanes", "Indexer.Scores*"},
    Mutant{"key_tile_without_barrier", "missing barrier in a double-buffered loop", "SparseAttention.*"},
    Mutant{"tile_maximum_without_barrier", "missing barrier between two warps' maxima", "SparseAttention.*"},
    Mutant{"softmax_without_rescaling", "online softmax that does not rescale its past", "SparseAttention.*"},
    Mutant{"sink_dropped", "the sink left out of the denominator", "SparseAttention.*"},
    Mutant{"gate_and_up_swapped", "gate and up halves swapped", "Experts.*"},
};

constexpr rlimit cpu_seconds_before_a_hang = {120, 120};

/// Writes the first failure to a pipe and ends the process.
class FirstFailure : public ::testing::EmptyTestEventListener {
 public:
  explicit FirstFailure(int pipe) : pipe_(pipe) {}

  void OnTestStart(const ::testing::TestInfo& test) override {
    test_ = std::string(test.test_suite_name()) + "." + test.name() + ": ";
  }

  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::string line = test_ + result.summary();
    std::replace(line.begin(), line.end(), '\n', ' ');
    if (write(pipe_, line.data(), line.size()) < 0) _exit(2);
    _exit(1);
  }

 private:
  std::string test_;
  int pipe_;
};

/// What the tests of `filter` say with `planted`: nothing if all pass.
std::string first_failure(std::uint64_t planted, const char* filter) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return {};
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    setrlimit(RLIMIT_CPU, &cpu_seconds_before_a_hang);
    simt::planted_mutant = planted;
    ::testing::GTEST_FLAG(filter) = filter;
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FirstFailure(ends[1]));
    _exit(RUN_ALL_TESTS() == 0 ? 0 : 1);
  }
  close(ends[1]);
  std::string message;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = read(ends[0], buffer.data(), buffer.size())) > 0;)
    message.append(buffer.data(), static_cast<std::size_t>(got));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return message + "ended by signal " + std::to_string(WTERMSIG(status));
  return message;
}

int run_all() {
  if (const std::string failure = first_failure(0, "*"); !failure.empty()) {
    std::printf("without a planted bug: %s\n", failure.c_str());
    return 1;
  }
  std::size_t caught = 0;
  for (const Mutant& mutant : mutants) {
    const std::string failure = first_failure(simt::mutant_id(mutant.name), mutant.tests);
    caught += failure.empty() ? 0 : 1;
    std::printf("%s %s (%s)\n    %s\n", failure.empty() ? "SURVIVED" : "caught  ", mutant.name, mutant.what,
                failure.empty() ? "no test fails" : failure.substr(0, 300).c_str());
  }
  std::printf("%zu of %zu planted bugs caught\n", caught, mutants.size());
  return caught == mutants.size() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc == 1) return run_all();
  if (std::string_view(argv[1]) == "--list") {
    for (const Mutant& mutant : mutants) std::printf("%-34s %s\n", mutant.name, mutant.what);
    return 0;
  }
  simt::planted_mutant = simt::mutant_id(argv[1]);
  return RUN_ALL_TESTS();
}
