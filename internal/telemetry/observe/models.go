package observe

import (
	"context"
	"time"

	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/rerank"
)

// Chat puts an observer right around the adapter of a chat model, below its limits.
func Chat(chat model.Chat, observer Observer) model.Chat {
	if observer == nil {
		return chat
	}
	return sentChat{chat, observer}
}

// Embedder puts an observer right around the adapter of an embedder, as Chat does for a chat model.
func Embedder(embedder model.Embedder, observer Observer) model.Embedder {
	if observer == nil {
		return embedder
	}
	return sentEmbedder{embedder, observer}
}

// reportWait reports how long a request waited since it met its limits.
func reportWait(ctx context.Context, observer Observer, request Request) {
	if since, ok := model.AskedAt(ctx); ok {
		observer.NoteWait(request, time.Since(since))
	}
}

func requestOf(info model.Info, task string) Request {
	return Request{Endpoint: info.Endpoint, Model: info.Model, Task: task}
}

type sentChat struct {
	model.Chat
	observer Observer
}

// Unwrap gives the model below, for model.As.
func (s sentChat) Unwrap() model.Chat { return s.Chat }

// Complete implements model.Chat.
func (s sentChat) Complete(ctx context.Context, call model.Call) (reply model.Reply, err error) {
	request := requestOf(s.Info(), call.Task)
	reportWait(ctx, s.observer, request)
	ctx, end := s.observer.BeginModel(ctx, request)
	defer func() { end(reply.Usage, reply.Model, err) }()
	return s.Chat.Complete(ctx, call)
}

type sentEmbedder struct {
	model.Embedder
	observer Observer
}

// Unwrap gives the embedder below, for model.As.
func (s sentEmbedder) Unwrap() model.Embedder { return s.Embedder }

// Embed implements model.Embedder.
func (s sentEmbedder) Embed(ctx context.Context, texts []string) (out [][]float32, usage model.Usage, err error) {
	request := requestOf(s.Info(), model.EmbedTask)
	reportWait(ctx, s.observer, request)
	ctx, end := s.observer.BeginModel(ctx, request)
	defer func() { end(usage, "", err) }()
	return s.Embedder.Embed(ctx, texts)
}

// Ranker puts an observer right around the adapter of a reranker, as Chat does for a chat model.
func Ranker(ranker rerank.Ranker, observer Observer) rerank.Ranker {
	if observer == nil {
		return ranker
	}
	return sentRanker{ranker, observer}
}

type sentRanker struct {
	rerank.Ranker
	observer Observer
}

// Rerank implements rerank.Ranker.
func (s sentRanker) Rerank(
	ctx context.Context, question string, texts []string,
) (scores []float64, usage model.Usage, err error) {
	request := requestOf(s.Info(), rerank.Task)
	reportWait(ctx, s.observer, request)
	ctx, end := s.observer.BeginModel(ctx, request)
	defer func() { end(usage, "", err) }()
	return s.Ranker.Rerank(ctx, question, texts)
}
