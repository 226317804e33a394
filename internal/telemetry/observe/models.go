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

// AskedChat belongs around a chat model with its limits: from there to Chat below it a request waits.
func AskedChat(chat model.Chat, observer Observer) model.Chat {
	if observer == nil {
		return chat
	}
	return askedChat{chat}
}

// AskedEmbedder does for an embedder what AskedChat does for a chat model.
func AskedEmbedder(embedder model.Embedder, observer Observer) model.Embedder {
	if observer == nil {
		return embedder
	}
	return askedEmbedder{embedder}
}

type asked struct{}

func markAsked(ctx context.Context) context.Context {
	return context.WithValue(ctx, asked{}, time.Now())
}

func reportWait(ctx context.Context, observer Observer, request Request) {
	if since, ok := ctx.Value(asked{}).(time.Time); ok {
		observer.NoteWait(request, time.Since(since))
	}
}

func requestOf(info model.Info, task string) Request {
	return Request{Endpoint: info.Endpoint, Model: info.Model, Task: task}
}

type askedChat struct{ model.Chat }

// Unwrap gives the model below, for model.As.
func (a askedChat) Unwrap() model.Chat { return a.Chat }

// Complete implements model.Chat.
func (a askedChat) Complete(ctx context.Context, call model.Call) (model.Reply, error) {
	return a.Chat.Complete(markAsked(ctx), call)
}

type askedEmbedder struct{ model.Embedder }

// Unwrap gives the embedder below, for model.As.
func (a askedEmbedder) Unwrap() model.Embedder { return a.Embedder }

// Embed implements model.Embedder.
func (a askedEmbedder) Embed(ctx context.Context, texts []string) ([][]float32, model.Usage, error) {
	return a.Embedder.Embed(markAsked(ctx), texts)
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

// AskedRanker does for a reranker what AskedChat does for a chat model.
func AskedRanker(ranker rerank.Ranker, observer Observer) rerank.Ranker {
	if observer == nil {
		return ranker
	}
	return askedRanker{ranker}
}

type askedRanker struct{ rerank.Ranker }

// Rerank implements rerank.Ranker.
func (a askedRanker) Rerank(ctx context.Context, question string, texts []string) ([]float64, model.Usage, error) {
	return a.Ranker.Rerank(markAsked(ctx), question, texts)
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
