// What files mean depends on what they hold, not on how it is spelt, and nothing that is taken away goes unnoticed.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <random>

#include "properties/meaning/world.h"
#include "reference/tensor/error.h"

namespace mtpcheck::properties {
namespace {

using Id = MeaningProblem::Id;

Meaning meaning(const World& world, const HeaderSet& headers) {
  return meaning_of(world.config(), world.json(), headers);
}

bool same_bits(const std::map<std::string, std::vector<double>>& a,
               const std::map<std::string, std::vector<double>>& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
    return x.first == y.first && std::ranges::equal(x.second, y.second, [](double p, double q) {
             return std::bit_cast<std::uint64_t>(p) == std::bit_cast<std::uint64_t>(q);
           });
  });
}

RC_GTEST_PROP(AsMeant, CleanCheckpointsHaveNoProblemAndUseEveryTensor, ()) {
  const World world = any_world();
  RC_LOG() << rc::toString(world) << "\n";
  const Files files = files_of(world);
  const Meaning meant = meaning(world, files.headers);
  for (const MeaningProblem& problem : meant.problems) RC_LOG() << describe(problem, files.headers) << "\n";
  RC_ASSERT(meant.problems.empty());
  for (const TensorUse use : meant.uses) RC_ASSERT(use == TensorUse::weight || use == TensorUse::scale);
  RC_CLASSIFY(world.format != Format::bf16, "quantised");
  RC_CLASSIFY(world.packed && world.sparse_mlp, "packed");
}

RC_GTEST_PROP(AsMeant, RemovingAnyOneTensorIsFoundAtTheRightWeight, ()) {
  const World world = any_world();
  RC_LOG() << rc::toString(world) << "\n";
  Files files = files_of(world);
  const auto victim = *rc::gen::inRange<std::size_t>(0, files.headers.tensors.size());
  const TensorView removed = files.headers.tensors[victim];
  RC_LOG() << "without " << removed.name << "\n";
  files.headers.tensors.erase(files.headers.tensors.begin() + static_cast<std::ptrdiff_t>(victim));
  const Meaning meant = meaning(world, files.headers);
  const auto& weights = files.weights_of.at(removed.name);
  const bool scale = removed.name.find("scale") != std::string::npos;
  const bool found = std::ranges::any_of(meant.problems, [&](const MeaningProblem& problem) {
    const bool kind = problem.id == (scale ? Id::scale_missing : Id::missing);
    return problem.blocks && kind && std::ranges::find(weights, problem.weight) != weights.end();
  });
  RC_ASSERT(found);
  RC_ASSERT_THROWS_AS(decoded(world, files.headers), Error);
}

RC_GTEST_PROP(AsMeant, TheOrderOfTensorsAndTheirShardsDoNotMatter, ()) {
  const World world = any_world();
  RC_LOG() << rc::toString(world) << "\n";
  const Files files = files_of(world);
  HeaderSet shuffled = files.headers;
  std::shuffle(shuffled.tensors.begin(), shuffled.tensors.end(), std::mt19937(world.seed));
  for (TensorView& tensor : shuffled.tensors) tensor.file = "m-" + std::to_string(tensor.name.size() % 3);
  RC_ASSERT(same_bits(decoded(world, files.headers), decoded(world, shuffled)));
}

RC_GTEST_PROP(AsMeant, PackedAndSplitExpertsAndBothFormsOfNamesMeanTheSame, ()) {
  World world = any_world();
  RC_LOG() << rc::toString(world) << "\n";
  const auto meant = decoded(world, files_of(world).headers);
  world.packed = !world.packed;
  RC_ASSERT(same_bits(meant, decoded(world, files_of(world).headers)));
  world.layers_form = !world.layers_form;
  RC_ASSERT(same_bits(meant, decoded(world, files_of(world).headers)));
}

RC_GTEST_PROP(AsMeant, AnyOneChangedByteIsAnotherMeaning, ()) {
  World world = any_world();
  world.packed = true;
  RC_LOG() << rc::toString(world) << "\n";
  const auto meant = decoded(world, files_of(world).headers);
  Files files = files_of(world);
  const auto victim = *rc::gen::inRange<std::size_t>(0, files.bytes.size());
  auto& bytes = files.bytes[victim];
  const auto at = *rc::gen::inRange<std::size_t>(0, bytes.size());
  bytes[at] ^= std::byte{0x01};
  RC_LOG() << "byte " << at << " of " << files.headers.tensors[victim].name << "\n";
  RC_ASSERT(!same_bits(meant, decoded(world, files.headers)));
}

RC_GTEST_PROP(AsMeant, AWrongShapeOrDtypeIsNeverTaken, ()) {
  const World world = any_world();
  RC_LOG() << rc::toString(world) << "\n";
  Files files = files_of(world);
  const auto victim = *rc::gen::inRange<std::size_t>(0, files.headers.tensors.size());
  TensorView& tensor = files.headers.tensors[victim];
  RC_PRE(!tensor.shape.empty());
  const auto axis = *rc::gen::inRange<std::size_t>(0, tensor.shape.size());
  tensor.shape[axis] += *rc::gen::inRange<std::size_t>(1, 3);
  RC_LOG() << tensor.name << " as " << to_string(tensor.shape) << "\n";
  const Meaning meant = meaning(world, files.headers);
  RC_ASSERT(std::ranges::any_of(meant.problems, &MeaningProblem::blocks));
}

RC_GTEST_PROP(AsMeant, AnIndexThatDoesNotListATensorsFileIsAsIfItWereNotThere, ()) {
  const World world = any_world();
  Files files = files_of(world);
  const auto victim = *rc::gen::inRange<std::size_t>(0, files.headers.tensors.size());
  files.headers.indexed_files = {"m.safetensors"};
  RC_ASSERT(meaning(world, files.headers).problems.empty());
  files.headers.tensors[victim].file = "other.safetensors";
  const Meaning meant = meaning(world, files.headers);
  RC_ASSERT(meant.uses[victim] == TensorUse::not_listed);
  RC_ASSERT(std::ranges::any_of(meant.problems, &MeaningProblem::blocks));
}

}  // namespace
}  // namespace mtpcheck::properties
