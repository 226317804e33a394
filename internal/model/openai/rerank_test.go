package openai_test

import (
	"testing"
	"time"

	"github.com/unweaver/unweaver/internal/model/openai"
	"github.com/unweaver/unweaver/internal/model/rerank"
	"github.com/unweaver/unweaver/internal/testkit/reranktest"
)

func TestRerankerKeepsTheContractOfItsPort(t *testing.T) {
	reranktest.Run(t, func(baseURL, key, model string, timeout time.Duration) rerank.Ranker {
		return openai.NewReranker(openai.Config{BaseURL: baseURL, APIKey: key, Model: model, Timeout: timeout})
	})
}
