#include "harness/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "harness/checkpoint/headers_file.h"
#include "harness/checkpoint/scratch_directory.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string bytes_tensors(const std::vector<std::string>& names) {
  std::string header = "{";
  for (std::size_t i = 0; i < names.size(); ++i) {
    header += (i == 0 ? "\"" : ",\"") + names[i] + R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" +
              std::to_string(i) + "," + std::to_string(i + 1) + "]}";
  }
  return safetensors_bytes(header + "}", names.size());
}

std::vector<std::string> ids(const Checkpoint& checkpoint) {
  std::vector<std::string> all;
  for (const Problem& problem : checkpoint.problems) {
    all.push_back(std::string(to_string(problem.id)) + " " + problem.file + " " + problem.tensor);
    EXPECT_THAT(problem.message, ::testing::Not(IsEmpty()));
  }
  return all;
}

std::vector<std::string> names(const Checkpoint& checkpoint) {
  std::vector<std::string> all;
  for (const TensorView& tensor : checkpoint.headers.tensors) all.push_back(tensor.name);
  return all;
}

TEST(Checkpoint, TheFourGoldenOnesAreSound) {
  for (const char* name : {"bf16", "split", "fp8-block", "mxfp8"}) {
    const Checkpoint checkpoint = open_checkpoint(std::string(MTPCHECK_GOLDEN_DIR "/tiny-hy4/checkpoint-") + name);
    EXPECT_THAT(ids(checkpoint), IsEmpty()) << name;
    EXPECT_EQ(checkpoint.config.at("hidden_size"), 256);
    EXPECT_EQ(checkpoint.conventions.at("rope"), "half-split");
    EXPECT_NO_THROW(require_sound(checkpoint));
    for (const TensorView& tensor : checkpoint.headers.tensors) {
      EXPECT_EQ(tensor.bytes.size(), byte_size(tensor.dtype, tensor.elements())) << tensor.name;
    }
  }
}

TEST(Checkpoint, TensorsComeInTheEnginesReadOrder) {
  const ScratchDirectory scratch;
  scratch.write("config.json", "{}");
  scratch.write("m-10.safetensors", bytes_tensors({"c", "a"}));
  scratch.write("m-2.safetensors", bytes_tensors({"z", "b"}));
  scratch.write(
      "model.safetensors.index.json",
      R"({"weight_map": {"a": "m-10.safetensors", "b": "m-2.safetensors", "c": "m-10.safetensors", "z": "m-2.safetensors"}})");
  const Checkpoint checkpoint = open_checkpoint(scratch.path());
  EXPECT_THAT(ids(checkpoint), IsEmpty());
  EXPECT_THAT(names(checkpoint), ElementsAre("b", "z", "a", "c"));
  EXPECT_THAT(*checkpoint.headers.indexed_files, ElementsAre("m-2.safetensors", "m-10.safetensors"));
  EXPECT_EQ(to_i64(checkpoint.headers.tensors[0]), std::vector<std::int64_t>{1});
}

TEST(Checkpoint, UnalignedTensorsAreReadAsTheyLie) {
  const ScratchDirectory scratch;
  scratch.write("config.json", "{}");
  std::string header = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                       R"("f":{"dtype":"F32","shape":[2],"data_offsets":[1,9]},)"
                       R"("g":{"dtype":"F64","shape":[1],"data_offsets":[9,17]},)"
                       R"("h":{"dtype":"BF16","shape":[1],"data_offsets":[17,19]},)"
                       R"("i":{"dtype":"I64","shape":[1],"data_offsets":[19,27]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string file = safetensors_bytes(header, 27);
  const float floats[2] = {1.5F, -0.25F};
  const double number = 1e-300;
  const std::int64_t integer = -5'000'000'000;
  std::memcpy(file.data() + file.size() - 26, floats, sizeof(floats));
  std::memcpy(file.data() + file.size() - 18, &number, sizeof(number));
  std::memcpy(file.data() + file.size() - 8, &integer, sizeof(integer));
  scratch.write("model.safetensors", file);
  const Checkpoint checkpoint = open_checkpoint(scratch.path());
  ASSERT_THAT(ids(checkpoint), IsEmpty());
  const auto& tensors = checkpoint.headers.tensors;
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensors[1].bytes.data()) % 8, 1U);
  EXPECT_THAT(to_f32(tensors[1]), ElementsAre(1.5F, -0.25F));
  EXPECT_THAT(to_f64(tensors[2]), ElementsAre(1e-300));
  EXPECT_THAT(to_i64(tensors[4]), ElementsAre(-5'000'000'000));
}

TEST(Checkpoint, AMissingShardIsOneProblemWithItsTensorsCounted) {  // FAULTS F01
  const ScratchDirectory scratch;
  scratch.write("config.json", "{}");
  scratch.write("m-1.safetensors", bytes_tensors({"a"}));
  scratch.write(
      "model.safetensors.index.json",
      R"({"weight_map": {"a": "m-1.safetensors", "c": "m-2.safetensors", "b": "m-2.safetensors", "d": "../x"}})");
  const Checkpoint checkpoint = open_checkpoint(scratch.path());
  EXPECT_THAT(ids(checkpoint), ElementsAre("shard-missing ../x d", "shard-missing m-2.safetensors b"));
  EXPECT_THAT(checkpoint.problems[1].message, HasSubstr("holds 2 tensors, b the first"));
}

TEST(Checkpoint, PlacesOtherThanTheIndexSaysAreMismatches) {  // FAULTS F01
  const ScratchDirectory scratch;
  scratch.write("config.json", "{}");
  scratch.write("m-1.safetensors", bytes_tensors({"a", "swapped", "extra"}));
  scratch.write("m-2.safetensors", bytes_tensors({"b"}));
  scratch.write("m-3.safetensors", bytes_tensors({"a", "lost", "lost2"}));
  scratch.write(
      "model.safetensors.index.json",
      R"({"weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors", "swapped": "m-2.safetensors", "gone": "m-1.safetensors"}})");
  const Checkpoint checkpoint = open_checkpoint(scratch.path());
  EXPECT_THAT(ids(checkpoint),
              ElementsAre("index-mismatch m-3.safetensors lost", "index-mismatch m-1.safetensors extra",
                          "index-mismatch m-1.safetensors swapped", "index-mismatch m-1.safetensors gone"));
  EXPECT_FALSE(checkpoint.files[2].listed);
  EXPECT_THAT([&] { require_sound(checkpoint); },
              ::testing::ThrowsMessage<Error>(AllOf(HasSubstr("2 in all"), HasSubstr("3 more problems"))));
}

TEST(Checkpoint, AnUnlistedCopyOfListedTensorsIsNoProblem) {
  const ScratchDirectory scratch;
  scratch.write("config.json", "{}");
  scratch.write("consolidated.safetensors", bytes_tensors({"a"}));
  scratch.write("model.safetensors", bytes_tensors({"a"}));
  scratch.write("model.safetensors.index.json", R"({"weight_map": {"a": "model.safetensors"}})");
  EXPECT_THAT(ids(open_checkpoint(scratch.path())), IsEmpty());
}

TEST(Checkpoint, ANameInTwoShardsIsADuplicate) {  // FAULTS F03
  const ScratchDirectory scratch;
  scratch.write("config.json", "{}");
  scratch.write("m-1.safetensors", bytes_tensors({"a"}));
  scratch.write("m-2.safetensors", bytes_tensors({"a"}));
  scratch.write("model.safetensors.index.json", R"({"weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}})");
  const Checkpoint checkpoint = open_checkpoint(scratch.path());
  EXPECT_THAT(ids(checkpoint), ElementsAre("duplicate-tensor m-2.safetensors a", "index-mismatch m-2.safetensors b"));
  EXPECT_FALSE(makes_unreadable(checkpoint.problems[0].id));
}

TEST(Checkpoint, UnreadableFilesGiveNoTensorsAndNoFalseMismatches) {  // FAULTS F02, F04
  const ScratchDirectory scratch;
  scratch.write("config.json", "{\"a\": }");
  const std::string sound = bytes_tensors({"a", "b"});
  scratch.write("m-1.safetensors", sound.substr(0, sound.size() - 1));
  scratch.write("m-2.safetensors", "nonsense");
  scratch.write("model.safetensors.index.json",
                R"({"weight_map": {"a": "m-1.safetensors", "b": "m-1.safetensors", "c": "m-2.safetensors"}})");
  const Checkpoint checkpoint = open_checkpoint(scratch.path());
  EXPECT_THAT(ids(checkpoint), ElementsAre("corrupt-config config.json ", "truncated m-1.safetensors b",
                                           "corrupt-header m-2.safetensors "));
  EXPECT_TRUE(checkpoint.headers.tensors.empty());
  EXPECT_TRUE(checkpoint.config.is_null());
}

TEST(Checkpoint, AnEmptyDirectoryAndNoDirectory) {
  const ScratchDirectory scratch;
  EXPECT_THAT(ids(open_checkpoint(scratch.path())),
              ElementsAre("corrupt-config config.json ", "shard-missing model.safetensors "));
  EXPECT_THROW(open_checkpoint(scratch.path() / "absent"), Error);
  EXPECT_THROW(open_checkpoint(scratch.write("file", "{}")), Error);
}

TEST(Checkpoint, AHeadersFileIsTheSameCheckpointWithoutBytes) {
  const ScratchDirectory scratch;
  const Checkpoint direct = open_checkpoint(MTPCHECK_GOLDEN_DIR "/tiny-hy4/checkpoint-bf16");
  const Checkpoint read = open_checkpoint(scratch.write("headers.json", headers_document(direct)));
  EXPECT_TRUE(read.headers_only);
  EXPECT_THAT(ids(read), IsEmpty());
  EXPECT_EQ(read.config, direct.config);
  EXPECT_EQ(read.conventions, direct.conventions);
  EXPECT_EQ(read.headers.indexed_files, direct.headers.indexed_files);
  EXPECT_EQ(identity_of(read), identity_of(direct));
  ASSERT_EQ(read.headers.tensors.size(), direct.headers.tensors.size());
  EXPECT_TRUE(read.headers.tensors.front().bytes.empty());
  EXPECT_EQ(headers_document(read), headers_document(direct));
}

TEST(Checkpoint, ContradictionsSurviveAHeadersFile) {
  const ScratchDirectory scratch;
  scratch.write("config.json", "{}");
  scratch.write("m-1.safetensors", bytes_tensors({"a"}));
  scratch.write("m-2.safetensors", bytes_tensors({"a"}));
  scratch.write("model.safetensors.index.json", R"({"weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}})");
  const Checkpoint direct = open_checkpoint(scratch.path());
  EXPECT_EQ(ids(open_checkpoint(scratch.write("headers.json", headers_document(direct)))), ids(direct));
}

TEST(Checkpoint, TheIdentityDependsOnHeadersAndConfig) {
  const ScratchDirectory a;
  const ScratchDirectory b;
  for (const auto* scratch : {&a, &b}) {
    scratch->write("config.json", "{}");
    scratch->write("model.safetensors", bytes_tensors({"a", "b"}));
  }
  EXPECT_EQ(identity_of(open_checkpoint(a.path())), identity_of(open_checkpoint(b.path())));
  b.write("config.json", R"({"a": 1})");
  EXPECT_NE(identity_of(open_checkpoint(a.path())), identity_of(open_checkpoint(b.path())));
}

}  // namespace
}  // namespace mtpcheck
