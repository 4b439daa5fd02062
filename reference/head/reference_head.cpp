#include "reference/head/reference_head.h"

#include <fmt/format.h>

#include <utility>
#include <variant>

#include "reference/head/layered_head.h"

namespace mtpcheck {

struct ReferenceHead::Precisions {
  using Both = std::variant<LayeredHead<float>, LayeredHead<double>>;

  template <class Call>
  decltype(auto) visit(Call&& call) {
    return std::visit(std::forward<Call>(call), both);
  }

  Both both;
};

namespace {

template <class Both>
Both in_precision(HeadConfig config, HeadWeights weights, Conventions conventions, ReferenceOptions options) {
  if (options.precision == Precision::f64) {
    return Both(std::in_place_index<1>, std::move(config), std::move(weights), conventions, std::move(options));
  }
  return Both(std::in_place_index<0>, std::move(config), std::move(weights), conventions, std::move(options));
}

}  // namespace

ReferenceHead::ReferenceHead(HeadConfig config, HeadWeights weights, Conventions conventions, ReferenceOptions options)
    : head_(std::make_unique<Precisions>(Precisions{
          in_precision<Precisions::Both>(std::move(config), std::move(weights), conventions, std::move(options))})) {}

ReferenceHead::~ReferenceHead() = default;

std::string ReferenceHead::name() const {
  return head_->visit([](auto& head) { return fmt::format("reference {}", to_string(head.options().precision)); });
}

void ReferenceHead::reset() {
  head_->visit([](auto& head) { head.reset(); });
}

void ReferenceHead::forward(const HeadInput& input, const ForwardOptions& options, StageSink& sink) {
  head_->visit([&](auto& head) { head.forward(input, options, sink); });
}

void ReferenceHead::rollback(std::size_t sequence, std::size_t length) {
  head_->visit([&](auto& head) { head.rollback(sequence, length); });
}

std::size_t ReferenceHead::cached_rows(std::size_t sequence) const {
  return head_->visit([&](const auto& head) { return head.cached_rows(sequence); });
}

void ReferenceHead::set_topk_indices_buffer(std::shared_ptr<TopkIndicesBuffer> buffer) {
  head_->visit([&](auto& head) { head.set_topk_indices_buffer(std::move(buffer)); });
}

void ReferenceHead::set_skip_topk(bool skip) {
  head_->visit([&](auto& head) { head.set_skip_topk(skip); });
}

void ReferenceHead::compact_topk_indices(std::span<const std::size_t> slot_ids) {
  head_->visit([&](auto& head) { head.compact_topk_indices(slot_ids); });
}

std::vector<ReplayedTensor> ReferenceHead::replay(Stage stage, const HeadInput& input, const RecordedStages& recorded,
                                                  const ReplayOptions& options) const {
  return head_->visit([&](const auto& head) { return head.replay(stage, input, recorded, options); });
}

const HeadConfig& ReferenceHead::config() const {
  return head_->visit([](const auto& head) -> const HeadConfig& { return head.config(); });
}

const Conventions& ReferenceHead::conventions() const {
  return head_->visit([](const auto& head) -> const Conventions& { return head.conventions(); });
}

const RoundingPlan& ReferenceHead::rounding() const {
  return head_->visit([](const auto& head) -> const RoundingPlan& { return head.rounding(); });
}

std::unique_ptr<ReferenceHead> make_reference_head(HeadConfig config, HeadWeights weights, Conventions conventions,
                                                   ReferenceOptions options) {
  return std::make_unique<ReferenceHead>(std::move(config), std::move(weights), conventions, std::move(options));
}

}  // namespace mtpcheck
