#include "cuda/runtime/graph.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

struct Graph::State {
  std::function<void()> enqueue;
};

Graph::Graph(Stream /*stream*/, std::function<void()> enqueue)
    : state_(std::make_unique<State>(State{std::move(enqueue)})) {}
Graph::~Graph() = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;

void Graph::launch(Stream /*stream*/) const { state_->enqueue(); }

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
