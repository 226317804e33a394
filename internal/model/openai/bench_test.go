package openai_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/openai"
)

// canned gives the address of a server that answers each request with one body.
func canned(b *testing.B, body []byte) string {
	b.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		_, _ = w.Write(body)
	}))
	b.Cleanup(server.Close)
	return server.URL
}

// random gives vectors whose numbers are as long as those of models.
func random(count, dimension int) [][]float32 {
	source := rand.New(rand.NewPCG(1, 2))
	vectors := make([][]float32, count)
	for i := range vectors {
		vectors[i] = make([]float32, dimension)
		for j := range vectors[i] {
			vectors[i][j] = float32(source.NormFloat64() / 40)
		}
	}
	return vectors
}

// One request and its answer over loopback; the server's share is the writing of a body that it has.
func BenchmarkRequestOfEmbeddings(b *testing.B) {
	texts := make([]string, 256)
	for i := range texts {
		texts[i] = strings.Repeat(fmt.Sprint("some words of a chunk, number ", i, ". "), 16)
	}
	for _, dimension := range []int{384, 1536} {
		for _, base64 := range []bool{true, false} {
			b.Run(fmt.Sprintf("dimension=%d/base64=%v", dimension, base64), func(b *testing.B) {
				url := canned(b, answer(random(len(texts), dimension), base64))
				embedder := openai.NewEmbedder(openai.Config{BaseURL: url, Model: "m", Dimension: dimension})
				b.ReportAllocs()
				for b.Loop() {
					_, _, err := embedder.Embed(b.Context(), texts)
					require.NoError(b, err)
				}
			})
		}
	}
}

func BenchmarkChatRequest(b *testing.B) {
	content := strings.Repeat(`{\"name\":\"Night Watch\",\"description\":\"A painting by Rembrandt van Rijn.\"},`, 16)
	url := canned(b, []byte(`{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,`+
		`"finish_reason":"stop","message":{"role":"assistant","content":"`+content+`"}}],`+
		`"usage":{"prompt_tokens":500,"completion_tokens":260,"total_tokens":760}}`))
	client := openai.New(openai.Config{BaseURL: url, Model: "m"})
	call := model.Call{
		Task: model.Extract, System: strings.Repeat("Rules of what to extract. ", 40),
		User: strings.Repeat("The text of a chunk. ", 40), Schema: []byte(`{"type":"object"}`),
	}
	b.ReportAllocs()
	for b.Loop() {
		_, err := client.Complete(b.Context(), call)
		require.NoError(b, err)
	}
}
