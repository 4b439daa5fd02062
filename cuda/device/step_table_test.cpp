#include "cuda/device/step_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "reference/tensor/error.h"

namespace mtpcheck::cuda {
namespace {

using ::testing::HasSubstr;

const std::vector<MeasuredStep> kSteps{{1, 0.8e-3, 0.6e-3, 4e-3}, {16, 2.5e-3, 2e-3, std::nullopt}};

TEST(StepTable, HasFloorEagerAndTheirRatios) {
  EXPECT_EQ(step_table(kSteps),
            "| T | ms | floor, ms | of the floor's rate | LibTorch eager, ms | eager / ours |\n"
            "|---|---|---|---|---|---|\n"
            "| 1 | 0.800 | 0.600 | 75 % | 4.000 | 5.0 |\n"
            "| 16 | 2.500 | 2.000 | 80 % | not measured | not measured |\n");
}

TEST(StepTable, JsonSaysWhatWasNotMeasured) {
  const auto json = step_json(kSteps);
  EXPECT_NEAR(json[0]["of_floor_rate"].get<double>(), 0.75, 1e-12);
  EXPECT_NEAR(json[0]["eager_over_ours"].get<double>(), 5.0, 1e-12);
  EXPECT_EQ(json[1]["eager_seconds"], "not measured");
  EXPECT_EQ(json[1]["eager_over_ours"], "not measured");
}

class EagerFile : public ::testing::Test {
 protected:
  ~EagerFile() override { std::filesystem::remove(path_); }

  EagerFigures read(const std::string& text) const {
    std::ofstream(path_) << text;
    return EagerFigures(path_, 8192);
  }
  std::string message(const std::string& text) const {
    try {
      read(text);
    } catch (const Error& error) {
      return error.what();
    }
    return "(nothing)";
  }

  std::string path_ = (std::filesystem::temp_directory_path() /
                       ("eager_figures_" + std::to_string(reinterpret_cast<std::uintptr_t>(this)) + ".json"))
                          .string();
};

TEST_F(EagerFile, FiguresAreFoundByStorageAndTokens) {
  const auto figures = read(R"({"device": "NVIDIA H200", "torch": "2.15.0", "keys": 8192,
    "bf16": {"steps": [{"tokens": 1, "seconds": 0.5}, {"tokens": 2, "seconds": 0.75}]},
    "mxfp8": {"steps": [{"tokens": 1, "seconds": 0.25}]}})");
  EXPECT_EQ(figures.source(), "2.15.0 on NVIDIA H200");
  EXPECT_EQ(figures.seconds("bf16", 2), 0.75);
  EXPECT_EQ(figures.seconds("mxfp8", 1), 0.25);
  EXPECT_EQ(figures.seconds("mxfp8", 2), std::nullopt);
  EXPECT_EQ(figures.seconds("fp8_block", 1), std::nullopt);
}

TEST_F(EagerFile, NotRunIsNotMeasured) {
  EXPECT_EQ(EagerFigures().source(), "not measured");
  EXPECT_EQ(EagerFigures().seconds("bf16", 1), std::nullopt);
}

TEST_F(EagerFile, AnythingElseIsRefusedByName) {
  EXPECT_THAT(message("nonsense"), HasSubstr(path_ + ": not what eager/bench.py writes"));
  EXPECT_THAT(message(R"({"keys": 8192})"), HasSubstr("not found"));
  EXPECT_THAT(message(R"({"keys": 64})"), HasSubstr("measured with 64 keys a sequence, expected 8192"));
  EXPECT_THROW(EagerFigures("no such file", 8192), Error);
}

}  // namespace
}  // namespace mtpcheck::cuda
