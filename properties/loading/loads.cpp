// What a load leaves depends on what the files hold and not on how they are laid out; ranks share it without gaps; and
// nothing that is taken away goes unseen.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "harness/loading/plan/coverage.h"
#include "harness/loading/symbolic/python_text.h"
#include "properties/loading/world.h"

namespace mtpcheck::properties {
namespace {

bool same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::ranges::equal(a, b, [](const Tensor& x, const Tensor& y) { return x.bytes == y.bytes; });
}

LoadWorld drawn_for_any_engine() {
  const LoadWorld world = any_load_world(*rc::gen::element(Engine::vllm, Engine::sglang));
  RC_LOG() << rc::toString(world) << "\n";
  RC_CLASSIFY(world.engine == Engine::sglang, "SGLang");
  RC_CLASSIFY(world.packed, "packed");
  RC_CLASSIFY(world.ranks > 1, "several ranks");
  return world;
}

// SGLang leaves embedding and head to the target model.
bool is_left_to_target(const LoadWorld& world, const std::string& tensor) {
  return world.engine == Engine::sglang && !tensor.starts_with("model.mtp_layers.");
}

RC_GTEST_PROP(Loads, FaultlessCheckpointsCoverEveryElementOnceWithoutAWord, ()) {
  const LoadWorld world = drawn_for_any_engine();
  const LoadFiles files = load_files(world);
  const LoadPlan plan = plan_of_rank(world, files.headers, any_rank(world));
  if (plan.refusal) RC_FAIL(plan.refusal->config_key + ": " + plan.refusal->message);
  RC_ASSERT(!plan.exception);
  RC_ASSERT(plan.warnings.empty());
  for (std::size_t i = 0; i < plan.tensors.size(); ++i) {
    const bool left = is_left_to_target(world, files.headers.tensors[i].name);
    const Outcome outcome = plan.tensors[i].outcome;
    RC_ASSERT((left ? outcome == Outcome::ignored : outcome == Outcome::loaded || outcome == Outcome::not_local));
  }
  const std::vector<Coverage> coverage = coverage_of(plan);
  for (std::size_t i = 0; i < coverage.size(); ++i) {
    // Different tensors never meet: the mapping of names is injective.
    RC_ASSERT(coverage[i].overwritten.empty());
    const bool later = plan.parameters[i].role == Role::kv_scale || plan.parameters[i].origin != Origin::checkpoint;
    RC_ASSERT(coverage[i].complete() != later);
  }
}

RC_GTEST_PROP(Loads, PackedAndSplitExpertsGiveTheSameBytes, ()) {
  LoadWorld world = drawn_for_any_engine();
  RC_PRE(world.engine == Engine::vllm || world.storage == Storage::bf16);
  const std::size_t rank = any_rank(world);
  const std::vector<Tensor> one = parameters_of_rank(world, load_files(world).headers, rank);
  world.packed = !world.packed;
  RC_ASSERT(same(one, parameters_of_rank(world, load_files(world).headers, rank)));
}

RC_GTEST_PROP(Loads, AnyOneChangedByteShowsOnSomeRank, ()) {
  LoadWorld world = drawn_for_any_engine();
  world.packed = world.engine == Engine::vllm || world.storage == Storage::bf16;
  LoadFiles files = load_files(world);
  const auto victim = *rc::gen::inRange<std::size_t>(0, files.bytes.size());
  RC_PRE(!is_left_to_target(world, files.headers.tensors[victim].name));
  const auto at = *rc::gen::inRange<std::size_t>(0, files.bytes[victim].size());
  std::vector<std::vector<Tensor>> before;
  for (std::size_t rank = 0; rank < world.ranks; ++rank) {
    before.push_back(parameters_of_rank(world, files.headers, rank));
  }
  files.bytes[victim][at] ^= std::byte{1};
  RC_LOG() << "byte " << at << " of " << files.headers.tensors[victim].name << "\n";
  bool shows = false;
  for (std::size_t rank = 0; rank < world.ranks; ++rank) {
    shows = shows || !same(before[rank], parameters_of_rank(world, files.headers, rank));
  }
  RC_ASSERT(shows);
}

RC_GTEST_PROP(Loads, NeitherTheOrderOfTensorsNorTheirShardsMatter, ()) {
  const LoadWorld world = drawn_for_any_engine();
  const std::size_t rank = any_rank(world);
  const LoadFiles files = load_files(world);
  HeaderSet dealt = files.headers;
  std::mt19937 random(*rc::gen::arbitrary<std::uint32_t>());
  std::shuffle(dealt.tensors.begin(), dealt.tensors.end(), random);
  for (TensorView& tensor : dealt.tensors) tensor.file = "model-" + std::to_string(random() % 12) + ".safetensors";
  RC_ASSERT(same(parameters_of_rank(world, files.headers, rank), parameters_of_rank(world, dealt, rank)));
}

RC_GTEST_PROP(Loads, WithoutOneTensorJustItsElementsAreMissing, ()) {
  const LoadWorld world = drawn_for_any_engine();
  const std::size_t rank = any_rank(world);
  LoadFiles files = load_files(world);
  const LoadPlan whole = plan_of_rank(world, files.headers, rank);
  const auto victim = *rc::gen::inRange<std::uint32_t>(0, static_cast<std::uint32_t>(files.headers.tensors.size()));
  const std::string name = files.headers.tensors[victim].name;
  RC_LOG() << "without " << name << "\n";
  // SGLang joins the two down-projections before it loads them: without one, both are missing.
  const bool joined_before = contains(name, "q_a_proj") || contains(name, "kv_a_proj_with_mqa");
  RC_PRE(world.engine == Engine::vllm || !joined_before);
  std::map<std::string, std::vector<Box>> lost;
  for (const Write& write : whole.writes) {
    if (write.tensor == victim) lost[whole.parameters[write.parameter].name].push_back(write.box);
  }
  files.headers.tensors.erase(files.headers.tensors.begin() + victim);
  const LoadPlan plan = plan_of_rank(world, files.headers, rank);
  const std::vector<Coverage> coverage = coverage_of(plan);
  for (std::size_t i = 0; i < coverage.size(); ++i) {
    if (plan.parameters[i].role == Role::kv_scale || plan.parameters[i].origin != Origin::checkpoint) continue;
    RC_ASSERT(coverage[i].missing == joined(lost[plan.parameters[i].name]));
  }
}

// Of each element of a tensor, the ranks that hold it.
std::vector<std::vector<std::size_t>> holders(const LoadWorld& world, const HeaderSet& headers) {
  std::vector<std::vector<std::size_t>> count(headers.tensors.size());
  for (std::size_t i = 0; i < count.size(); ++i) count[i].resize(headers.tensors[i].elements());
  for (std::size_t rank = 0; rank < world.ranks; ++rank) {
    const LoadPlan plan = plan_of_rank(world, headers, rank);
    for (const Write& write : plan.writes) {
      if (write.conversion.kind == Conversion::Kind::fill) continue;
      for (std::size_t e = 0; e < write.box.experts.size(); ++e) {
        for (std::size_t r = 0; r < write.box.rows.size(); ++r) {
          for (std::size_t c = 0; c < write.box.cols.size(); ++c) ++count[write.tensor][write.source_element(e, r, c)];
        }
      }
    }
  }
  return count;
}

RC_GTEST_PROP(Loads, RanksPartitionWhatIsCutAndRepeatWhatIsNot, ()) {
  const LoadWorld world = drawn_for_any_engine();
  const LoadFiles files = load_files(world);
  const auto count = holders(world, files.headers);
  for (std::size_t i = 0; i < count.size(); ++i) {
    const auto [least, most] = std::ranges::minmax(count[i]);
    // One rank holds an element, or all do; never some.
    RC_LOG() << files.headers.tensors[i].name << " held by " << least << " to " << most << "\n";
    RC_ASSERT(least == most);
    const bool left = is_left_to_target(world, files.headers.tensors[i].name);
    RC_ASSERT((left ? least == 0U : least == 1U || least == world.ranks));
  }
}

}  // namespace
}  // namespace mtpcheck::properties
