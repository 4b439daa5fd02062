#include "harness/loading/audit/bytes/byte_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "harness/loading/audit/bytes/scan.h"
#include "harness/loading/audit/words/pieces.h"
#include "harness/loading/meaning/mtp_names.h"

namespace mtpcheck {

namespace {

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> ends) {
  return std::ranges::any_of(ends, [name](std::string_view end) { return name.ends_with(end); });
}

Content content_of(const AuditView& view, std::uint32_t index) {
  const TensorView& tensor = view.tensor(index);
  const auto use = view.meaning.uses[index];
  const auto name = mtp_name(tensor.name, view.config.num_hidden_layers);
  if (use == TensorUse::scale || use == TensorUse::input_scale) return Content::scale;
  if (!name) return Content::other;  // embedding and head
  if (ends_with_any(name->rest, {"learnable_sink_param", "sinks"})) return Content::sink;
  if (ends_with_any(name->rest, {"norm.weight"})) return Content::norm;
  if (name->rest == "enorm.weight" || name->rest == "hnorm.weight") return Content::norm;
  if (ends_with_any(name->rest, {"bias"}) || name->rest.starts_with("embed_tokens.") ||
      name->rest.starts_with("shared_head.head")) {
    return Content::other;
  }
  return Content::matrix;
}

bool is_used(TensorUse use) {
  return use == TensorUse::weight || use == TensorUse::scale || use == TensorUse::input_scale ||
         use == TensorUse::unknown;
}

/// Offset of an element's first byte in its file.
std::uint64_t offset_of(const TensorView& tensor, std::size_t element) {
  return tensor.offset + element * bits_of(tensor.dtype) / 8;
}

Finding finding_of(const TensorView& tensor, const Suspicion& suspicion) {
  Finding finding;
  finding.id = suspicion.sentinel ? "sentinel" : "non-finite";
  finding.subject = tensor.name;
  const bool rows = suspicion.what.starts_with("all-zero row");
  const std::size_t element = rows ? suspicion.first * tensor.shape.back() : suspicion.first;
  const std::string place = rows ? fmt::format("row {}", suspicion.first) : coordinates(tensor, suspicion.first);
  finding.found = fmt::format("{}, {} times, first at {} (byte {} of {})", suspicion.what, suspicion.count, place,
                              offset_of(tensor, element), tensor.file);
  finding.expected = suspicion.sentinel ? "trained values" : "finite numbers";
  return finding;
}

struct Copy {
  std::uint32_t own;
  std::string shared;
};

std::vector<Copy> copies_of(const AuditView& view) {
  std::vector<Copy> copies;
  for (std::uint32_t i = 0; i < view.headers.tensors.size(); ++i) {
    const auto name = mtp_name(view.tensor(i).name, view.config.num_hidden_layers);
    if (!name) continue;
    if (name->rest == "embed_tokens.weight") copies.push_back({i, "model.embed_tokens.weight"});
    if (name->rest == "shared_head.head.weight") copies.push_back({i, "lm_head.weight"});
  }
  return copies;
}

const TensorView* find(const AuditView& view, const std::string& name) {
  const auto found = std::ranges::find(view.headers.tensors, name, &TensorView::name);
  return found == view.headers.tensors.end() ? nullptr : &*found;
}

/// Largest |a − b|; nullopt where shapes differ or there are no bytes.
std::optional<double> largest_difference(const TensorView& a, const TensorView& b) {
  if (a.bytes.empty() || b.bytes.empty() || a.shape != b.shape) return std::nullopt;
  if (a.dtype == b.dtype && std::ranges::equal(a.bytes, b.bytes)) return 0.0;
  const auto x = to_f32(a);
  const auto y = to_f32(b);
  double largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double difference = std::abs(static_cast<double>(x[i]) - y[i]);
    if (!(difference <= largest)) largest = difference;
  }
  return largest;
}

void add_tied(const AuditView& view, std::vector<Finding>& findings) {
  const TensorView* head = find(view, "lm_head.weight");
  const TensorView* embedding = find(view, "model.embed_tokens.weight");
  if (!view.config.tie_word_embeddings || head == nullptr || embedding == nullptr) return;
  const auto difference = largest_difference(*head, *embedding);
  if (difference == 0.0) return;
  const bool known = difference.has_value();
  findings.push_back(
      {"tied-head-differs", known ? Severity::error : Severity::info, Cause::checkpoint, head->name,
       known ? fmt::format("differs from the embedding by up to {:.6g}, and tie_word_embeddings is true", *difference)
             : "a head of its own, and tie_word_embeddings is true",
       "no head, or the embedding's numbers", ""});
}

}  // namespace

void add_byte_findings(const AuditView& view, std::vector<Finding>& findings) {
  for (std::uint32_t i = 0; i < view.headers.tensors.size(); ++i) {
    const TensorView& tensor = view.tensor(i);
    if (tensor.bytes.empty() || !is_used(view.meaning.uses[i])) continue;
    for (const Suspicion& suspicion : scan(tensor, content_of(view, i))) {
      findings.push_back(finding_of(tensor, suspicion));
    }
  }
}

void add_copy_findings(const AuditView& view, std::vector<Finding>& findings) {
  for (const auto& [own, shared] : copies_of(view)) {
    const TensorView& copy = view.tensor(own);
    const TensorView* const other = find(view, shared);
    Finding finding{
        "ignored-differs", Severity::info, Cause::checkpoint, copy.name, "", "the shared tensor's numbers", ""};
    if (other == nullptr) {
      finding.severity = Severity::warning;
      finding.found = fmt::format("is skipped, and there is no {} that could be shared instead", shared);
      findings.push_back(std::move(finding));
      continue;
    }
    const auto difference = largest_difference(copy, *other);
    if (!difference || *difference == 0.0) continue;
    finding.found = fmt::format("is skipped, and differs from {} by up to {:.6g}", shared, *difference);
    findings.push_back(std::move(finding));
  }
  add_tied(view, findings);
}

}  // namespace mtpcheck
