#include "harness/inputs/input_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/checkpoint/safetensors/writer.h"
#include "harness/checkpoint/scratch_directory.h"
#include "harness/inputs/tensor_file.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

HeadConfig small() {
  HeadConfig config;
  config.hidden_size = 2;
  config.vocab_size = 10;
  return config;
}

// The tensors of an input file, to be edited.
struct Inputs {
  std::vector<std::int64_t> ids{1, 2, 9};
  std::vector<std::int64_t> positions{0, 1, 0};
  std::vector<float> states{1, 2, 3, 4, 5, 6};
  Shape states_shape{3, 2};
  std::vector<std::int64_t> bounds{0, 2, 3};

  HeadInput read(const char* states_name = "hidden_states", const std::string& prefix = {}) const {
    const ScratchDirectory scratch;
    const auto path = scratch.path() / "inputs.safetensors";
    const Tensor a = tensor_of<std::int64_t>({ids.size()}, ids);
    const Tensor b = tensor_of<std::int64_t>({positions.size()}, positions);
    const Tensor c = tensor_of<float>(states_shape, states);
    const Tensor d = tensor_of<std::int64_t>({bounds.size()}, bounds);
    std::vector<TensorView> views{a.view("input_ids"), b.view("positions"), c.view(states_name)};
    if (!bounds.empty()) views.push_back(d.view("cu_seqlens"));
    write_safetensors(path, views);
    return read_head_input(path, small(), prefix);
  }

  std::string failure(const char* states_name = "hidden_states") const {
    try {
      read(states_name);
    } catch (const Error& error) {
      EXPECT_EQ(error.failure(), Failure::input);
      EXPECT_THAT(error.what(), HasSubstr("inputs.safetensors: "));
      return error.what();
    }
    return "accepted";
  }
};

TEST(InputFile, RowsAreReadAsTheyAre) {
  Inputs inputs;
  HeadInput input = inputs.read();
  EXPECT_THAT(input.input_ids, ElementsAre(1, 2, 9));
  EXPECT_THAT(input.positions, ElementsAre(0, 1, 0));
  EXPECT_THAT(to_f64(input.hidden_states.view()), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(input.sequences(), 2U);
  inputs.bounds.clear();
  EXPECT_THAT(inputs.read().cu_seqlens, ElementsAre(0, 3)) << "absent: one sequence";
}

TEST(InputFile, ATraceGivesOneRowLessThanTokens) {
  Inputs inputs;
  inputs.positions = {5, 6, 7};
  const HeadInput input = inputs.read("target_hidden");
  EXPECT_THAT(input.input_ids, ElementsAre(2, 9)) << "row i holds token i+1";
  EXPECT_THAT(input.positions, ElementsAre(5, 6));
  EXPECT_THAT(to_f64(input.hidden_states.view()), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(input.cu_seqlens, ElementsAre(0, 2));
}

TEST(InputFile, GoldenPassagesAreReadFromBothFormats) {
  HeadConfig config;
  config.hidden_size = 256;
  config.vocab_size = 288;
  const std::string folder = MTPCHECK_GOLDEN_DIR "/tiny-hy4/traces/passage-00";
  const HeadInput a = read_head_input(folder + ".safetensors", config);
  const HeadInput b = read_head_input(folder + ".h5", config);
  EXPECT_EQ(a.tokens(), 159U);
  EXPECT_EQ(a.input_ids, b.input_ids);
  EXPECT_EQ(a.hidden_states.dtype, Dtype::bf16);
  EXPECT_EQ(to_f64(a.hidden_states.view()), to_f64(b.hidden_states.view()));
}

TEST(InputFile, APrefixReadsALaterStep) {
  HeadConfig config;
  config.hidden_size = 64;
  config.vocab_size = 97;
  const std::string file = MTPCHECK_GOLDEN_DIR "/forward/chained/inputs.safetensors";
  EXPECT_EQ(read_head_input(file, config, "step1.").tokens(), read_head_input(file, config).tokens() + 1);
}

TEST(InputFile, WhatDoesNotFitIsRefusedWithTheReason) {
  const auto failure = [](auto edit) {
    Inputs inputs;
    edit(inputs);
    return inputs.failure();
  };
  EXPECT_THAT(failure([](Inputs& i) { i.ids[1] = 10; }), HasSubstr("input_ids[1] is 10; 0 to 9 were expected"));
  EXPECT_THAT(failure([](Inputs& i) { i.ids[0] = -1; }), HasSubstr("input_ids[0] is -1"));
  EXPECT_THAT(failure([](Inputs& i) { i.positions[2] = -1; }), HasSubstr("positions[2] is -1"));
  EXPECT_THAT(failure([](Inputs& i) { i.ids.pop_back(); }), HasSubstr("2 input_ids but 3 positions"));
  EXPECT_THAT(failure([](Inputs& i) { i.states_shape = {2, 3}; }), AllOf(HasSubstr("[2, 3]"), HasSubstr("[3, 2]")));
  EXPECT_THAT(failure([](Inputs& i) { i.states_shape = {6}; }), HasSubstr("2 dimensions were expected"));
  EXPECT_THAT(failure([](Inputs& i) { i.bounds = {0, 2}; }), HasSubstr("from 0 to 3"));
  EXPECT_THAT(failure([](Inputs& i) { i.bounds = {0, 2, 2, 3}; }), HasSubstr("cu_seqlens[2] is 2 after 2"));
  EXPECT_THAT(failure([](Inputs& i) {
                i.ids.clear();
                i.positions.clear();
                i.states.clear();
                i.states_shape = {0, 2};
              }),
              HasSubstr("no rows"));
  EXPECT_THAT(Inputs().failure("states"), AllOf(HasSubstr("no tensor hidden_states"), HasSubstr("the file holds ")));
  Inputs uneven;
  uneven.positions.pop_back();
  EXPECT_THAT(uneven.failure("target_hidden"), HasSubstr("3 input_ids, 2 positions"));
}

}  // namespace
}  // namespace mtpcheck
